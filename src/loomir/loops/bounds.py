"""Bounds inference: the indices that accesses reach while loops run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.visit import pre_order
from loomir.tir.buffer import BufferLoad, Range
from loomir.tir.expr import LE, Max, Min, PrimExpr, Var

__all__ = ["Ends", "find_ends", "find_extreme", "is_known_outside"]


class Ends(NamedTuple):
    """The first and the last index of a range."""

    low: PrimExpr
    high: PrimExpr


def find_ends(r: Range, loops: Mapping[Var, Range], analyzer: Analyzer) -> Ends | None:
    """Return the least and the greatest index of a range while loops run, None if unknown."""
    last, dtype = r.min, r.min.dtype
    if r.extent is not None:
        last = add(last, sub(to_int(r.extent, dtype), imm(1, dtype)))
    low = analyzer.int_set(r.min, loops).min_value
    high = analyzer.int_set(last, loops).max_value
    return None if low is None or high is None else Ends(low, high)


def is_known_outside(ends: Ends, inner: set[int]) -> bool:
    """Tell whether ends read no memory and mention none of the definitions of ``inner``."""
    return not any(
        isinstance(n, BufferLoad) or id(n) in inner for end in ends for n in pre_order(end)
    )


def find_extreme(
    op: type[Min] | type[Max],
    values: Iterable[PrimExpr],
    analyzer: Analyzer,
    *,
    prefer_last: bool = False,
) -> PrimExpr:
    """Return the least or the greatest of several values, one of them if that is proved.

    Of equal ones it is the first, or with ``prefer_last`` the last.
    """
    made, *others = values
    for value in others:
        a, b = (value, made) if prefer_last else (made, value)
        small, large = (a, b) if op is Min else (b, a)
        if analyzer.can_prove(LE(small, large)):
            made = a
        elif analyzer.can_prove(LE(large, small)):
            made = b
        else:
            made = op(made, value)
    return made
