"""Slices with the meaning that they have in Python, of extents that may be symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, mul, sub
from loomir.op.arguments import number_of
from loomir.relax.shape import Dim, as_dim
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.tir.expr import FloorDiv, Max, Min, PrimExpr, Select, StringImm, const
from loomir.tir.op import call_builtin

__all__ = ["slice_bounds", "sliced"]


def slice_bounds(
    analyzer: Analyzer, extent: Dim, begin: Dim, end: Dim, step: int, *, inbound: bool = False
) -> tuple[PrimExpr, PrimExpr]:
    """Give where a slice of an axis starts, and how many elements it has.

    Negative places count from the end, and those beyond an end are brought to it, unless the slice
    is claimed to be ``inbound``.
    """
    whole = as_dim(extent)
    low, high = (as_dim(0), whole) if step > 0 else (as_dim(-1), sub(whole, as_dim(1)))

    def place(value: Dim) -> PrimExpr:
        at = _from_end(analyzer, as_dim(value), whole)
        return at if inbound else analyzer.simplify(_clamped(at, low, high))

    start, stop = place(begin), place(end)
    gap = sub(stop, start) if step > 0 else sub(start, stop)
    count = FloorDiv(add(gap, as_dim(abs(step) - 1)), as_dim(abs(step)))
    length = analyzer.simplify(count)
    if not analyzer.can_prove_greater_equal(length, 0):
        length = analyzer.simplify(Max(length, as_dim(0)))
    return analyzer.simplify(start), length


def _from_end(analyzer: Analyzer, value: PrimExpr, extent: PrimExpr) -> PrimExpr:
    number = number_of(value)
    if number is not None:
        return value if number >= 0 else add(value, extent)
    bound = analyzer.const_int_bound(value)
    if bound.min_value >= 0:
        return value
    if bound.max_value < 0:
        return add(value, extent)
    return Select(value < 0, add(value, extent), value)


def _clamped(value: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    return Max(Min(value, high), low)


def sliced(
    x: Tensor,
    starts: Mapping[int, tuple[PrimExpr, int]],
    shape: Sequence[Any],
    *,
    checked: bool = False,
) -> Tensor:
    """Take elements from ``(start, step)`` on along axes; ``checked`` ones raise outside."""

    def place(axis: int, index: PrimExpr) -> PrimExpr:
        if axis not in starts:
            return index
        start, step = starts[axis]
        at = add(mul(wide(index), as_dim(step)), start)
        if not checked:
            return at
        extent = wide(x.shape[axis])
        return call_builtin("checked_index", at, extent, StringImm(x.name), const(axis, "int32"))

    return compute(
        tuple(shape), lambda *i: x(*(place(a, v) for a, v in enumerate(i))), name="slice"
    )
