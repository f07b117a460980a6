"""Copies of a factor in the order in which the micro kernel reads it.

A packed factor holds ``width`` rows (or columns) side by side for each step along the reduced axes.
What lies beyond the last row is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomir.arith.fold import add, imm64, mul
from loomir.autoschedule.contraction.operand import at, let
from loomir.autoschedule.contraction.sides import Places, Side, Values
from loomir.autoschedule.nest import loop, unrolled, vectorized
from loomir.tir.buffer import Buffer
from loomir.tir.expr import LE, LT, Call, PrimExpr, const
from loomir.tir.op import IF_THEN_ELSE
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt

__all__ = ["Packing", "pack_tile"]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """What to copy: ``value(place, k)``, where the axes of ``side`` are at ``place``.

    ``side_by_side`` says that neighbours lie side by side where they come from, so that vectors of
    ``lanes`` can be copied.
    """

    side: Side
    value: Callable[[Values, PrimExpr], PrimExpr]
    lanes: int
    side_by_side: bool


def pack_tile(
    what: Packing,
    into: Callable[[PrimExpr, PrimExpr], tuple[Buffer, tuple[PrimExpr, ...]]],
    tile: PrimExpr,
    start: PrimExpr,
    depth: PrimExpr,
) -> Stmt:
    """Copy one tile for ``depth`` steps from ``start`` on.

    ``into`` gives the place of step and row in the copy.
    """
    side = what.side

    def copy(first: PrimExpr, places: Places) -> Stmt:
        def put(k: PrimExpr, r: PrimExpr, guarded: bool) -> Stmt:
            value = what.value(places(r), add(start, k))
            if guarded:
                inside = LT(add(first, r), side.extent)
                value = Call(value.dtype, IF_THEN_ELSE, (inside, value, const(0, value.dtype)))
            buffer, indices = into(k, r)
            return BufferStore(buffer, value, indices)

        full = _full(what, put, depth)
        if side.even:
            return full
        partial = loop("k", depth, lambda k: loop("r", side.width, lambda r: put(k, r, True)))
        return IfThenElse(LE(add(first, imm64(side.width)), side.extent), full, partial)

    return let(
        "first",
        mul(tile, imm64(side.width)),
        lambda first: side.placed(first, lambda places: copy(first, places)),
    )


def _full(what: Packing, put: Callable[[PrimExpr, PrimExpr, bool], Stmt], depth: PrimExpr) -> Stmt:
    """Copy a tile that has all its rows."""
    width = what.side.width
    if what.side_by_side and width % what.lanes == 0 and what.lanes > 1:
        return loop(
            "k",
            depth,
            lambda k: loop(
                "v",
                width // what.lanes,
                lambda v: vectorized(
                    "c", what.lanes, lambda c: put(k, at(v, what.lanes, c), False)
                ),
            ),
        )
    if width <= 16 or width % 8:
        return loop("k", depth, lambda k: unrolled("r", width, lambda r: put(k, r, False)))
    return loop(
        "r",
        width // 8,
        lambda r: loop(
            "k", depth, lambda k: unrolled("c", 8, lambda c: put(k, at(r, 8, c), False))
        ),
    )
