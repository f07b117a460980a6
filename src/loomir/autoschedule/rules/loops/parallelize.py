"""Parallelise an outer loop of a nest that cannot be lifted, if it carries no dependence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loomir.arith import Analyzer
from loomir.autoschedule.builders.evaluate import time_of
from loomir.autoschedule.builders.thread_partition import is_worth
from loomir.autoschedule.builders.vectorize_inner import vectorize_innermost_loops
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.rules.loops.unroll_and_jam import jam_reductions
from loomir.ir.visit import by_class, children, rebuild
from loomir.schedule.dependence import explain_dependence
from loomir.schedule.nests import analyzer_for
from loomir.target import Target
from loomir.tir.analysis.effects import Does, effects_of_node
from loomir.tir.analysis.init_order import check_init_order
from loomir.tir.buffer import Range
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, BufferStore, For, ForKind, Stmt

__all__ = ["can_be_analysed", "plan_as_written", "time_of_statement"]

_NOTHING: Final[Mapping[Var, Range]] = MappingProxyType({})
_STEPS: Final = 64
"""Iterations of a loop that are assumed where its extent is dynamic."""
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
    while isinstance(stmt, For) and len(outer) < _DEPTH:
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not is_worth(work):
            return None
        if not _is_single(stmt) and not explain_dependence(stmt, ranges):
            body = vectorize_innermost_loops(
                stmt.body, {**ranges, stmt.loop_var: _range(stmt)}, target
            )
            shared = rebuild(stmt, {"kind": ForKind.PARALLEL, "body": body})
            made = jam_reductions(shared, ranges)
            jammed = made is not shared
            made = _nest(outer, made)
            if not check_init_order(PrimFunc((), made)):
                name = stmt.loop_var.name_hint
                how = (f"threads share the iterations of {name}",)
                if body is not stmt.body:
                    how += (f"innermost loops in vectors of {target.vector_bits} bits",)
                if jammed:
                    how += ("sums of two iterations advance together",)
                return Plan("loops as written", made, how)
        outer.append(stmt)
        ranges[stmt.loop_var] = _range(stmt)
        work /= max(1.0, _iterations(stmt, analyzer_for(ranges)))
        stmt = stmt.body
    return None


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


def _range(loop: For) -> Range:
    return Range(loop.min, loop.extent)


def _is_single(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value <= 1


def _nest(outer: list[For], stmt: Stmt) -> Stmt:
    for loop in reversed(outer):
        stmt = rebuild(loop, {"body": stmt})
    return stmt


def _has_ordered_effects(stmt: Stmt) -> bool:
    """Whether a statement may fail or have side effects, so that iterations must stay in order."""
    return any(
        effects_of_node(part) & (Does.FAILS | Does.ACTS)
        for cls, parts in by_class(stmt).items()
        if issubclass(cls, PrimExpr)
        for part in parts
    )


def _iterations(loop: For, analyzer: Analyzer) -> float:
    """Estimate the trip count of a loop: the mean of what is known."""
    least, most, *_ = analyzer.const_int_bound(loop.extent)
    return _STEPS if math.isinf(most) else (max(0, least) + max(0, most)) / 2


def time_of_statement(stmt: Stmt, around: Mapping[Var, Range]) -> float:
    """Estimate the nanoseconds of a nest; ``around`` are the loops around it."""
    analyzer = analyzer_for(around)
    total = 0.0
    pending: list[tuple[Stmt, float]] = [(stmt, 1.0)]
    while pending:
        part, times = pending.pop()
        if isinstance(part, BufferStore):
            total += times * time_of(part.value, part.buffer.dtype)
        if isinstance(part, For):
            times *= _iterations(part, analyzer)
            if not analyzer.is_bound(part.loop_var):
                analyzer.bind(part.loop_var, Range(part.min, part.extent))
        inner = children(part)
        pending += [(child, times) for child in inner if isinstance(child, Stmt)]
    return total
