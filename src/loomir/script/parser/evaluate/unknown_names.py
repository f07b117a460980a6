"""Suggest a replacement for a name or attribute that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loomir.relax.operator.other_libraries import ELSEWHERE, OF_TENSORS
from loomir.script.parser.evaluate.namespaces import Namespace, R, T
from loomir.support.diagnostics import nearest

__all__ = ["operator_named", "suggest_for_attribute", "suggest_for_name"]

_NO_LISTS: Final = "programs have no lists of values: pass them to T.call_packed one by one"
_KERNEL_NAMES: Final = {
    # Names of other generations of the language, and what is written instead.
    "load": "write A[i]",
    "store": "write A[i] = x",
    "realize": "write T.alloc_buffer(shape, dtype)",
    "buffer_realize": "write T.alloc_buffer(shape, dtype)",
    "preflattened_buffer": "write T.Buffer(shape, dtype) with the shape of the array",
    "match_buffer_region": "write T.match_buffer(A[0:4], shape)",
    "buffer_decl": "write T.decl_buffer(shape, dtype, data=pointer)",
    "allocate_const": "pass the constant as an argument",
    "prefetch": "leave it out: it is a hint, and the CPU fetches ahead itself",
    "range": "write range(n), or T.serial(n)",
    "sum": "add the elements in a loop: for i in range(n): y[0] += x[i]",
    "mean": "add the elements in a loop, and divide by how many there are",
    "dot": "multiply and add in loops: c[i, j] += a[i, k] * b[k, j]",
    "matmul": "multiply and add in loops: c[i, j] += a[i, k] * b[k, j]",
    "zeros": "write T.alloc_buffer(shape, dtype), and assign 0 in a loop",
    "ones": "write T.alloc_buffer(shape, dtype), and assign 1 in a loop",
    "full": "write T.alloc_buffer(shape, dtype), and assign the value in a loop",
    "empty": "write T.alloc_buffer(shape, dtype)",
    "float": "write T.float32, or another number of bits",
    "int": "write T.int32, or another number of bits",
    "double": "write T.float64",
    "relu": "write T.max(x, T.float32(0))",
    "maximum": "write T.max(a, b)",
    "minimum": "write T.min(a, b)",
    "tvm_throw_last_error": "the errors of called functions come out by themselves",
    "tvm_check_return": "test what the call returned with assert",
    "anylist_getitem": _NO_LISTS,
    "anylist_resetitem": _NO_LISTS,
    "anylist_setitem_call_packed": _NO_LISTS,
    "anylist_setitem_call_cpacked": _NO_LISTS,
}


def suggest_for_name(space: Namespace, name: str) -> str:
    """Return what to do about a name that a namespace lacks."""
    if space is T:
        if name.startswith(("float4_", "float6_", "float8_")):
            return 'floats have 16, 32 or 64 bits: keep shorter ones as "uint8", or use T.float16'
        known = _KERNEL_NAMES.get(name)
        if known is not None:
            return known
    if space is R or space.name.startswith("R."):
        found = operator_named(name)
        if found is not None:
            return f"did you mean {found}?"
    near = nearest(name, space.table) or nearest(name.lower(), space.table)
    if near is not None:
        return f"did you mean {space.name}.{near}?"
    if space is R or space.name.startswith("R."):
        return "docs/reference/relax-operators.md lists the operators"
    return "docs/reference lists what programs may use"


def suggest_for_attribute(name: str, tensor: str) -> str:
    """Return what to write for an attribute of a tensor of a graph, which has none."""
    form = OF_TENSORS.get(name)
    if form is not None:
        return f"write R.{form.format(tensor)}"
    found = operator_named(name)
    return "use the value itself" if found is None else f"write {found}({tensor})"


def operator_named(name: str) -> str | None:
    """Return the operator that a name elsewhere stands for, as a program writes it."""
    lower = name.lower()
    named: object = R
    for part in ELSEWHERE.get(lower, lower).split("."):
        table: Mapping[str, Any] = named.table if isinstance(named, Namespace) else {}
        named = table.get(part)
    if named is not None and not isinstance(named, Namespace):
        return f"R.{ELSEWHERE.get(lower, lower)}"
    for inner in R.table.values():
        if isinstance(inner, Namespace) and lower in inner.table:
            return f"{inner.name}.{lower}"
    return None
