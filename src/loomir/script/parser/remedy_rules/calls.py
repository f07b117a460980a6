"""Remedies for calls."""

from __future__ import annotations

import ast
import re
from typing import Final

from loomir.script.parser.evaluate.namespaces import T
from loomir.script.parser.evaluate.unknown_names import operator_named
from loomir.script.parser.remedy_rules.spot import Spot, write_arguments, write_text
from loomir.support.diagnostics import nearest

__all__ = [
    "call_kernel",
    "make_constant",
    "name_foreign_function",
    "name_module_function",
    "name_option",
    "name_plain_function",
    "read_no_files",
    "replace_method",
    "tuple_arguments",
]

WORDS: Final = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "other": "x2", "bias": ""}
"""What PyTorch calls options of operators."""
_ELEMENTS: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "fmax": "max",
    "fmin": "min",
    "maximum": "max",
    "minimum": "min",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "power": "pow",
    "where": "if_then_else",
    "clip": "",
}
"""What NumPy and PyTorch call functions of elements."""
_PACK: Final = frozenset(("reshape", "permute_dims", "broadcast_to", "tile", "expand_dims"))
"""Operators that take a tuple where methods of arrays take several numbers."""


def name_plain_function(spot: Spot) -> str | None:
    """Write the element-wise function of ``T`` for one of Python, with its arguments."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    if call is not None and "too many positional arguments" in spot.problem.message:
        name = write_text(call.func)
        if name in ("T.max", "T.min") and len(call.args) > 2 and not call.keywords:
            *inner, last = [write_text(a) for a in call.args]
            for part in reversed(inner):
                last = f"{name}({part}, {last})"
            return f"write {last}"
    found = re.match(r"use T\.(\w+)(\(x, (\"\w+\")\))?$", spot.problem.help)
    if call is None or found is None:
        return None
    given = write_arguments(call)
    if found[1] == "cast":
        return f"use T.cast({given}, {found[3]})"
    if found[1] in ("max", "min") and len(call.args) > 2:
        *inner, last = [write_text(a) for a in call.args]
        for part in reversed(inner):
            last = f"T.{found[1]}({part}, {last})"
        return f"use {last}"
    return f"use T.{found[1]}({given})"


def name_foreign_function(spot: Spot) -> str | None:
    """Name what Loomir has for ``np.exp(x)``, ``math.sqrt(x)``, ``torch.relu(x)``."""
    call = spot.parent
    if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
    if name in ("enable_grad", "inference_mode", "no_grad"):
        return "leave it out: compiled graphs record no gradients"
    if spot.is_graph:
        known = operator_named(name)
        return None if known is None else f"write {known}({write_arguments(call, WORDS)})"
    own = _ELEMENTS.get(name, name)
    if not own or own not in T.table:
        return None
    return f"write T.{own}({write_arguments(call)})"


def replace_method(spot: Spot) -> str | None:
    """Write ``x.reshape(3, 2)`` as a call of the operator, with its arguments."""
    node = next((n for n in (*spot.here, *spot.around) if isinstance(n, ast.Attribute)), None)
    if node is None:
        return None
    call = next((n for n in spot.around if isinstance(n, ast.Call) and n.func is node), None)
    value = write_text(node.value)
    grows = node.attr in ("append", "extend", "insert") and call is not None and call.args
    if spot.is_graph and call is not None and not grows:
        found = re.match(r"write (R\.[\w.]+)\(", spot.problem.help)
        if found is None:
            return None
        several = len(call.args) > 1 and found[1].rpartition(".")[2] in _PACK
        given = f"({write_arguments(call)})" if several else write_arguments(call, WORDS)
        return f"write {found[1]}({value}{', ' if given else ''}{given})"
    if node.attr == "item" and call is not None:
        return f"leave .item() out: {value} is a number"
    if node.attr in ("append", "extend", "insert") and call is not None and call.args:
        element = write_text(call.args[-1])
        if spot.is_graph:
            return f"lists do not grow in a program: write {value}_1 = (*{value}, {element})"
        return (
            f"lists do not grow in a program: make {value} a buffer, as by "
            f'{value} = T.alloc_buffer((8,), "float32"), and write {value}[i] = {element}'
        )
    return None


def name_module_function(spot: Spot) -> str | None:
    """Name the operator for a function of tensor expressions in a graph."""
    if "loomir.te" not in spot.problem.message:
        return None
    call = next((n for n in spot.around if isinstance(n, ast.Call)), None)
    name = re.search(r"attribute '(\w+)'", spot.problem.message)
    known = None if name is None else operator_named(name[1])
    if call is None or known is None or not spot.is_graph:
        return "tensor expressions become programs outside: te.create_prim_func([...])"
    return f"write {known}({write_arguments(call, WORDS)})"


def name_option(spot: Spot) -> str | None:
    """Name the option of an operator that is meant by a name of PyTorch's, or a near one."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    found = re.search(r"has no parameter '(\w+)'", spot.problem.message)
    listed = re.search(r"call it as [\w.]+\((.*)\)$", spot.problem.help)
    if call is None or found is None or listed is None:
        return None
    known = re.findall(r"(?:^|, )\*?(\w+)(?==|,|$)", listed[1])
    meant = WORDS.get(found[1]) or nearest(found[1], known)
    if not meant or meant not in known:
        return None
    return f"write {write_text(call.func)}({write_arguments(call, {found[1]: meant})})"


def call_kernel(spot: Spot) -> str | None:
    """Write the call of a kernel with what its last parameter says of the result."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    for node in ast.walk(spot.tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node.args.args:
            last = node.args.args[-1].annotation
            if isinstance(last, ast.Call) and ast.unparse(last.func).endswith("Buffer"):
                given = write_arguments(call)
                values = f"({given},)" if len(call.args) == 1 else f"({given})"
                return (
                    f"write R.call_tir({write_text(call.func)}, {values}, "
                    f"out_sinfo=R.Tensor({write_arguments(last)}))"
                )
    return None


def read_no_files(spot: Spot) -> str | None:
    """Say how what a file holds gets into a program."""
    if isinstance(spot.node, ast.Name) and spot.node.id == "open":
        return "a program reads no files: read it in Python, and pass an array with what is in it"
    return None


def tuple_arguments(spot: Spot) -> str | None:
    """Put the arguments of a kernel into a tuple."""
    call = next((n for n in spot.around if isinstance(n, ast.Call)), None)
    if call is None or not write_text(call.func).startswith("R.call_tir") or len(call.args) < 4:
        return None
    kernel, *given, info = [write_text(a) for a in call.args]
    return f"write {write_text(call.func)}({kernel}, ({', '.join(given)}), out_sinfo={info})"


def make_constant(spot: Spot) -> str | None:
    """Make a constant of a list of numbers beside a tensor."""
    for node in ast.walk(spot.node):
        if isinstance(node, ast.List) and write_text(node) in spot.problem.message:
            return f'write R.const({write_text(node)}, "float32")'
    return None
