"""Keep loops that a program runs on threads (``T.parallel``), and vectorise those inside."""

from __future__ import annotations

from collections.abc import Mapping

from loomir.autoschedule.builders.vectorize_inner import vectorize_innermost_loops
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.rules.loops.parallelize import can_be_analysed
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.buffer import Range
from loomir.tir.expr import Var
from loomir.tir.stmt import For, ForKind, Stmt

__all__ = ["plan_requested"]


def plan_requested(stmt: Stmt, target: Target, around: Mapping[Var, Range]) -> Plan | None:
    """Vectorise innermost loops of a nest with a parallel loop; None if there is none.

    ``around`` are the loops around the statement.
    """
    loops: list[For] = by_class(stmt).get(For, [])
    shared = [loop for loop in loops if loop.kind is ForKind.PARALLEL]
    if not shared or not can_be_analysed(stmt):
        return None
    made = vectorize_innermost_loops(stmt, around, target)
    if made is stmt:
        return None
    names = ", ".join(loop.loop_var.name_hint for loop in shared)
    how = (
        f"threads share the iterations of {names}, as the program asks",
        f"innermost loops in vectors of {target.vector_bits} bits",
    )
    return Plan("loops as written", made, how)
