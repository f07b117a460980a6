"""Interval arithmetic of integers.

A transfer function returns the interval of the exact result, over unbounded integers; ``wrap`` then
returns the values that a dtype makes of it. The tests run these functions on symbols, and z3 proves
that no result lies outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub

__all__ = [
    "TRANSFER",
    "Interval",
    "fits",
    "full",
    "shift_right",
    "span",
    "union",
    "wrap",
]


class Interval(NamedTuple):
    """All integers from ``low`` to ``high``, both inclusive."""

    low: int
    high: int


def full(dtype: DataType) -> Interval:
    """Return all values of an integer dtype."""
    return Interval(dtype.min_value, dtype.max_value)


def fits(interval: Interval, dtype: DataType) -> bool:
    """Tell whether all values of an interval fit a dtype."""
    return dtype.min_value <= interval.low and interval.high <= dtype.max_value


def wrap(interval: Interval, dtype: DataType) -> Interval:
    """Return the values of an interval of exact results after wrapping to a dtype."""
    low, high = dtype.min_value, dtype.max_value
    return _wrap(interval, low, high, high - low + 1)


def _wrap(interval: Interval, low: int, high: int, period: int) -> Interval:
    if low <= interval.low and interval.high <= high:
        return interval
    turn = (interval.low - low) // period
    if turn == (interval.high - low) // period:  # all values wrap equally often
        return Interval(interval.low - turn * period, interval.high - turn * period)
    return Interval(low, high)


def union(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that contains both."""
    return Interval(min(a.low, b.low), max(a.high, b.high))


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _sub(a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


def _mul(a: Interval, b: Interval) -> Interval:
    p, q, r, s = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    return Interval(min(p, q, r, s), max(p, q, r, s))


def _min(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), min(a.high, b.high))


def _max(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.low, b.low), max(a.high, b.high))


def _positive_floordiv(a: Interval, b: Interval) -> Interval:
    """Divide by values above 0: quotients are farthest from 0 for the least divisor."""
    return Interval(
        a.low // (b.low if a.low < 0 else b.high),
        a.high // (b.high if a.high < 0 else b.low),
    )


def _negate(a: Interval) -> Interval:
    return Interval(-a.high, -a.low)


def _nonzero(b: Interval) -> tuple[Interval | None, Interval | None]:
    """Return the parts above and below 0; division by 0 has no value."""
    above = Interval(max(b.low, 1), b.high) if b.high > 0 else None
    below = Interval(b.low, min(b.high, -1)) if b.low < 0 else None
    return above, below


def _floordiv(a: Interval, b: Interval) -> Interval:
    above, below = _nonzero(b)
    up = None if above is None else _positive_floordiv(a, above)
    down = None if below is None else _positive_floordiv(_negate(a), _negate(below))
    if up is None or down is None:
        return up or down or a
    return union(up, down)


def _positive_floormod(a: Interval, b: Interval) -> Interval:
    if b.low == b.high:
        turn = a.low // b.low
        if turn == a.high // b.low:
            return Interval(a.low - turn * b.low, a.high - turn * b.low)
    if a.low >= 0:
        return a if a.high < b.low else Interval(0, min(a.high, b.high - 1))
    return Interval(0, b.high - 1)


def _floormod(a: Interval, b: Interval) -> Interval:
    above, below = _nonzero(b)
    up = None if above is None else _positive_floormod(a, above)
    down = None if below is None else _negate(_positive_floormod(_negate(a), _negate(below)))
    if up is None or down is None:
        return up or down or a
    return union(up, down)


def _divide_truncating(a: int, b: int) -> int:
    """Divide towards 0 by a value above 0."""
    return a // b if a >= 0 else -(-a // b)


def _positive_div(a: Interval, b: Interval) -> Interval:
    return Interval(
        _divide_truncating(a.low, b.low if a.low < 0 else b.high),
        _divide_truncating(a.high, b.high if a.high < 0 else b.low),
    )


def _div(a: Interval, b: Interval) -> Interval:
    above, below = _nonzero(b)
    up = None if above is None else _positive_div(a, above)
    down = None if below is None else _negate(_positive_div(a, _negate(below)))
    if up is None or down is None:
        return up or down or a
    return union(up, down)


def _mod(a: Interval, b: Interval) -> Interval:
    """Bound the remainder of the truncated division: it has the sign of ``a``."""
    most = max(b.high, -b.low) - 1  # the largest absolute value of a remainder
    if most < 0:
        return a  # the divisor is always 0: there is no value
    if a.low >= 0 and b.low > a.high:
        return a
    return Interval(max(min(a.low, 0), -most), min(max(a.high, 0), most))


TRANSFER: Final[dict[type, Callable[[Interval, Interval], Interval]]] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    Min: _min,
    Max: _max,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Div: _div,
    Mod: _mod,
}
"""The interval of exact results for each operator."""


def span(base: Interval, stride: Interval, steps: int) -> Interval:
    """Return the values of ``base + t * stride`` for ``t`` from 0 to ``steps``."""
    low, high = stride.low * steps, stride.high * steps
    return Interval(base.low + min(low, 0), base.high + max(high, 0))


def shift_right(a: Interval, amount: int) -> Interval:
    """Return the values of an arithmetic shift to the right."""
    return Interval(a.low >> amount, a.high >> amount)


def mask(a: Interval, b: Interval) -> Interval | None:
    """Return the values of a bitwise and; None unless a side is certainly not negative."""
    tops = [x.high for x in (a, b) if x.low >= 0]
    return Interval(0, min(tops)) if tops else None


def call(name: str, args: list[Any], bits: int) -> Interval | None:
    """Return the values of a builtin of integers, or None if only its dtype bounds them.

    Shifts are by the amount modulo the width, ``bits``.
    """
    if name == "bitwise_and":
        return mask(args[0], args[1])
    if name == "shift_right" and args[1].low == args[1].high and 0 <= args[1].low < bits:
        return shift_right(args[0], args[1].low)
    if name in ("popcount", "clz"):
        return Interval(0, 64)
    if name == "abs":
        low, high = args[0]
        least = 0 if low <= 0 <= high else min(abs(low), abs(high))
        return Interval(least, max(abs(low), abs(high)))
    return None
