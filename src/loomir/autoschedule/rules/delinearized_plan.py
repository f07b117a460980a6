"""Delinearize loops that divide by dynamic sizes, as reshapes do, and plan them by another rule.

A division by 0 is an error, so a formula that divides by a size is not lifted as a stage. But if
there is any element to compute, the sizes that make up the extents are positive. With digits of
these sizes as axes, no division is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from loomir.autoschedule.builders.loops import declare_views
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import LiftedFunction, Stage
from loomir.autoschedule.lift.lift_loops import Reader
from loomir.autoschedule.rewrite.collapse_axes import collapse_axes
from loomir.autoschedule.rewrite.def_use import reads_of, writes_of
from loomir.autoschedule.rewrite.delinearize import delinearize
from loomir.ir.visit import by_class
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import FloorDiv, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Stmt

__all__ = ["plan_divided", "sizes_of", "with_digits"]


def sizes_of(func: PrimFunc) -> frozenset[Var]:
    """Return the variables that are sizes of arguments, which are never negative."""
    buffers = func.buffer_map.values()
    return frozenset(dim for b in buffers for dim in b.shape if isinstance(dim, Var))


def with_digits(kernel: LiftedFunction) -> tuple[LiftedFunction, tuple[Buffer, ...]]:
    """Split axes of results by which reductions are read; return the views that are stored to.

    As ``c // 8`` in the normalisation of groups of 8 channels: their rows can then be fused with
    what is computed of them. What others read stays as it is. ``declared`` puts the views in scope.
    """
    stages = [part for part in kernel.parts if isinstance(part, Stage)]
    made = {id(p.buffer.data) for p in stages} if any(p.reduced for p in stages) else set[int]()
    readers = Counter(data for p in kernel.parts for data in reads_of(p) | writes_of(p))
    kept = {id(b.data) for b in kernel.between} | {data for data, n in readers.items() if n > 1}
    views: list[Buffer] = []
    parts: list[Stage | Stmt] = []
    for part in kernel.parts:
        split = None
        if isinstance(part, Stage) and id(part.buffer.data) not in kept:
            loads: list[BufferLoad] = by_class(part.value).get(BufferLoad, [])
            divided = [p for p in loads if any(FloorDiv in by_class(i) for i in p.indices)]
            if any(id(load.buffer.data) in made for load in divided):
                split = delinearize(part, sizes_of(kernel.func))
        if split is not None:
            views.append(split.buffer)
        parts.append(part if split is None else split)
    return (replace(kernel, parts=tuple(parts)), tuple(views)) if views else (kernel, ())


def plan_divided(stmt: Stmt, func: PrimFunc, plan: Callable[[Stage], Plan]) -> Plan | None:
    """Plan a nest by the digits of its axes with ``plan``; None for others."""
    stage = Reader(func).read(stmt, may_fail=True)
    split = None if stage is None else delinearize(stage, sizes_of(func))
    if split is None or effects(split.value) & (Effects.FAILS | Effects.ACTS):
        return None
    kernel, declare = collapse_axes(LiftedFunction(func, (split,), ()))
    (part,) = kernel.parts
    assert isinstance(part, Stage)
    made = plan(part)
    return replace(made, stmt=declare_views((split.buffer,), declare(made.stmt)))
