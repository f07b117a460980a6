"""Bounds inference: the indices that accesses reach while loops run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.visit import pre_order
from loomir.tir.buffer import BufferLoad, Range
from loomir.tir.expr import LE, Max, Min, PrimExpr, Var

__all__ = ["Ends", "find_ends", "find_greatest", "find_least", "is_known_outside"]


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


def find_least(values: Iterable[PrimExpr], analyzer: Analyzer) -> PrimExpr:
    """Return the least of several values: one of them, if that is proved, or their minimum."""
    made, *others = values
    for value in others:
        if not analyzer.can_prove(LE(made, value)):
            made = value if analyzer.can_prove(LE(value, made)) else Min(made, value)
    return made


def find_greatest(values: Iterable[PrimExpr], analyzer: Analyzer) -> PrimExpr:
    """Return the greatest of several values: one of them, if that is proved, or their maximum."""
    made, *others = values
    for value in others:
        if not analyzer.can_prove(LE(value, made)):
            made = value if analyzer.can_prove(LE(made, value)) else Max(made, value)
    return made
