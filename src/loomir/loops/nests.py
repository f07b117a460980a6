"""Split loop nests into loops and body, and put loops around statements."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.ir.visit import by_class, rebuild
from loomir.tir.analysis.effects import effects
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import For, ForKind, Stmt

__all__ = [
    "innermost_body",
    "is_rectangular",
    "is_serial",
    "nest_over",
    "split_nest",
    "wrap_in_loops",
]


def is_serial(loop: For) -> bool:
    """Tell whether a loop runs in order, and nothing is asked of it."""
    return loop.kind is ForKind.SERIAL and not loop.annotations


def split_nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """Return the serial loops of a perfect nest, outermost first, and the body of the innermost."""
    loops: list[For] = []
    while isinstance(stmt, For) and is_serial(stmt):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def innermost_body(stmt: Stmt) -> Stmt:
    """Return the body of the innermost loop of a perfect nest, whatever its loops are."""
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt


def nest_over(variables: Sequence[Var], extents: Sequence[PrimExpr], body: Stmt) -> Stmt:
    """Put serial loops that count from 0 around a statement, the first one outermost."""
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        body = For(var, IntImm(0, var.dtype), extent, ForKind.SERIAL, body)
    return body


def wrap_in_loops(loops: Sequence[For], body: Stmt) -> Stmt:
    """Put the loops of a nest, outermost first, around another body."""
    for loop in reversed(loops):
        body = rebuild(loop, {"body": body})
    return body


def is_rectangular(loops: Sequence[For]) -> bool:
    """Tell whether the bounds of all loops are the same in all iterations, and never fail."""
    names = {loop.loop_var for loop in loops}
    return not any(
        effects(edge) or any(v in names for v in by_class(edge).get(Var, ()))
        for loop in loops
        for edge in (loop.min, loop.extent)
    )
