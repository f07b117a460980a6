"""Remedies for values: casts, indices, parts of tensors, results."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from loomir.script.parser.remedy_rules.spot import AXES, Spot, write_arguments, write_text

__all__ = [
    "drop_receiver",
    "name_item",
    "return_buffer",
    "take_part",
    "write_cast",
    "write_indices",
]


def write_cast(spot: Spot) -> str | None:
    """Write a cast of what stands at the place."""
    if "T.cast(…," not in spot.problem.help:
        return None
    text = write_text(spot.node) if isinstance(spot.node, ast.expr) else "..."
    return None if text == "..." else spot.problem.help.replace("…", text).replace("'", '"')


def write_indices(spot: Spot) -> str | None:
    """Write as many indices as a buffer has axes."""
    found = re.search(r"has (\d) ax", spot.problem.message)
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    if found is None or node is None:
        return None
    given = _index_texts(node)
    parent = spot.parent
    while isinstance(parent, ast.Subscript) and len(given) < int(found[1]):  # x[i][j]
        given += _index_texts(parent)
        at = spot.around.index(parent)
        parent = spot.around[at + 1] if at + 1 < len(spot.around) else None
    if len(given) > int(found[1]):
        given = given[: int(found[1])]
    free = [axis for axis in AXES if axis not in given]
    given += free[: int(found[1]) - len(given)]
    if not given:
        return None
    return f"{spot.problem.help}, as in {write_text(node.value)}[{', '.join(given)}]"


def _index_texts(node: ast.Subscript) -> list[str]:
    at = node.slice
    return [write_text(e) for e in at.elts] if isinstance(at, ast.Tuple) else [write_text(at)]


def take_part(spot: Spot) -> str | None:
    """Write ``x[0]`` and ``x[:, 1:3]`` of a graph as calls of operators."""
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    if node is None or "R.strided_slice" not in spot.problem.help:
        return None
    value = write_text(node.value)
    parts: Sequence[Any] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) == 1 and not isinstance(parts[0], ast.Slice):
        return f'write R.take({value}, R.const({write_text(parts[0])}, "int64"), axis=0)'
    chosen = [(axis, p) for axis, p in enumerate(parts) if isinstance(p, ast.Slice)]
    if len(chosen) < len(parts) or any(p.step is not None for _, p in chosen):
        return None
    cut = [(a, p) for a, p in chosen if p.lower is not None or p.upper is not None]
    if any(p.upper is None for _, p in cut):
        return None
    axes, begin, end = (
        ", ".join(items)
        for items in (
            [str(a) for a, _ in cut],
            ["0" if p.lower is None else write_text(p.lower) for _, p in cut],
            [write_text(p.upper) for _, p in cut],
        )
    )
    return f"write R.strided_slice({value}, axes=[{axes}], begin=[{begin}], end=[{end}])"


def name_item(spot: Spot) -> str | None:
    """Name a value instead of storing it in a dict or list."""
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    statement = spot.parent
    if node is None or not isinstance(statement, ast.Assign) or node not in statement.targets:
        return None
    if not isinstance(node.slice, ast.Constant) or "no element" not in spot.problem.message:
        return None
    name = node.slice.value if str(node.slice.value).isidentifier() else "value"
    return f"dicts and lists are constants in a program: give the value a name, {name} = ..."


def return_buffer(spot: Spot) -> str | None:
    """Say how a buffer is given back."""
    name = spot.node.id if isinstance(spot.node, ast.Name) else None
    if name is None or spot.function is None or not isinstance(spot.parent, ast.Return):
        return None
    if any(a.arg == name for a in spot.function.args.args):
        return f"leave out the return: {name} is a parameter, so its caller sees what is written"
    for node in ast.walk(spot.function):
        if isinstance(node, ast.Assign) and write_text(node.targets[0]) == name:
            made = node.value
            if isinstance(made, ast.Call) and "alloc" in ast.unparse(made.func):
                declared = f"{name}: T.Buffer({write_arguments(made)})"
                return f"make it a parameter, which calls may leave out: {declared}"
    return None


def drop_receiver(spot: Spot) -> str | None:
    """Leave ``self`` out."""
    first = spot.node if isinstance(spot.node, ast.arg) else None
    if first is not None and first.arg in ("self", "cls"):
        return f"a program is no method: leave {first.arg} out"
    return None
