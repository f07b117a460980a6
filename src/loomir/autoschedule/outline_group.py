"""Outline a group of stages into a function of its own, which can be called and timed."""

from __future__ import annotations

from loomir.autoschedule.builders.fold import fold_constants
from loomir.autoschedule.builders.loops import allocate
from loomir.autoschedule.driver import SCHEDULED, ScheduledFunction
from loomir.autoschedule.ir.plan import Plan
from loomir.check.tir.verify import verify
from loomir.ir.substitution import free_definitions
from loomir.ir.visit import by_class
from loomir.support.dtype import HANDLE
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import DeclBuffer
from loomir.tir.types import VOID_TYPE

__all__ = ["outline_group"]


def outline_group(scheduled: ScheduledFunction, plan: Plan) -> PrimFunc | None:
    """Outline a group's loops as a function of the arrays that it reads and writes.

    Arrays between groups are arguments too. None if the loops need more than arrays and scalars.
    """
    func = scheduled.func
    stmt = scheduled.declare(plan.stmt)
    free = free_definitions(stmt)
    data = {id(n.data if isinstance(n, Buffer) else n) for n in free}
    # What is declared for an array from outside has that one's memory.
    data |= {id(view.buffer.data) for view in by_class(stmt).get(DeclBuffer, ())}
    written = {id(stage.buffer.data) for stage in plan.stages} & data
    own = tuple(b for b in scheduled.between if b in plan.inner and id(b.data) in written)
    shared = [b for b in (*func.buffer_map.values(), *scheduled.between) if id(b.data) in data]
    arrays = {Var(f"{b.name}_handle", HANDLE): b for b in shared if b not in own}
    scalars = [p for p in func.params if p not in func.buffer_map and p in free]
    body = fold_constants(allocate(own, stmt, name="root"))
    attrs = {"global_symbol": "group", SCHEDULED: True}
    made = PrimFunc((*arrays, *scalars), body, VOID_TYPE, arrays, attrs)
    return None if verify(made) else made
