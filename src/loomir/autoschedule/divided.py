"""Loops that divide by sizes which are known when they run, as reshapes do: copies of digits.

To divide by 0 is an error, so that such a formula is no stage. Where elements are computed at all,
the sizes that make up extents are not 0, and by digits of such sizes nothing is divided any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loomir.autoschedule.digits import in_digits
from loomir.autoschedule.joined_axes import with_joined_axes
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.raising import Reader
from loomir.autoschedule.stage import Kernel, Stage
from loomir.ir.visit import by_class
from loomir.tir.effects import Does, effects
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, DeclBuffer, Stmt

__all__ = ["plan_divided", "sizes_of"]


def sizes_of(func: PrimFunc) -> frozenset[Var]:
    """Give the variables that are sizes of arguments, which are never negative."""
    buffers = func.buffer_map.values()
    return frozenset(dim for b in buffers for dim in b.shape if isinstance(dim, Var))


def plan_divided(stmt: Stmt, func: PrimFunc, plan: Callable[[Stage], Plan]) -> Plan | None:
    """Plan a nest by the digits of its axes; None for others. ``plan`` knows what to do then."""
    stage = Reader(func).read(stmt, may_fail=True)
    split = None if stage is None else in_digits(stage, sizes_of(func))
    if split is None or effects(split.value) & (Does.FAILS | Does.ACTS):
        return None
    kernel, declare = with_joined_axes(Kernel(func, (split,), ()))
    (part,) = kernel.parts
    assert isinstance(part, Stage)
    made = plan(part)
    body = declare(made.stmt)
    stores: list[BufferStore] = by_class(body).get(BufferStore, [])
    if any(store.buffer is split.buffer for store in stores):
        body = DeclBuffer(split.buffer, body)
    return replace(made, stmt=body)
