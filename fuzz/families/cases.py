"""Random programs with arguments, and the results that an independent reference expects.

The generator of a family is a module of this package with a function ``draw(seed: int) -> Case``;
equal seeds give equal cases. ``fuzz.families.table`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from loomir.ir.module import IRModule
from loomir.tir.function import PrimFunc

__all__ = ["Case", "flat_results", "fresh", "is_graph", "memory_of", "outcome", "view_of"]


class Case(NamedTuple):
    """A program, one call of it, and what that call must leave in its arguments.

    Inputs of floats hold small integers, so that every sum is exact in any order and results are
    compared bit for bit; only families that call functions such as ``exp`` set ``ulps``.
    """

    family: str
    seed: int
    module: IRModule
    entry: str
    arguments: tuple[Any, ...]
    """Arrays and scalars by position; outputs hold garbage. A graph has only its inputs."""
    expected: tuple[Any, ...]
    """For each argument the array after the call, or None where it is a scalar; a graph's results
    instead, flattened, where ``entry`` is a graph. Computed by NumPy or Python, never by Loomir."""
    ulps: int = 0
    """By how many units in the last place a float result may differ."""


def is_graph(case: Case) -> bool:
    """Whether the entry is a graph, which gives results."""
    return not isinstance(case.module[case.entry], PrimFunc)


def fresh(argument: Any) -> Any:
    """Copy an argument with all of the memory that it is a view of, in the same layout."""
    if not isinstance(argument, np.ndarray):
        return argument
    base = memory_of(argument)
    if not base.size:
        return argument.copy()
    memory = base.copy(order="K").ravel(order="K").view(np.uint8)
    start = argument.ctypes.data - base.ctypes.data
    return view_of(memory, start, argument.shape, argument.dtype, argument.strides)


def view_of(memory: Any, start: int, shape: Any, dtype: Any, strides: Any) -> Any:
    """View memory from a place on; no stride of an array without elements can leave it."""
    if 0 in shape:
        return as_strided(memory[:0].view(dtype), shape, strides)
    return np.ndarray(shape, dtype, memory, start, strides)


def memory_of(array: Any) -> Any:
    """Return the array whose memory an array is a view of."""
    made = part = array
    while (part := getattr(part, "base", None)) is not None:
        if isinstance(part, np.ndarray):
            made = part
    return made


def flat_results(result: Any) -> list[Any]:
    """List the arrays of a graph's result, in order."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in flat_results(part)]
    return [np.asarray(result)]


def outcome(case: Case, found: Sequence[Any]) -> str:
    """Say where what a call left, or a graph gave, differs from what is expected; else ''.

    Elements around a view, which belong to nobody, must be what they were.
    """
    if len(found) != len(case.expected):
        return f"{len(found)} results instead of {len(case.expected)}"
    for number, (array, wanted) in enumerate(zip(found, case.expected, strict=True)):
        if wanted is None:
            continue
        said = _difference(np.asarray(array), np.asarray(wanted), case.ulps)
        if said:
            return f"{'result' if is_graph(case) else 'argument'} {number}{said}"
        if not is_graph(case) and _touched(case.arguments[number], array):
            return f"argument {number}: memory around it changed"
    return ""


def _difference(found: Any, wanted: Any, ulps: int) -> str:
    if found.shape != wanted.shape:
        return f" has shape {found.shape} instead of {wanted.shape}"
    if found.dtype != wanted.dtype:
        return f" holds {found.dtype} instead of {wanted.dtype}"
    wrong = found != wanted
    if wanted.dtype.kind not in "biu":
        wrong &= ~(np.isnan(found) & np.isnan(wanted))
        if ulps and wrong.any():
            wrong &= _steps(found, wanted) > ulps
    places = np.argwhere(wrong)
    if not len(places):
        return ""
    first = tuple(places[0].tolist())
    return (
        f"{list(first)} is {found[first]!r} instead of {wanted[first]!r} "
        f"({len(places)} of {wanted.size} differ)"
    )


def _steps(found: Any, wanted: Any) -> Any:
    """Count the floats between elements."""

    def ordered(array: Any) -> Any:
        bits = array.view(f"i{array.itemsize}").astype(object)
        return np.where(bits < 0, -(1 << (8 * array.itemsize - 1)) - bits, bits)

    return abs(ordered(np.atleast_1d(found)) - ordered(np.atleast_1d(wanted))).reshape(found.shape)


def _touched(before: Any, after: Any) -> bool:
    """Whether memory changed that is none of a view's elements."""
    one, other = memory_of(before), memory_of(after)
    if one.nbytes == before.nbytes:
        return False
    old = one.ravel(order="K").view(np.uint8)
    new = other.ravel(order="K").view(np.uint8).copy()
    start = before.ctypes.data - one.ctypes.data
    shape, strides = (*before.shape, before.itemsize), (*before.strides, 1)
    own: Any = view_of(new, start, shape, np.uint8, strides)
    own[...] = view_of(old, start, shape, np.uint8, strides)
    return bool((old != new).any())
