"""Check the indices of accesses where the program runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import int64
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Call, IntImm, PrimExpr, Ramp, StringImm
from loomir.tir.function import PrimFunc
from loomir.tir.op import CHECKED_INDEX
from loomir.tir.stmt import BufferStore

__all__ = ["UNCHECKED", "BoundOptions", "checked_indices", "instrument_bound_checkers"]


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """``enable`` turns the checks on."""

    enable: bool = False


UNCHECKED: Final = BoundOptions()


@register("tir.InstrumentBoundCheckers", requires={"no_blocks"})
def instrument_bound_checkers(func: PrimFunc, options: BoundOptions = UNCHECKED) -> PrimFunc:
    """Wrap each index in a check that it is at least 0 and below its axis's extent.

    A constant index within a constant extent needs none. Runs before flattening, which hides the
    axes.
    """
    if not options.enable:
        return func

    def load(e: BufferLoad) -> BufferLoad:
        return BufferLoad(e.buffer, checked_indices(e.buffer, e.indices, e.span), span=e.span)

    def store(s: BufferStore) -> BufferStore:
        return BufferStore(
            s.buffer, s.value, checked_indices(s.buffer, s.indices, s.span), span=s.span
        )

    return rewrite(func, {BufferLoad: load, BufferStore: store})


def checked_indices(
    buffer: Buffer, indices: tuple[PrimExpr, ...], span: Span | None
) -> tuple[PrimExpr, ...]:
    """Wrap each index that may be outside of its axis in a check."""
    made: list[PrimExpr] = []
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape)):
        if _is_inside(index, extent):
            made.append(index)
            continue
        wide = int64(index)
        args = (
            wide,
            int64(extent),
            StringImm(buffer.name),
            IntImm(axis, DataType("int32")),
        )
        made.append(Call(wide.dtype, CHECKED_INDEX, args, span=span))
    return tuple(made)


def _is_inside(index: PrimExpr, extent: PrimExpr) -> bool:
    if not isinstance(extent, IntImm):
        return False
    if isinstance(index, IntImm):
        return 0 <= index.value < extent.value
    if (
        isinstance(index, Ramp)
        and isinstance(index.base, IntImm)
        and isinstance(index.stride, IntImm)
    ):
        last = index.base.value + (index.lanes - 1) * index.stride.value
        return 0 <= index.base.value < extent.value and 0 <= last < extent.value
    return False
