"""Transpose square blocks in vector registers, by log2 stages of two-input shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm, PrimExpr, Shuffle, Var
from loomir.tir.stmt import LetStmt, Stmt

__all__ = ["transpose_in_registers"]


def transpose_in_registers(
    rows: Sequence[PrimExpr], body: Callable[[Sequence[PrimExpr]], Stmt]
) -> Stmt:
    """Transpose as many vectors as each has lanes, a power of two, for ``body``.

    Each stage shuffles pairs of vectors into pairs, which CPUs have instructions for.
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
            made[i], made[i + distance] = _shuffle(pair, low), _shuffle(pair, high)
        return bind_all([made[i] for i in range(size)], lambda v: stage(v, 2 * distance))

    return bind_all(rows, lambda v: stage(v, 1))


def bind_all(values: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Bind values to names around the statement that uses them.

    Built by a loop and not by recursion: blocks of bytes have hundreds of values.
    """
    names = [Var("v", value.dtype) for value in values]
    made = body([*names])
    for var, value in zip(reversed(names), reversed(values), strict=True):
        made = LetStmt(var, value, made)
    return made


def _shuffle(pair: tuple[PrimExpr, PrimExpr], lanes: list[int]) -> PrimExpr:
    int32 = DataType("int32")
    return Shuffle(pair, tuple(IntImm(lane, int32) for lane in lanes))
