"""Loops that stay as they were written: threads share an outer one where that is proved right."""

from __future__ import annotations

from typing import Final

from loomir.autoschedule.instance import number, time_of
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.sharing import is_worth
from loomir.ir.visit import by_class, children, rebuild
from loomir.schedule.dependence import carried_by
from loomir.tir.buffer import Range
from loomir.tir.effects import Does, effects_of_node
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.init_order import check_init_order
from loomir.tir.stmt import BlockRealize, BufferStore, For, ForKind, Stmt

__all__ = ["plan_as_written"]

_STEPS: Final = 64
"""Iterations of a loop that are assumed where the number is not known."""
_DEPTH: Final = 8
"""Loops that are tried, from the outermost on."""
_MOST: Final = 600
"""Nodes of a nest that is looked at: proofs compare all of its accesses."""


def plan_as_written(stmt: Stmt) -> Plan | None:
    """Share a loop of a nest between threads; None where none is proved, or worth it."""
    if sum(map(len, by_class(stmt).values())) > _MOST or _stops(stmt):
        return None
    stmt = _bare(stmt)
    outer: list[For] = []
    ranges: dict[Var, Range] = {}
    work = _time(stmt)
    while isinstance(stmt, For) and len(outer) < _DEPTH:
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not is_worth(work):
            return None
        if not _is_single(stmt) and not carried_by(stmt, ranges):
            made = _nested(outer, rebuild(stmt, {"kind": ForKind.PARALLEL}))
            if not check_init_order(PrimFunc((), made)):
                name = stmt.loop_var.name_hint
                return Plan("loops as written", made, (f"threads share the iterations of {name}",))
        outer.append(stmt)
        ranges[stmt.loop_var] = Range(stmt.min, stmt.extent)
        work /= max(1, _iterations(stmt))
        stmt = stmt.body
    return None


def _bare(stmt: Stmt) -> Stmt:
    """Take a statement out of a block that does nothing but hold it."""
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


def _nested(outer: list[For], stmt: Stmt) -> Stmt:
    for loop in reversed(outer):
        stmt = rebuild(loop, {"body": stmt})
    return stmt


def _stops(stmt: Stmt) -> bool:
    """Whether something may fail or act: iterations before it have run then, and none after."""
    return any(
        effects_of_node(part) & (Does.FAILS | Does.ACTS)
        for cls, parts in by_class(stmt).items()
        if issubclass(cls, PrimExpr)
        for part in parts
    )


def _iterations(loop: For) -> int:
    known = number(loop.extent)
    return _STEPS if known is None else max(0, known)


def _time(stmt: Stmt) -> float:
    """Estimate the nanoseconds of a nest."""
    total = 0.0
    pending: list[tuple[Stmt, int]] = [(stmt, 1)]
    while pending:
        part, times = pending.pop()
        if isinstance(part, BufferStore):
            total += times * time_of(part.value, part.buffer.dtype)
        if isinstance(part, For):
            times *= _iterations(part)
        inner = children(part)
        pending += [(child, times) for child in inner if isinstance(child, Stmt)]
    return total
