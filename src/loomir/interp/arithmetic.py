"""Scalar operators by kind of dtype: the language's arithmetic as a table.

A function here takes and returns scalars of one dtype. An integer division by zero raises Python's
``ZeroDivisionError``, which the caller turns into the program's error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from loomir.interp.values import Scalar, format_of, round_exact, rounder
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
)

__all__ = [
    "Binary",
    "InexactResult",
    "Unary",
    "binary_function",
    "conversion",
    "exact_function",
    "exact_shift",
    "float_quotient",
    "needs_guard",
    "wrapper",
]

Binary: TypeAlias = Callable[[Any, Any], Any]
Unary: TypeAlias = Callable[[Any], Any]


def wrapper(dtype: DataType) -> Callable[[int], Scalar]:
    """Return the function that wraps an integer to an integer dtype, modulo 2**bits."""
    if dtype.is_bool:
        return lambda x: bool(x & 1)
    mask = (1 << dtype.bits) - 1
    if dtype.is_uint:
        return lambda x: x & mask
    half = 1 << (dtype.bits - 1)
    return lambda x: ((x + half) & mask) - half


# -- integers ----------------------------------------------------------------------------------
def _floor_quotient(a: int, b: int) -> int:
    return a // b


def _truncate_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncate_remainder(a: int, b: int) -> int:
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


_EXACT: Final[dict[type, Callable[[int, int], int]]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    Div: _truncate_quotient,
    Mod: _truncate_remainder,
    FloorDiv: _floor_quotient,
    FloorMod: operator.mod,
}
"""The results in the integers, which are wrapped afterwards."""


def _smaller(a: Any, b: Any) -> Any:
    # Comparisons with NaN are false: the first test returns a NaN in `a`, the second one in `b`.
    return a if a != a or a <= b else b


def _larger(a: Any, b: Any) -> Any:
    return a if a != a or a >= b else b


_PLAIN: Final[dict[type, Binary]] = {
    Min: _smaller,
    Max: _larger,
    Eq: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}
"""Operators that mean the same for every dtype and never leave its range."""


def _integer_function(kind: type, dtype: DataType) -> Binary:
    exact = _EXACT[kind]
    if dtype.is_bool:
        return lambda a, b: bool(exact(int(a), int(b)) & 1)
    mask = (1 << dtype.bits) - 1
    if dtype.is_uint:
        return lambda a, b: exact(a, b) & mask
    half = 1 << (dtype.bits - 1)
    return lambda a, b: ((exact(a, b) + half) & mask) - half


# -- floats ------------------------------------------------------------------------------------
def float_quotient(a: float, b: float) -> float:
    """Divide as IEEE 754 does: by zero, the result is an infinity, or NaN for 0 / 0."""
    if b:
        return a / b
    if a != a or not a or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor(x: float) -> float:
    # math.floor returns an integer, without the sign of zero, and raises for infinities.
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def _float_function(kind: type, dtype: DataType) -> Binary:
    """Compute in float64 and round.

    For shorter floats, computing one operation in float64 and rounding again is correctly rounded,
    since 53 bits are at least twice the shorter precision plus two.
    """
    cut = rounder(dtype)

    def floor_remainder(a: float, b: float) -> float:
        whole = _floor(cut(float_quotient(a, b)))
        return cut(a - cut(whole * b))

    table: dict[type, Binary] = {
        Add: lambda a, b: cut(a + b),
        Sub: lambda a, b: cut(a - b),
        Mul: lambda a, b: cut(a * b),
        Div: lambda a, b: cut(float_quotient(a, b)),
        FloorDiv: lambda a, b: _floor(cut(float_quotient(a, b))),
        FloorMod: floor_remainder,
    }
    return table[kind]


@cache
def binary_function(kind: type, dtype: DataType) -> Binary:
    """Return the function of an operator or comparison on scalars of ``dtype``."""
    element = dtype.element
    if kind in _PLAIN:
        return _PLAIN[kind]
    if element.is_float:
        return _float_function(kind, element)
    if kind in _EXACT:
        return _integer_function(kind, element)
    raise InternalError(f"no arithmetic for {kind.__name__} of {dtype}")


class InexactResult(ArithmeticError):
    """An integer result does not fit its dtype."""


def exact_function(kind: type, dtype: DataType) -> Binary:
    """Return the function of an operator for which overflow is an error.

    Errors: InexactResult, for signed integers of 64 bits; others wrap.
    """
    if kind not in _EXACT or not (dtype.is_int and dtype.bits == 64):
        return binary_function(kind, dtype)
    exact, low, high = _EXACT[kind], dtype.min_value, dtype.max_value

    def check(a: int, b: int) -> int:
        made = exact(a, b)
        if not low <= made <= high:
            raise InexactResult
        return made

    return check


def exact_shift(shift: Binary, bits: int) -> Binary:
    """Make a left shift raise if bits are lost. Errors: InexactResult."""

    def check(a: int, b: int) -> int:
        made: int = shift(a, b)
        if made >> (b % bits) != a:
            raise InexactResult
        return made

    return check


def needs_guard(kind: type, dtype: DataType) -> bool:
    """Tell whether the operator can divide by zero on this dtype."""
    return kind in (Div, Mod, FloorDiv, FloorMod) and not dtype.is_float


# -- conversions -------------------------------------------------------------------------------
def _to_integer(target: DataType) -> Unary:
    low, high = target.min_value, target.max_value

    def convert(x: float) -> int:
        if x != x:
            return 0
        if x in (math.inf, -math.inf):
            return high if x > 0 else low
        return min(max(int(x), low), high)

    return convert


_WHOLE: Final = 1 << 53
"""Up to this bound, float64 represents every integer."""


@cache
def conversion(source: DataType, target: DataType) -> Unary:
    """Return the function of a cast on scalars.

    A cast to Bool is ``x != 0``. Integers lose high bits. Floats become integers by truncation and
    saturation, and NaN becomes 0. Casts to floats round once.
    """
    source, target = source.element, target.element
    if target.is_bool:
        return lambda x: x != 0
    if target.is_float:
        if source.is_float:
            return rounder(target)
        form = format_of(target)
        if source.bits < form.precision or target.bits == 64:
            return float  # this rounds once
        cut = rounder(target)
        return lambda x: cut(float(x)) if -_WHOLE <= x <= _WHOLE else round_exact(int(x), form)
    if source.is_float:
        return _to_integer(target)
    return wrapper(target) if not source.is_bool else int
