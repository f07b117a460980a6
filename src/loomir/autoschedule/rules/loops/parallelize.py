"""Parallelise an outer loop of a nest that cannot be lifted, if it carries no dependence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loomir.arith import Analyzer
from loomir.arith.fold import fold_expr, imm
from loomir.autoschedule.builders.evaluate import number, time_of
from loomir.autoschedule.builders.thread_partition import is_worth, task_size
from loomir.autoschedule.builders.vectorize_inner import vectorize_innermost_loops
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.rules.loops.unroll_and_jam import jam_reductions
from loomir.check.tir.init_order import check_init_order
from loomir.ir.visit import by_class, children, rebuild
from loomir.loops.dependence import explain_dependence
from loomir.loops.nests import is_serial, wrap_in_loops
from loomir.loops.ranges import analyzer_for, bind_loops, loop_range
from loomir.target import Target
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import Range
from loomir.tir.expr import IntImm, Min, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, BufferStore, For, ForKind, Stmt

__all__ = ["can_be_analysed", "plan_as_written", "time_of_statement"]

_NOTHING: Final[Mapping[Var, Range]] = MappingProxyType({})
_STEPS: Final = 64
"""Iterations of inner loops that are assumed where a task is to get several of an outer one."""
_UNKNOWN: Final = 1 << 24
"""Mean of the bounds of a trip count from which it is unknown: they are those of a dtype then."""
_DEPTH: Final = 8
"""Nested loops that are tried, from the outermost inwards."""
_MOST: Final = 600
"""Nodes of a nest that is analysed: proofs compare all of its accesses."""


def plan_as_written(
    stmt: Stmt, target: Target, around: Mapping[Var, Range] = _NOTHING
) -> Plan | None:
    """Parallelise one loop of a nest; None if none is proved independent, or none pays.

    ``around`` are the loops around the statement.
    """
    if not can_be_analysed(stmt):
        return None
    stmt = _unwrap(stmt)
    outer: list[For] = []
    ranges = dict(around)
    work = time_of_statement(stmt, around)
    varies = any(number(loop.extent) is None for loop in by_class(stmt).get(For, ()))
    while isinstance(stmt, For) and len(outer) < _DEPTH:
        many = is_worth(work)
        if not is_serial(stmt) or not (many or varies):
            return None
        if not _is_single(stmt) and not explain_dependence(stmt, ranges):
            made, how = stmt, ()
            if many:
                made, how = _parallelize(stmt, ranges, target)
            jammed = jam_reductions(made, ranges)
            if jammed is not made:
                how += ("sums of two iterations advance together",)
            whole = wrap_in_loops(outer, jammed)
            if how and not check_init_order(PrimFunc((), whole)):
                return Plan("loops as written", whole, how)
        outer.append(stmt)
        ranges[stmt.loop_var] = loop_range(stmt)
        work /= max(1.0, _iterations(stmt, analyzer_for(ranges)))
        stmt = stmt.body
    return None


def _parallelize(
    loop: For, ranges: Mapping[Var, Range], target: Target
) -> tuple[Stmt, tuple[str, ...]]:
    """Share the iterations of a loop among threads, and say how.

    Where nobody knows how many there are, each task takes as many as pay for a thread, so that few
    of them are a single task.
    """
    inner = {**ranges, loop.loop_var: loop_range(loop)}
    body = vectorize_innermost_loops(loop.body, inner, target)
    size = 1
    if _iterations(loop, analyzer_for(ranges)) >= _UNKNOWN:
        size = task_size(time_of_statement(loop.body, inner, _STEPS))
        size -= size % 2 if size > 1 else 0  # for pairs of iterations
    made = _partition(rebuild(loop, {"body": body}), size)
    how = f"threads share the iterations of {loop.loop_var.name_hint}"
    how = f"{how}, {size} at a time" if size > 1 else how
    if body is loop.body:
        return made, (how,)
    return made, (how, f"innermost loops in vectors of {target.vector_bits} bits")


def _partition(loop: For, size: int) -> Stmt:
    """Split a loop into parallel tasks of so many iterations; the last has what is left."""
    if size == 1:
        return rebuild(loop, {"kind": ForKind.PARALLEL})
    dtype = loop.loop_var.dtype
    step, task = imm(size, dtype), Var("task", dtype)
    # Of a negative extent, no iteration is left.
    tasks = fold_expr(loop.extent // step + Min(loop.extent % step, imm(1, dtype)))
    first = fold_expr(task * step)
    extent = fold_expr(Min(step, loop.extent - first))
    part = rebuild(loop, {"min": fold_expr(loop.min + first), "extent": extent})
    return For(task, imm(0, dtype), tasks, ForKind.PARALLEL, part)


def can_be_analysed(stmt: Stmt) -> bool:
    """Whether a nest is short enough for proofs, and none of its effects are ordered."""
    return sum(map(len, by_class(stmt).values())) <= _MOST and not _has_ordered_effects(stmt)


def _unwrap(stmt: Stmt) -> Stmt:
    """Unwrap a block that does nothing but hold a statement."""
    while isinstance(stmt, BlockRealize):
        block = stmt.block
        holds = block.iter_vars or block.alloc_buffers or block.match_buffers or block.annotations
        always = isinstance(stmt.predicate, IntImm) and stmt.predicate.value
        if holds or block.init is not None or not always:
            return stmt
        stmt = block.body
    return stmt


def _is_single(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value <= 1


def _has_ordered_effects(stmt: Stmt) -> bool:
    """Whether a statement may fail or have side effects, so that iterations must stay in order."""
    return any(
        effects_of_node(part) & (Effects.FAILS | Effects.ACTS)
        for cls, parts in by_class(stmt).items()
        if issubclass(cls, PrimExpr)
        for part in parts
    )


def _iterations(loop: For, analyzer: Analyzer) -> float:
    """Estimate the trip count of a loop: the mean of what is known."""
    least, most, *_ = analyzer.const_int_bound(loop.extent)
    return (max(0.0, least) + max(0.0, most)) / 2


def time_of_statement(stmt: Stmt, around: Mapping[Var, Range], assumed: float = math.inf) -> float:
    """Estimate the nanoseconds of a nest; ``around`` are the loops around it.

    Loops of unknown trip count have at most ``assumed`` iterations.
    """
    analyzer = analyzer_for(around)
    total = 0.0
    pending: list[tuple[Stmt, float]] = [(stmt, 1.0)]
    while pending:
        part, times = pending.pop()
        if isinstance(part, BufferStore):
            total += times * time_of(part.value, part.buffer.dtype)
        if isinstance(part, For):
            trips = _iterations(part, analyzer)
            times *= min(trips, assumed) if trips >= _UNKNOWN else trips
            bind_loops(analyzer, [part])
        inner = children(part)
        pending += [(child, times) for child in inner if isinstance(child, Stmt)]
    return total
