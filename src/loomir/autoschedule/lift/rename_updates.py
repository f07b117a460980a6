"""Rename the buffer of a stage that the next stage updates in place, which becomes its epilogue.

``C = sum(...)`` followed by ``C = max(C, 0)`` becomes ``S = sum(...)`` and ``C = max(S, 0)``. The
second stage can then be computed from each sum while it is in a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loomir.autoschedule.ir.stage import Combine, Stage, has_zero_trip_case
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import Stmt

__all__ = ["rename_updates", "writes_same_elements"]


def rename_updates(
    parts: Sequence[Stage | Stmt],
) -> tuple[tuple[Stage | Stmt, ...], tuple[Buffer, ...]]:
    """Rename what a stage writes where the next stage updates it in place."""
    made = list(parts)
    new: list[Buffer] = []
    for place in range(1, len(made)):
        first, second = made[place - 1], made[place]
        if not isinstance(first, Stage) or not isinstance(second, Stage):
            continue
        if not second.in_place or second.buffer is not first.buffer or first.buffer.strides:
            continue
        if _depends_on_old_value(first) or not writes_same_elements(first, second):
            continue
        old = first.buffer
        own = decl_buffer(old.shape, old.dtype, old.name)
        made[place - 1] = replace(first, buffer=own, value=_redirect_loads(own, old, first.value))
        made[place] = replace(second, value=_redirect_loads(own, old, second.value), in_place=False)
        new.append(own)
    return tuple(made), tuple(new)


def _depends_on_old_value(stage: Stage) -> bool:
    """Whether what a stage computes depends on the old values of its buffer."""
    return has_zero_trip_case(stage) or (
        stage.init is None and (stage.in_place or stage.combine is not Combine.NONE)
    )


def _redirect_loads(own: Buffer, old: Buffer, value: PrimExpr) -> PrimExpr:
    def load(node: BufferLoad) -> BufferLoad:
        return BufferLoad(own, node.indices, span=node.span) if node.buffer is old else node

    return rewrite(value, {BufferLoad: load})


def writes_same_elements(a: Stage, b: Stage) -> bool:
    """Tell whether two stages write the same elements."""
    if len(a.axes) != len(b.axes):
        return False
    table: dict[Var, PrimExpr] = {x.var: y.var for x, y in zip(a.axes, b.axes)}
    if not all(structural_equal(x.extent, y.extent) for x, y in zip(a.axes, b.axes)):
        return False
    moved = tuple(substitute(i, table) for i in a.indices)
    return len(moved) == len(b.indices) and all(map(structural_equal, moved, b.indices))
