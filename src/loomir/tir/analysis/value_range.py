"""Compute the least, greatest and average value of an index at run time.

Sizes are known numbers here. An average is exact for linear combinations of loop variables, which
covers rectangular and triangular loops; ``exact`` tells whether it is. The rules work on averages
as well as ends, so that they are not those of ``arith/bounds/interval.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from loomir.ir.visit import fold
from loomir.support.dtype import DataType
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)

__all__ = ["ValueRange", "loop_variable_range", "value_range_of"]


class ValueRange(NamedTuple):
    """The least, greatest and average value; ``exact``: the average is not an estimate."""

    low: int
    high: int
    mean: Fraction
    exact: bool = True

    @property
    def is_constant(self) -> bool:
        """Whether there is one value only."""
        return self.low == self.high


def _single(value: int) -> ValueRange:
    return ValueRange(value, value, Fraction(value))


def _all_of_dtype(dtype: DataType) -> ValueRange:
    low, high = (0, 1) if dtype.is_bool else (dtype.min_value, dtype.max_value)
    return ValueRange(low, high, Fraction(low + high, 2), exact=False)


def loop_variable_range(least: ValueRange, count: ValueRange) -> ValueRange:
    """Return the values of a loop variable that starts at ``least`` and takes ``count`` steps."""
    high = max(least.low, least.high + count.high - 1)
    mean = least.mean + max(Fraction(0), count.mean - 1) / 2
    return ValueRange(least.low, high, mean, least.exact and count.exact)


def _wrap(node: PrimExpr, made: ValueRange) -> ValueRange:
    """Return a result, or all values of the dtype if it may wrap."""
    whole = _all_of_dtype(node.dtype)
    return made if whole.low <= made.low and made.high <= whole.high else whole


def _products(a: ValueRange, b: ValueRange) -> ValueRange:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    exact = a.exact and b.exact and (a.is_constant or b.is_constant)
    return ValueRange(min(corners), max(corners), a.mean * b.mean, exact)


def _floor_div(a: ValueRange, b: ValueRange) -> ValueRange | None:
    if b.low <= 0:
        return None
    corners = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
    mean = Fraction(a.mean // b.mean) if a.is_constant else a.mean / b.mean
    return ValueRange(min(corners), max(corners), mean, a.is_constant and b.is_constant)


def _floor_mod(a: ValueRange, b: ValueRange) -> ValueRange | None:
    if b.low <= 0:
        return None
    if b.is_constant and a.low // b.low == a.high // b.low:
        shift = a.low // b.low * b.low
        return ValueRange(a.low - shift, a.high - shift, a.mean - shift, a.exact)
    return ValueRange(0, b.high - 1, (b.mean - 1) / 2, exact=False)


def _pick(a: ValueRange, b: ValueRange, choose: Callable[..., Any]) -> ValueRange:
    is_disjoint = a.high <= b.low or b.high <= a.low
    low, high, mean = choose(a.low, b.low), choose(a.high, b.high), choose(a.mean, b.mean)
    return ValueRange(low, high, mean, is_disjoint and a.exact and b.exact)


def _truth(yes: bool, no: bool) -> ValueRange:
    if yes or no:
        return _single(int(yes))
    return ValueRange(0, 1, Fraction(1, 2), exact=False)


_RULES: Final[dict[type, Callable[[ValueRange, ValueRange], ValueRange | None]]] = {
    Add: lambda a, b: ValueRange(
        a.low + b.low, a.high + b.high, a.mean + b.mean, a.exact and b.exact
    ),
    Sub: lambda a, b: ValueRange(
        a.low - b.high, a.high - b.low, a.mean - b.mean, a.exact and b.exact
    ),
    Mul: _products,
    FloorDiv: _floor_div,
    FloorMod: _floor_mod,
    Min: lambda a, b: _pick(a, b, min),
    Max: lambda a, b: _pick(a, b, max),
    LT: lambda a, b: _truth(a.high < b.low, a.low >= b.high),
    LE: lambda a, b: _truth(a.high <= b.low, a.low > b.high),
    GT: lambda a, b: _truth(a.low > b.high, a.high <= b.low),
    GE: lambda a, b: _truth(a.low >= b.high, a.high < b.low),
    Eq: lambda a, b: _truth(
        a.is_constant and b.is_constant and a.low == b.low, a.high < b.low or b.high < a.low
    ),
    NE: lambda a, b: _truth(
        a.high < b.low or b.high < a.low, a.is_constant and b.is_constant and a.low == b.low
    ),
    And: lambda a, b: _truth(a.low > 0 and b.low > 0, a.high == 0 or b.high == 0),
    Or: lambda a, b: _truth(a.low > 0 or b.low > 0, a.high == 0 and b.high == 0),
}


def value_range_of(expr: PrimExpr, known: Mapping[Var, ValueRange]) -> ValueRange | None:
    """Return the values of an integer or truth value; of a vector, those of all its lanes.

    None if they are not numbers, or depend on data.
    """

    def step(node: Any, parts: list[ValueRange | None]) -> ValueRange | None:
        if isinstance(node, Var):
            return known.get(node)
        if isinstance(node, IntImm):
            return _single(node.value)
        if not isinstance(node, PrimExpr) or not (node.dtype.is_integer or node.dtype.is_bool):
            return None
        made = _combine(node, parts)
        return None if made is None else _wrap(node, made)

    return fold(expr, step)


def _combine(node: PrimExpr, parts: list[ValueRange | None]) -> ValueRange | None:
    rule = _RULES.get(node.__class__)
    if rule is not None:
        a, b = parts
        return None if a is None or b is None else rule(a, b)
    if isinstance(node, (Cast, Broadcast)):
        return parts[0]
    if isinstance(node, Let):
        return parts[-1]
    if isinstance(node, Not):
        a = parts[0]
        return None if a is None else _truth(a.high == 0, a.low > 0)
    if isinstance(node, Ramp):
        base, stride = parts
        if base is None or stride is None:
            return None
        lane = ValueRange(0, node.lanes - 1, Fraction(node.lanes - 1, 2))
        return _RULES[Add](base, _products(stride, lane))
    if isinstance(node, Select):
        condition, a, b = parts
        if a is None or b is None:
            return None
        if condition is not None and condition.is_constant:
            return a if condition.low else b
        mean = (a.mean + b.mean) / 2
        return ValueRange(min(a.low, b.low), max(a.high, b.high), mean, exact=False)
    return None
