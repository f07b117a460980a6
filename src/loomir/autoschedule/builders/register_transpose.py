"""Square blocks of vectors turned in registers: rows become columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr, Shuffle, Var
from loomir.tir.stmt import LetStmt, Stmt

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
        return named([made[i] for i in range(size)], lambda v: stage(v, 2 * distance))

    return named(rows, lambda v: stage(v, 1))


def named(values: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Bind values to names around what uses them.

    Bytes have hundreds of them, so that they are not bound by calls of one another.
    """
    names = [Var("v", value.dtype) for value in values]
    made = body([*names])
    for var, value in zip(reversed(names), reversed(values), strict=True):
        made = LetStmt(var, value, made)
    return made


def _picked(pair: tuple[PrimExpr, PrimExpr], lanes: list[int]) -> PrimExpr:
    int32 = DataType("int32")
    return Shuffle(pair, tuple(IntImm(lane, int32) for lane in lanes))
