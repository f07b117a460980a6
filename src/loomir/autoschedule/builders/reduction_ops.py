"""Combiners of reductions: on accumulators, on vectors, and across the lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.arith.fold import imm64
from loomir.autoschedule.ir.stage import Combine
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    CmpOp,
    Let,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Var,
    const,
)

__all__ = [
    "COMPARISONS",
    "accumulate",
    "identity",
    "load_vectors",
    "reduce_lanes",
    "reduce_vectors",
]

COMPARISONS: Final[dict[Combine, Callable[[PrimExpr, PrimExpr], CmpOp]]] = {
    Combine.GREATER: GT,
    Combine.NOT_LESS: GE,
    Combine.LESS: LT,
    Combine.NOT_GREATER: LE,
}
"""How a term compares with the accumulator where it replaces that."""


def _replace_if(combine: Combine) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    compare = COMPARISONS[combine]
    return lambda acc, term: Select(compare(term, acc), term, acc)


_NODES: Final[dict[Combine, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    Combine.SUM: Add,
    Combine.PROD: Mul,
    Combine.MAX: Max,
    Combine.MIN: Min,
    Combine.LAST_MAX: lambda acc, term: Max(term, acc),
    Combine.LAST_MIN: lambda acc, term: Min(term, acc),
    Combine.AND: And,
    Combine.OR: Or,
    **{combine: _replace_if(combine) for combine in COMPARISONS},
}


def accumulate(combine: Combine, acc: PrimExpr, term: PrimExpr) -> PrimExpr:
    """Combine a term into an accumulator."""
    node = _NODES[combine]
    if combine in (Combine.AND, Combine.OR) and not isinstance(term, Var):
        # A name: an operand that reads memory would be left out by lane.
        var = Var("term", term.dtype)
        return Let(var, term, node(acc, var))
    if combine not in COMPARISONS:
        return node(acc, term)
    # Both are used twice: values are named, so that nothing in them is bound twice.
    old = acc if isinstance(acc, Var) else Var("old", acc.dtype)
    new = term if isinstance(term, Var) else Var("term", term.dtype)
    made: PrimExpr = node(old, new)
    if new is not term:
        made = Let(new, term, made)
    return made if old is acc else Let(old, acc, made)


def identity(combine: Combine, dtype: DataType) -> PrimExpr:
    """Return the identity element of a combiner."""
    if combine in (Combine.MAX, Combine.LAST_MAX, Combine.GREATER, Combine.NOT_LESS):
        return const(float("-inf") if dtype.is_float else dtype.min_value, dtype)
    if combine in (Combine.MIN, Combine.LAST_MIN, Combine.LESS, Combine.NOT_GREATER):
        return const(float("inf") if dtype.is_float else dtype.max_value, dtype)
    if combine is Combine.SUM and dtype.is_float:
        return const(-0.0, dtype)  # 0.0 would make a sum of zeros below 0 one above
    return const(1 if combine in (Combine.PROD, Combine.AND) else 0, dtype)


def load_vectors(buffer: Buffer, count: int, lanes: int) -> list[PrimExpr]:
    """Load the first elements of a buffer as so many vectors."""
    starts = [imm64(k * lanes) for k in range(count)]
    return [BufferLoad(buffer, (Ramp(start, imm64(1), lanes),)) for start in starts]


def reduce_vectors(combine: Combine, parts: Sequence[PrimExpr], left: int = 1) -> list[PrimExpr]:
    """Reduce vectors pairwise, first half with second half, until so many are left."""
    while len(parts) > left:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        parts = [accumulate(combine, low, high) for low, high in pairs]
    return list(parts)


def reduce_lanes(combine: Combine, vector: PrimExpr, left: int = 1) -> PrimExpr:
    """Reduce the lanes of a vector horizontally, half with half, until so many are left."""
    node = _NODES[combine]
    while vector.dtype.lanes > left:
        var = Var("half", vector.dtype)
        low, high = call_builtin("vectorlow", var), call_builtin("vectorhigh", var)
        vector = Let(var, vector, node(low, high))
    return vector
