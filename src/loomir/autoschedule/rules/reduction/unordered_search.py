"""Search all elements for one by comparison, ``if v > top: top = v``, in lanes.

Each lane keeps an element of its own, and the lanes are compared last. The order matters in one
case only: zeros of both signs are equal, and the first one is kept. So if the search ends with a
zero, it is done once more, in order. NaN is neither greater nor less, and is ignored in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import allocate, loop, scratch
from loomir.autoschedule.builders.reduction_ops import COMPARISONS, accumulate
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Stage
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Eq, PrimExpr, Var, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["plan_search"]


def plan_search(stage: Stage, plan: Callable[[Stage], Plan | None]) -> Plan | None:
    """Plan a search for one element with ``plan``, which may take any order; None for others."""
    dtype = stage.buffer.dtype
    if stage.combine not in COMPARISONS or stage.free_order or not dtype.is_float:
        return None
    if any(axis.size != 1 for axis in stage.axes) or not stage.reduced or stage.block is not None:
        return None
    made = plan(replace(stage, free_order=True))
    if made is None:
        return None
    place = {axis.var: imm64(0) for axis in stage.axes}
    indices = tuple(value_at(index, place) for index in stage.indices)
    before = scratch("before", (1,), dtype, "local")
    kept, start = BufferLoad(stage.buffer, indices), BufferLoad(before, (imm64(0),))
    old = kept if stage.init is None else value_at(stage.init, place)

    def search(k: int, known: dict[Var, PrimExpr]) -> Stmt:
        if k < len(stage.reduced):
            axis = stage.reduced[k]
            return loop(
                axis.var.name_hint, axis.extent, lambda i: search(k + 1, {**known, axis.var: i})
            )
        value = accumulate(stage.combine, kept, value_at(stage.value, known))
        return BufferStore(stage.buffer, value, indices)

    again = seq((BufferStore(stage.buffer, start, indices), search(0, dict(place))))
    stmt = allocate(
        (before,),
        BufferStore(before, old, (imm64(0),)),
        made.stmt,
        IfThenElse(Eq(kept, const(0.0, dtype)), again),
    )
    note = "a zero is searched for again in order, as its sign depends on that"
    return replace(made, stmt=stmt, choices=(*made.choices, note))
