"""Insert a bounds check before each access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loomir.arith import Analyzer
from loomir.arith.fold import int64
from loomir.ir.passes import register
from loomir.ir.visit import by_class, rewrite
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import CHECKED_INDEX
from loomir.tir.expr import GE, LT, Call, IntImm, PrimExpr, Ramp, StringImm
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore
from loomir.transform.tir.known_variables import make_analyzer

__all__ = [
    "BOUNDS_CHECKED",
    "UNCHECKED",
    "BoundOptions",
    "instrument_bound_checkers",
    "wrap_indices",
]


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """``enable`` switches the checks on."""

    enable: bool = False


UNCHECKED: Final = BoundOptions()


BOUNDS_CHECKED: Final = "tir.bounds_checked"
"""The attribute of functions that already have all their checks."""


@register("tir.InstrumentBoundCheckers", requires={"no_blocks"})
def instrument_bound_checkers(func: PrimFunc, options: BoundOptions = UNCHECKED) -> PrimFunc:
    """Wrap each index in a check that it is at least 0 and below its axis's extent.

    An index that is in range for all values of the loop variables needs no check. This runs before
    flattening, which hides the axes.
    """
    if not options.enable or func.attrs.get(BOUNDS_CHECKED):
        return func
    analyzer = make_analyzer(func)

    def check_indices(e: BufferLoad | BufferStore) -> tuple[PrimExpr, ...]:
        return wrap_indices(e.buffer, e.indices, e.span, analyzer)

    def load(e: BufferLoad) -> BufferLoad:
        return BufferLoad(e.buffer, check_indices(e), span=e.span)

    def store(s: BufferStore) -> BufferStore:
        return BufferStore(s.buffer, s.value, check_indices(s), span=s.span)

    return rewrite(func, {BufferLoad: load, BufferStore: store})


def wrap_indices(
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    span: Span | None,
    analyzer: Analyzer | None = None,
) -> tuple[PrimExpr, ...]:
    """Wrap each index that may be out of range in a check; ``analyzer`` bounds the variables."""
    made: list[PrimExpr] = []
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape)):
        if _is_inside(index, extent) or _is_proved(index, extent, analyzer):
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


def _is_proved(index: PrimExpr, extent: PrimExpr, analyzer: Analyzer | None) -> bool:
    if analyzer is None or not index.dtype.is_integer or index.dtype.lanes != 1:
        return False
    wide = int64(index)
    bound = analyzer.const_int_bound(wide)
    if isinstance(extent, IntImm) and bound.min_value >= 0 and bound.max_value < extent.value:
        return True
    if by_class(index).keys() & {BufferLoad, Call}:
        return False  # its contents are unknown
    return analyzer.can_prove(GE(wide, IntImm(0, wide.dtype))) and analyzer.can_prove(
        LT(wide, int64(extent))
    )
