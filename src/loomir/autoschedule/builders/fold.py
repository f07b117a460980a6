"""Fold the constants that the shapes of a kernel leave in its new loops."""

from __future__ import annotations

from loomir.arith.fold import FOLDS
from loomir.autoschedule.builders.drop_unreachable import drop_unreachable, is_outside
from loomir.ir.visit import rewrite
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import IntImm
from loomir.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt, While

__all__ = ["fold_constants"]


def fold_constants(stmt: Stmt) -> Stmt:
    """Fold constants in a statement, and remove loops and branches that never run."""
    unreachable = False

    def access(e: BufferLoad | BufferStore) -> BufferLoad | BufferStore:
        nonlocal unreachable
        if not unreachable and any(isinstance(index, IntImm) for index in e.indices):
            unreachable = is_outside(e)
        return e

    accesses = {BufferLoad: access, BufferStore: access}
    rows = {For: _loop, IfThenElse: _branch, SeqStmt: _sequence, While: _while, **accesses}
    made = rewrite(stmt, {**FOLDS, **rows})
    return drop_unreachable(made) if unreachable else made


_NOTHING = SeqStmt(())


def _loop(s: For) -> Stmt:
    empty = isinstance(s.extent, IntImm) and s.extent.value <= 0
    return _NOTHING if empty or s.body is _NOTHING else s


def _while(s: While) -> Stmt:
    return _NOTHING if isinstance(s.condition, IntImm) and not s.condition.value else s


def _branch(s: IfThenElse) -> Stmt:
    if not isinstance(s.condition, IntImm):
        return s
    return s.then_case if s.condition.value else s.else_case or _NOTHING


def _sequence(s: SeqStmt) -> Stmt:
    return s if s.seq else _NOTHING  # parts that were nothing are gone: sequences are flat
