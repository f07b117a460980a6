"""A stretch of elements in steps of several sizes: whole vectors first, then what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import imm, imm64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX, loop
from loomir.tir.expr import PrimExpr
from loomir.tir.stmt import Stmt

__all__ = ["in_steps", "parts_of", "plus"]


def parts_of(lanes: int, length: int | None) -> list[int]:
    """Give the parts of a vector in which to take what fills none, where one by one costs much.

    Fifteen exponentials are as much work as seven vectors of them.
    """
    if length is None:
        return [4] if lanes > 4 else []
    return [lanes >> k for k in range(1, lanes.bit_length()) if lanes >> k >= 4]


def plus(low: PrimExpr, i: PrimExpr) -> PrimExpr:
    """Add, where there is something to add to."""
    return i if number(low) == 0 else low + i


def _is_multiple(length: PrimExpr, size: int) -> bool:
    """Whether a length of many values is always so many whole steps."""
    if number(length) is not None:
        return False  # what is left is seen to be 0
    found = Analyzer().modular_set(length)
    return found.coeff % size == 0 and found.base % size == 0


def in_steps(
    begin: PrimExpr,
    length: PrimExpr,
    sizes: Sequence[int],
    body: Callable[[PrimExpr, int], Stmt],
    *,
    ahead: int = 0,
) -> list[Stmt]:
    """Cover a stretch by steps of the first size, what is left by the next size, and so on.

    Vectors that lie so many elements ``ahead`` are fetched into the caches.
    """
    made: list[Stmt] = []
    done: PrimExpr = imm64(0)
    for size in sizes:
        left = length - done
        if number(left) == 0:
            break
        if number(left // imm(size, INDEX)) == 0:
            continue
        step = imm(size, INDEX)
        base = plus(begin, done) if number(done) != 0 else begin

        def one(i: PrimExpr, base: PrimExpr = base, size: int = size) -> Stmt:
            return body(plus(base, i * imm64(size)) if size > 1 else plus(base, i), size)

        name = "i" if size == 1 else "v"
        made.append(loop(name, left // step if size > 1 else left, one, ahead=ahead))
        if size > 1 and _is_multiple(length, size):
            break
        done = length // step * step
    return made
