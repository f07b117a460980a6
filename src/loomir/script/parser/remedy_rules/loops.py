"""Remedies for loops, blocks and the types of parameters and names."""

from __future__ import annotations

import ast
from typing import Final

from loomir.script.parser.remedy_rules.spot import AXES, Spot, write_arguments, write_text

__all__ = [
    "declare_name",
    "describe_parameter",
    "divide_whole",
    "index_by_loops",
    "make_buffer",
    "name_block",
    "name_loops",
]

_DTYPES: Final = {"bool": "bool", "float": "float32", "int": "int64"}


def _call_of(loop: ast.For) -> ast.Call | None:
    return loop.iter if isinstance(loop.iter, ast.Call) else None


def name_loops(spot: Spot) -> str | None:
    """Write a loop over a grid, where its extents were given in a tuple or as start and stop."""
    loop = next((n for n in (*spot.here, *spot.around) if isinstance(n, ast.For)), None)
    call = None if loop is None else _call_of(loop)
    if loop is None or call is None:
        return None
    names, kind = write_text(loop.target).strip("()"), write_text(call.func)
    if len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)):
        extents = ", ".join(map(write_text, call.args[0].elts))
        return f"write for {names} in {kind}({extents})"
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else ()
    if targets and kind != "T.grid" and len(call.args) == len(targets):
        first, *rest = zip(map(write_text, targets), map(write_text, call.args))
        inner = ", and in it ".join(f"for {n} in range({e})" for n, e in rest)
        return f"write for {first[0]} in {kind}({first[1]}), and in it {inner}"
    return None


def index_by_loops(spot: Spot) -> str | None:
    """Name each loop of a grid that was given one name."""
    name = spot.node.id if isinstance(spot.node, ast.Name) else None
    for node in spot.around:
        call = _call_of(node) if isinstance(node, ast.For) else None
        if isinstance(node, ast.For) and call is not None and write_text(node.target) == name:
            count = len(call.args)
            if write_text(call.func) == "T.grid" and 1 < count <= len(AXES):
                return f"write for {', '.join(AXES[:count])} in T.grid({write_arguments(call)})"
    return None


def name_block(spot: Spot) -> str | None:
    """Call what opens a block."""
    text = write_text(spot.node)
    if text in ("T.sblock", "T.block"):
        return f'write with {text}("name"):'
    return f"write with {text}():" if text == "T.init" else None


def divide_whole(spot: Spot) -> str | None:
    """Divide bounds of loops as integers."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    bounds = [spot.node] if call is None else call.args
    for bound in bounds:
        if isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Div):
            return f"write {write_text(bound.left)} // {write_text(bound.right)}"
    return None


def declare_name(spot: Spot) -> str | None:
    """Write the dtype of a name that was declared with a type of Python's."""
    dtype = _DTYPES.get(write_text(spot.node))
    statement = spot.parent
    if dtype is None or not isinstance(statement, ast.AnnAssign):
        return None
    value = "" if statement.value is None else f" = {write_text(statement.value)}"
    return f"write {write_text(statement.target)}: T.{dtype}{value}"


def describe_parameter(spot: Spot) -> str | None:
    """Describe a parameter of a graph that was declared with a type of Python's or PyTorch's."""
    parameter = spot.parent
    if not isinstance(parameter, ast.arg):
        return None
    dtype = _DTYPES.get(write_text(spot.node))
    if dtype is not None:
        return f'write {parameter.arg}: R.Prim("{dtype}")'
    if write_text(spot.node).endswith((".Tensor", ".ndarray")):
        return f'write {parameter.arg}: R.Tensor((2, "n"), "float32")'
    return None


def make_buffer(spot: Spot) -> str | None:
    """Make a buffer of a list that is indexed at run time, or of an array around the program."""
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    if node is None or not isinstance(node.value, ast.Name):
        return None
    name, help_ = node.value.id, spot.problem.help
    if "…" in help_:
        return help_.replace("…", name)
    if "known only at run time" not in spot.problem.message:
        return None
    count = "8"
    for other in ast.walk(spot.tree):
        if isinstance(other, ast.Assign) and write_text(other.targets[0]) == name:
            value = other.value
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
                count = write_text(value.right if isinstance(value.left, ast.List) else value.left)
            elif isinstance(value, (ast.List, ast.Tuple)):
                count = str(len(value.elts))
    return (
        f'make it a buffer: {name} = T.alloc_buffer(({count},), "float32"), and store its elements'
    )
