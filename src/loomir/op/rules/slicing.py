"""Slices with Python's semantics, for extents that may be symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, mul, sub
from loomir.op.rules.arguments import number_of
from loomir.relax.shape import Dim, as_dim
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import FloorDiv, Max, Min, PrimExpr, Select, StringImm, const

__all__ = ["slice_bounds", "slice_tensor"]


def slice_bounds(
    analyzer: Analyzer, extent: Dim, begin: Dim, end: Dim, step: Dim, *, inbound: bool = False
) -> tuple[PrimExpr, PrimExpr]:
    """Return where a slice of an axis starts, and how many elements it has.

    Negative places count from the end, and those beyond an end are brought to it, unless the slice
    is claimed to be ``inbound``.
    """
    whole, stride = as_dim(extent), as_dim(step)
    zero, before, last = as_dim(0), as_dim(-1), sub(whole, as_dim(1))
    bound = analyzer.const_int_bound(stride)
    if bound.min_value > 0:
        low, high = zero, whole
    elif bound.max_value < 0:
        low, high = before, last
    else:
        low, high = Select(stride > 0, zero, before), Select(stride > 0, whole, last)

    def place(value: Dim) -> PrimExpr:
        at = _from_end(analyzer, as_dim(value), whole)
        return at if inbound else analyzer.simplify(_clamp(at, low, high))

    start, stop = place(begin), place(end)
    length = analyzer.simplify(_count(start, stop, stride))
    if not analyzer.can_prove_greater_equal(length, 0):
        length = analyzer.simplify(Max(length, as_dim(0)))
    return analyzer.simplify(start), length


def _count(start: PrimExpr, stop: PrimExpr, stride: PrimExpr) -> PrimExpr:
    """Count the steps from one place to another; negative where they lead away."""
    number = number_of(stride)
    if number is None:  # the same for strides of both signs
        return mul(FloorDiv(sub(start, stop), stride), as_dim(-1))
    gap = sub(stop, start) if number > 0 else sub(start, stop)
    return FloorDiv(add(gap, as_dim(abs(number) - 1)), as_dim(abs(number)))


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


def _clamp(value: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    return Max(Min(value, high), low)


def slice_tensor(
    x: Tensor,
    starts: Mapping[int, tuple[PrimExpr, Dim]],
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
