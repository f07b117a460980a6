"""Find sequential outer loops whose iterations are each enough work to be scheduled by themselves.

Examples are the time steps of a simulation and the steps of a factorisation: an iteration depends
on the one before it, but consists of loops that the rules know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

from loomir.autoschedule.rules.loops.parallelize import time_of_statement
from loomir.ir.visit import by_class
from loomir.loops.nests import is_serial
from loomir.loops.ranges import analyzer_for, bind_loops, loop_range
from loomir.tir.buffer import Range
from loomir.tir.expr import GE, IntImm, Var
from loomir.tir.stmt import For, Stmt

__all__ = ["is_repeated"]

_LEAST: Final = 1_000.0
"""Nanoseconds of an iteration from which it is scheduled by itself."""


def is_repeated(stmt: Stmt, around: Mapping[Var, Range]) -> TypeGuard[For]:
    """Whether a statement is a sequential loop of such work; ``around`` are the loops around it.

    Rules assume that extents are at least 0, as sizes are: ``n - i`` must be proved so.
    """
    if not isinstance(stmt, For) or not is_serial(stmt):
        return False
    inner: list[For] = by_class(stmt.body).get(For, [])
    ranges = {**around, stmt.loop_var: loop_range(stmt)}
    if not inner or time_of_statement(stmt.body, ranges) < _LEAST:
        return False
    analyzer = analyzer_for(ranges)
    bind_loops(analyzer, inner)
    return all(
        analyzer.can_prove(GE(loop.extent, IntImm(0, loop.extent.dtype)))
        for loop in inner
        if ranges.keys() & set(by_class(loop.extent).get(Var, ()))
    )
