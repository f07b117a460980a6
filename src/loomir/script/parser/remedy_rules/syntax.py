"""Remedies for what Python has and programs lack."""

from __future__ import annotations

import ast
import copy
import re
from typing import Any

from loomir.script.parser.remedy_rules.spot import AXES, Spot, write_text

__all__ = ["choose_by_call", "compare", "compare_with_zero", "loop_over_buffers", "replace_syntax"]


def replace_syntax(spot: Spot) -> str | None:
    """Write what stands for an assignment in an expression, a comprehension or a lambda."""
    node = spot.here[0]
    around = spot.parent
    if isinstance(node, ast.Assign) and isinstance(around, ast.ClassDef):
        return f"write {write_text(node)} above the class"
    if isinstance(node, ast.NamedExpr):
        return f"assign in a statement before: {write_text(node.target)} = {write_text(node.value)}"
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        loop = node.generators[0]
        if spot.is_graph:
            return f"write the elements, as in [{write_text(node.elt)}]: graphs have no loops"
        statement = spot.parent
        is_named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        out = write_text(statement.targets[0]) if is_named else "y"
        index = write_text(loop.target) if isinstance(loop.target, ast.Name) else "i"
        head = f"for {write_text(loop.target)} in {write_text(loop.iter)}"
        return f"write the elements, or a loop: {head}: {out}[{index}] = {write_text(node.elt)}"
    if isinstance(node, ast.Lambda):
        used = f"write the expression where it is used: {write_text(node.body)}"
        return f"{used}; an index map is text: 'lambda i, j: (j, i)'"
    return None


def choose_by_call(spot: Spot) -> str | None:
    """Write a choice of values as a call."""
    choice = spot.parent
    if not isinstance(choice, ast.IfExp) or choice.test is not spot.node:
        return None
    parts = ", ".join(write_text(part) for part in (choice.test, choice.body, choice.orelse))
    if spot.is_graph:
        return f"write R.where({parts}), which chooses for each element"
    return f"use T.if_then_else({parts}), or T.Select(...) to evaluate both"


def compare(spot: Spot) -> str | None:
    """Write `is` and `in` as comparisons."""
    node = spot.node
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = write_text(node.left), node.comparators[0]
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        sign = "==" if isinstance(node.ops[0], ast.Is) else "!="
        return f"compare with {sign}: {left} {sign} {write_text(right)}"
    if isinstance(node.ops[0], ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        parts = [f"{left} == {write_text(item)}" for item in right.elts[:4]]
        return f"compare with == and join with `or`: {' or '.join(parts)}"
    return None


def loop_over_buffers(spot: Spot) -> str | None:
    """Write the loop for ``y = x + 1.0`` of buffers."""
    statement = next((n for n in spot.around if isinstance(n, ast.stmt)), None)
    ranks = _ranks(spot.function)
    if "read an element" not in spot.problem.help or not isinstance(statement, ast.Assign):
        return None
    value = statement.value
    used = {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in ranks}
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        if isinstance(value.left, ast.Name) and isinstance(value.right, ast.Name):
            out = write_text(statement.targets[0])
            return (
                "multiply and add in loops: "
                f"{out.split('[')[0]}[i, j] += {value.left.id}[i, k] * {value.right.id}[k, j]"
            )
        return None
    target = statement.targets[0]
    if not used or not isinstance(target, ast.Name):
        return None
    first = next(n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in used)
    axes = AXES[: ranks[first]]
    element = write_text(_IndexInserter(ranks).visit(copy.deepcopy(value)))
    store = f"{target.id}[{', '.join(axes)}] = {element}"
    if len(axes) == 1:
        store = f"for i in range({first}.shape[0]): {store}"
    return f"{spot.problem.help}, in a loop: {store}"


def _ranks(function: ast.FunctionDef | None) -> dict[str, int]:
    """Return how many axes the buffers have whose shapes are written in a function."""
    found: dict[str, int] = {}
    if function is None:
        return found
    pairs: list[tuple[str, Any]] = [(a.arg, a.annotation) for a in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs.append((node.targets[0].id, node.value))
    for name, value in pairs:
        if isinstance(value, ast.Call) and re.search(r"[Bb]uffer", ast.unparse(value.func)):
            is_match = ast.unparse(value.func).endswith("match_buffer")
            shape = value.args[1 if is_match else 0 :][:1]
            found[name] = len(shape[0].elts) if shape and isinstance(shape[0], ast.Tuple) else 1
    return found


class _IndexInserter(ast.NodeTransformer):
    """Puts indices behind the names of buffers."""

    def __init__(self, ranks: dict[str, int]) -> None:
        self._ranks = ranks

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._ranks:
            return node
        axes = [ast.Name(axis, ast.Load()) for axis in AXES[: self._ranks[node.id]]]
        index = axes[0] if len(axes) == 1 else ast.Tuple([*axes], ast.Load())
        return ast.Subscript(node, index, ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return node


def compare_with_zero(spot: Spot) -> str | None:
    """Write `not x` of a number as a comparison."""
    node = spot.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"compare with zero: {write_text(node.operand)} == 0"
    return None
