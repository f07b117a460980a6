"""Merge the fill for an empty reduction axis into the reduction itself.

A block initialises an element in its first iteration, so for an empty axis the value must be stored
beforehand, under the condition that the axis is empty. Both become one stage, which always
initialises its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loomir.arith.fold import int64
from loomir.autoschedule.ir.stage import Combine, Stage
from loomir.autoschedule.lift.rename_updates import writes_same_elements
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import rebuild
from loomir.tir.expr import LE, IntImm, Or, PrimExpr
from loomir.tir.stmt import IfThenElse

__all__ = ["merge_zero_trip_fill"]


def merge_zero_trip_fill(condition: IfThenElse, fill: Stage, stage: Stage) -> Stage | None:
    """Merge a nest that fills a buffer if axes are empty with the reduction after it.

    None if the two are not that: a buffer that the program leaves as it is has to stay so.
    """
    block = stage.block
    if block is None or block.init is None or stage.init is None or condition.else_case is not None:
        return None
    fills = fill.combine is Combine.NONE and not fill.in_place and fill.buffer is stage.buffer
    if not fills or not writes_same_elements(fill, stage):
        return None
    table = {a.var: b.var for a, b in zip(fill.axes, stage.axes)}
    if not structural_equal(substitute(fill.value, table), stage.init):
        return None
    empty = _empty(condition.condition)
    if empty is None or not all(_is_among(axis.extent, empty) for axis in stage.reduced):
        return None
    return replace(stage, block=rebuild(block, {"init": None}))


def _empty(condition: PrimExpr) -> list[PrimExpr] | None:
    """Read a condition that some extents are 0 as the list of these extents."""
    found: list[PrimExpr] = []
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, Or):
            pending += [part.a, part.b]
        elif isinstance(part, LE) and isinstance(part.b, IntImm) and not part.b.value:
            found.append(int64(part.a))
        else:
            return None
    return found


def _is_among(extent: PrimExpr, empty: Sequence[PrimExpr]) -> bool:
    if isinstance(extent, IntImm):
        return extent.value > 0
    return any(structural_equal(extent, other) for other in empty)
