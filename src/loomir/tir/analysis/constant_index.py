"""Check constant indices against the extents of buffers (T25, S15)."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Broadcast, IntImm, PrimExpr, Ramp

__all__ = ["constant_span", "outside"]


def constant_span(index: object) -> tuple[int, int] | None:
    """Return the least and the greatest value of a constant index, over all lanes of a vector."""
    if isinstance(index, Broadcast):
        index = index.value
    if isinstance(index, IntImm):
        return index.value, index.value
    if isinstance(index, int):
        return index, index
    if isinstance(index, Ramp):
        base, stride = index.base, index.stride
        if isinstance(base, IntImm) and isinstance(stride, IntImm):
            last = base.value + stride.value * (index.lanes - 1)
            return min(base.value, last), max(base.value, last)
    return None


def outside(
    buffer: Buffer, indices: Sequence[PrimExpr], span: Span | None, code: str
) -> Diagnostic | None:
    """Describe the first constant index that is out of range, None if there is none."""
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=False)):
        found = constant_span(index)
        if found is None:
            continue
        low, high = found
        where = index.span if isinstance(index, IntImm) and index.span is not None else span
        if low < 0:
            return Diagnostic(
                code,
                f"index {low} of axis {axis} of {buffer.called} is negative",
                where,
                help="indices start at 0 and do not count from the end",
            )
        if isinstance(extent, IntImm) and high >= extent.value:
            return Diagnostic(
                code,
                f"index {high} is outside of axis {axis} of {buffer.called}",
                where,
                f"the axis has {extent.value} elements",
                help=f"use an index from 0 to {extent.value - 1}"
                if extent.value
                else "the axis is empty: nothing can be accessed",
            )
    return None
