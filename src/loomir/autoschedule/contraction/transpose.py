"""Square blocks of vectors turned in registers: rows become columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.autoschedule.contraction.operand import let
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr, Shuffle
from loomir.tir.stmt import Stmt

__all__ = ["turned"]


def turned(rows: Sequence[PrimExpr], body: Callable[[Sequence[PrimExpr]], Stmt]) -> Stmt:
    """Turn as many vectors as each has lanes, a power of two: halves change places, then quarters.

    Each step joins two vectors to two others, with which machines help.
    """
    size = len(rows)

    def stage(now: list[PrimExpr], distance: int) -> Stmt:
        if distance == size:
            return body(now)
        made: dict[int, PrimExpr] = {}
        for i in range(size):
            if i & distance:
                continue
            pair = (now[i], now[i + distance])
            low = [j if not j & distance else size + j - distance for j in range(size)]
            high = [j + distance if not j & distance else size + j for j in range(size)]
            made[i], made[i + distance] = _picked(pair, low), _picked(pair, high)
        return named([made[i] for i in range(size)], [], lambda v: stage(v, 2 * distance))

    return named(list(rows), [], lambda v: stage(v, 1))


def named(
    left: list[PrimExpr], done: list[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]
) -> Stmt:
    """Bind values to names, one after the other."""
    if not left:
        return body(done)
    return let("v", left[0], lambda v: named(left[1:], [*done, v], body))


def _picked(pair: tuple[PrimExpr, PrimExpr], lanes: list[int]) -> PrimExpr:
    int32 = DataType("int32")
    return Shuffle(pair, tuple(IntImm(lane, int32) for lane in lanes))
