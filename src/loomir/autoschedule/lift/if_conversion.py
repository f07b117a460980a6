"""Conditions around what loops combine: one for each statement, and no branch where none is needed.

A branch for each element that the CPU cannot foresee takes 5 ns. What is read is there in any case
where loops go over whole arrays, so that an element may join or not as lanes are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.fold import int64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.ir.stage import Axis
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Call, IntImm, Let, PrimExpr, Select, Var
from loomir.tir.stmt import BufferStore, IfThenElse, SeqStmt, Stmt

__all__ = ["guarded_apart", "without_branch"]


def guarded_apart(stmt: Stmt) -> Stmt:
    """Put a condition around each of several stores, where none changes what it asks for."""
    if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
        return stmt
    body, condition = stmt.then_case, stmt.condition
    if not isinstance(body, SeqStmt) or not all(isinstance(s, BufferStore) for s in body.seq):
        return stmt
    written = {id(s.buffer.data) for s in body.seq if isinstance(s, BufferStore)}
    asked: list[BufferLoad] = by_class(condition).get(BufferLoad, [])
    if any(id(load.buffer.data) in written for load in asked):
        return stmt
    return SeqStmt(
        tuple(IfThenElse(condition, part, None, span=stmt.span) for part in body.seq),
        span=body.span,
    )


def without_branch(value: Call, axes: Sequence[Axis]) -> PrimExpr:
    """Give a choice that reads both of its values, where that is allowed and cheap."""
    condition, term, nothing = value.args
    found = by_class(term)
    if Call in found or Let in found:
        return value
    extents = {axis.var: axis.extent for axis in axes}
    loads: list[BufferLoad] = [*found.get(BufferLoad, ())]
    if not all(_is_there(load, extents) for load in loads):
        return value
    return Select(condition, term, nothing, span=value.span)


def _is_there(load: BufferLoad, extents: dict[Var, PrimExpr]) -> bool:
    """Whether an element is within its array for all values of the axes."""
    for index, dim in zip(load.indices, load.buffer.shape, strict=True):
        size = number(dim)
        if isinstance(index, IntImm):
            if size is None or not 0 <= index.value < size:
                return False
            continue
        extent = extents.get(index) if isinstance(index, Var) else None
        if extent is None:
            return False
        most = number(extent)
        within = most is not None and size is not None and most <= size
        if not within and not structural_equal(extent, int64(dim)):
            return False
    return True
