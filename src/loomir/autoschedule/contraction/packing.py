"""Copies of a factor in the order in which the micro kernel reads it.

A packed factor holds ``width`` rows (or columns) side by side for each step along the reduced axes.
What lies beyond the last row is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomir.arith.fold import add, imm64
from loomir.autoschedule.contraction.operand import at
from loomir.autoschedule.nest import loop, unrolled, vectorized
from loomir.tir.buffer import Buffer
from loomir.tir.expr import LE, LT, Call, IntImm, PrimExpr, const
from loomir.tir.op import IF_THEN_ELSE
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt

__all__ = ["Packing", "pack_tile"]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """What to copy: ``value(index, k)`` for ``index`` below ``limit``, ``width`` to a tile.

    ``side_by_side`` says that neighbours lie side by side where they come from, so that vectors of
    ``lanes`` can be copied; ``deep`` that steps along the reduced axes do.
    """

    value: Callable[[PrimExpr, PrimExpr], PrimExpr]
    limit: PrimExpr
    width: int
    lanes: int
    side_by_side: bool
    deep: bool


def pack_tile(
    what: Packing,
    into: Callable[[PrimExpr, PrimExpr], tuple[Buffer, tuple[PrimExpr, ...]]],
    first: PrimExpr,
    start: PrimExpr,
    depth: PrimExpr,
) -> Stmt:
    """Copy one tile, from row ``first`` on, for ``depth`` steps from ``start`` on.

    ``into`` gives the place of step and row in the copy.
    """

    def put(k: PrimExpr, r: PrimExpr, guarded: bool) -> Stmt:
        value = what.value(add(first, r), add(start, k))
        if guarded:
            inside = LT(add(first, r), what.limit)
            value = Call(value.dtype, IF_THEN_ELSE, (inside, value, const(0, value.dtype)))
        buffer, indices = into(k, r)
        return BufferStore(buffer, value, indices)

    whole = what.limit.value % what.width == 0 if isinstance(what.limit, IntImm) else False
    full = _full(what, put, depth)
    if whole:
        return full
    partial = loop("k", depth, lambda k: loop("r", what.width, lambda r: put(k, r, True)))
    return IfThenElse(LE(add(first, imm64(what.width)), what.limit), full, partial)


def _full(what: Packing, put: Callable[[PrimExpr, PrimExpr, bool], Stmt], depth: PrimExpr) -> Stmt:
    """Copy a tile that has all its rows."""
    if what.side_by_side and what.width % what.lanes == 0 and what.lanes > 1:
        return loop(
            "k",
            depth,
            lambda k: loop(
                "v",
                what.width // what.lanes,
                lambda v: vectorized(
                    "c", what.lanes, lambda c: put(k, at(v, what.lanes, c), False)
                ),
            ),
        )
    if what.width <= 16:
        return loop("k", depth, lambda k: unrolled("r", what.width, lambda r: put(k, r, False)))
    return loop(
        "r",
        what.width // 8,
        lambda r: loop(
            "k", depth, lambda k: unrolled("c", 8, lambda c: put(k, at(r, 8, c), False))
        ),
    )
