"""Strip-mine a range by several widths: a loop of full vectors, then remainder loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import imm, imm64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX, loop
from loomir.tir.expr import PrimExpr
from loomir.tir.stmt import Stmt

__all__ = ["add_offset", "partial_vector_widths", "strip_mine"]


def partial_vector_widths(lanes: int, length: int | None) -> list[int]:
    """List narrower vector widths for the remainder, where a scalar remainder loop costs much.

    Fifteen exponentials are as much work as seven vectors of them.
    """
    if length is None:
        return [4] if lanes > 4 else []
    return [lanes >> k for k in range(1, lanes.bit_length()) if lanes >> k >= 4]


def add_offset(low: PrimExpr, i: PrimExpr) -> PrimExpr:
    """Add an offset to a lower bound, and leave out a bound of 0."""
    return i if number(low) == 0 else low + i


def _is_multiple(length: PrimExpr, size: int) -> bool:
    """Whether a symbolic length is provably a multiple of a step."""
    if number(length) is not None:
        return False  # what is left is seen to be 0
    found = Analyzer().modular_set(length)
    return found.coeff % size == 0 and found.base % size == 0


def strip_mine(
    begin: PrimExpr,
    length: PrimExpr,
    sizes: Sequence[int],
    body: Callable[[PrimExpr, int], Stmt],
    *,
    ahead: int = 0,
) -> list[Stmt]:
    """Cover a range by strips of the first size, its remainder by the next size, and so on.

    Elements at a distance of ``ahead`` are prefetched.
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
        base = add_offset(begin, done) if number(done) != 0 else begin

        def build_strip(i: PrimExpr, base: PrimExpr = base, size: int = size) -> Stmt:
            return body(
                add_offset(base, i * imm64(size)) if size > 1 else add_offset(base, i), size
            )

        name = "i" if size == 1 else "v"
        made.append(loop(name, left // step if size > 1 else left, build_strip, ahead=ahead))
        if size > 1 and _is_multiple(length, size):
            break
        done = length // step * step
    return made
