"""Builtins on scalars: one row for each name of ``tir.BUILTINS``.

Builtins that affect control flow, memory or whole vectors (``CONTROL``) are not functions of
scalars; ``special`` and the tables of expressions and statements treat them. Transcendental
functions are computed in float64, within two units in the last place, and so are correctly rounded
in shorter floats except for rare cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, TypeAlias

from loomir.interp.arithmetic import float_quotient, wrapper
from loomir.interp.values import pack, rounder, unpack
from loomir.support.dtype import DataType, TypeCode
from loomir.tir.builtins.accuracy import ACCURACY, ulp_tolerance

__all__ = ["CONTROL", "TOLERANCE", "builtin_function"]

Function: TypeAlias = Callable[..., Any]
UnaryFunction: TypeAlias = Callable[[Any], Any]
BinaryFunction: TypeAlias = Callable[[Any, Any], Any]

CONTROL: Final = frozenset(
    {
        "if_then_else",
        "ret",
        "break_loop",
        "continue_loop",
        "tvm_stack_make_shape",
        "tvm_stack_make_array",
        "check",
        "checked_index",
        "watch_escape",
        "watch_iteration",
        "watch_loop",
        "watch_memory",
        "watch_read",
        "watch_start",
        "watch_write",
        "reinterpret",
        "vectorlow",
        "vectorhigh",
        "vectorcombine",
        "dot_tiles",
        "dp2a",
        "dp4a",
        "get_active_lane_mask",
        "address_of",
        "handle_add_byte_offset",
        "ptr_byte_offset",
        "isnullptr",
        "prefetch",
        "type_annotation",
        "tvm_access_ptr",
        "undef",
        "assume",
        "tvm_tuple",
    }
)
"""Builtins that are more than a function of scalars."""


# -- float64 functions that never raise ----------------------------------------------------------
def _total(function: Callable[[float], float], over: Callable[[float], float]) -> Function:
    """Make a function total: NaN outside the domain, and ``over(x)`` on overflow."""

    def total(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return over(x)

    return total


def _infinity(x: float) -> float:
    return math.inf


def _sign_infinity(x: float) -> float:
    return math.copysign(math.inf, x)


def _logarithm(function: Callable[[float], float], pole: float) -> UnaryFunction:
    total = _total(function, _infinity)
    return lambda x: -math.inf if x == pole else total(x)


def _power(x: float, y: float) -> float:
    odd = y.is_integer() and math.fmod(y, 2.0) != 0
    negative = odd and math.copysign(1.0, x) < 0
    try:
        return math.pow(x, y)
    except ValueError:
        # NaN, except for zero to a negative power.
        return (-math.inf if negative else math.inf) if x == 0 else math.nan
    except OverflowError:
        return -math.inf if negative else math.inf


def _reciprocal_root(x: float) -> float:
    if x < 0:
        return math.nan
    return float_quotient(1.0, math.sqrt(x))


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x) if x == x else x
    return small / (1.0 + small)


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else _total(math.atanh, _infinity)(x)


def _remainder(x: float, y: float) -> float:
    try:
        return math.fmod(x, y)
    except ValueError:
        return math.nan


def _to_whole(function: Callable[[float], int]) -> UnaryFunction:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


_MATH: Final[dict[str, Function]] = {
    "exp": _total(math.exp, _infinity),
    "exp2": partial(_power, 2.0),
    "exp10": partial(_power, 10.0),
    "log": _logarithm(math.log, 0.0),
    "log2": _logarithm(math.log2, 0.0),
    "log10": _logarithm(math.log10, 0.0),
    "log1p": _logarithm(math.log1p, -1.0),
    "sqrt": _total(math.sqrt, _infinity),
    "rsqrt": _reciprocal_root,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "sin": _total(math.sin, _infinity),
    "cos": _total(math.cos, _infinity),
    "tan": _total(math.tan, _infinity),
    "sinh": _total(math.sinh, _sign_infinity),
    "cosh": _total(math.cosh, _infinity),
    "asin": _total(math.asin, _infinity),
    "acos": _total(math.acos, _infinity),
    "atan": math.atan,
    "asinh": math.asinh,
    "acosh": _total(math.acosh, _infinity),
    "atanh": _atanh,
    "floor": _to_whole(math.floor),
    "ceil": _to_whole(math.ceil),
    "trunc": _to_whole(math.trunc),
    "round": _to_whole(round),
    "nearbyint": _to_whole(round),
    "pow": _power,
    "atan2": math.atan2,
    "fmod": _remainder,
    "hypot": math.hypot,
    "copysign": math.copysign,
}
"""Functions of float64, whose results are rounded to the dtype."""

TOLERANCE: Final[dict[str, int]] = {
    name: ulp_tolerance(name) for name, bounds in ACCURACY.items() if bounds.float64 > 0.5
}
"""By how many units in the last place another engine's result may differ; by default none."""


# -- functions that depend on the dtype ----------------------------------------------------------
def _fma(dtype: DataType) -> Function:
    once = _round_once if dtype.bits == 64 else _narrow_fma(rounder(dtype))

    def fma(a: float, b: float, c: float) -> float:
        if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)) or not a or not b:
            # No rounding is needed: an operand is infinite or NaN, or the product is zero.
            if math.isfinite(a) and math.isfinite(b):
                return c if not math.isfinite(c) else a * b + c
            return a * b + c
        return once(a, b, c)

    return fma


def _round_once(a: float, b: float, c: float) -> float:
    (x, m), (y, n), (z, k) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    above = x * y * k + z * m * n
    try:
        return above / (m * n * k)  # a quotient of integers is rounded once
    except OverflowError:
        return math.inf if above > 0 else -math.inf


def _narrow_fma(cut: Callable[[float], float]) -> Callable[[float, float, float], float]:
    """Compute in float64, where products of narrower floats are exact, and round the sum to odd.

    A number rounded to odd can be rounded again, to at least two bits fewer, as if in one step.
    """

    def fma(a: float, b: float, c: float) -> float:
        product = a * b
        total = product + c
        rest = total - product
        lost = (product - (total - rest)) + (c - rest)
        if lost and not int(math.ldexp(math.frexp(total)[0], 53)) & 1:
            total = math.nextafter(total, math.inf if lost > 0 else -math.inf)
        return cut(total)

    return fma


def _ldexp(dtype: DataType) -> Function:
    cut = rounder(dtype)

    def ldexp(x: float, exponent: int) -> float:
        try:
            return cut(math.ldexp(x, exponent))
        except OverflowError:
            return math.copysign(math.inf, x)

    return ldexp


def _next_after(dtype: DataType) -> Function:
    bits = DataType(TypeCode.UINT, dtype.bits)
    sign = 1 << (dtype.bits - 1)

    def next_after(x: float, y: float) -> float:
        if x != x or y != y:
            return math.nan
        if x == y:
            return y
        if not x:
            return unpack(pack(1 | (sign if y < 0 else 0), bits), dtype)
        # Bits of floats of one sign, as integers, are ordered by magnitude.
        away = (y > x) == (x > 0)
        return unpack(pack(unpack(pack(x, dtype), bits) + (1 if away else -1), bits), dtype)

    return next_after


def _magnitude(dtype: DataType) -> UnaryFunction:
    if dtype.is_float:
        return abs
    wrap = wrapper(dtype)
    return lambda x: wrap(abs(x))


def _complement(dtype: DataType) -> UnaryFunction:
    if dtype.is_bool:
        return lambda x: not x
    wrap = wrapper(dtype)
    return lambda x: wrap(~x)


def _shift_left(dtype: DataType) -> BinaryFunction:
    wrap, bits = wrapper(dtype), dtype.bits
    return lambda x, y: wrap(x << (y % bits))


def _shift_right(dtype: DataType) -> BinaryFunction:
    bits = dtype.bits
    return lambda x, y: x >> (y % bits)


def _ones(dtype: DataType) -> UnaryFunction:
    mask = (1 << dtype.bits) - 1
    return lambda x: bin(x & mask).count("1")


def _count_leading_zeros(dtype: DataType) -> UnaryFunction:
    bits, mask = dtype.bits, (1 << dtype.bits) - 1
    return lambda x: bits - (x & mask).bit_length()


def _and(dtype: DataType) -> BinaryFunction:
    return lambda x, y: x & y


def _or(dtype: DataType) -> BinaryFunction:
    return lambda x, y: x | y


def _xor(dtype: DataType) -> BinaryFunction:
    return lambda x, y: x ^ y


def _is_nan(dtype: DataType) -> Function:
    return math.isnan


def _is_infinite(dtype: DataType) -> Function:
    return math.isinf


def _is_finite(dtype: DataType) -> Function:
    return math.isfinite


def _identity(dtype: DataType) -> UnaryFunction:
    return lambda x: x


def _q_multiply_shift(dtype: DataType) -> Function:
    wrap = wrapper(dtype)

    def multiply(x: int, y: int, q: int, s: int) -> Any:
        down = q - s
        product = x * y
        if down <= 0:
            # Beyond 63, no bits of the product remain.
            return wrap(product << min(-down, 63))
        if down > 64:
            return 0  # the product has at most 63 bits
        # Round halves up: add half a unit, then round down.
        return wrap((product + (1 << (down - 1))) >> down)

    return multiply


def _q_multiply_shift_per_axis(dtype: DataType) -> Function:
    multiply = _q_multiply_shift(dtype)

    def multiply_per_axis(x: int, y: int, ls: int, rs: int, q: int, left: bool, right: bool) -> Any:
        return multiply(x, y, q, (ls if left else 0) - (rs if right else 0))

    return multiply_per_axis


_BY_DTYPE: Final[dict[str, Callable[[DataType], Function]]] = {
    "fma": _fma,
    "ldexp": _ldexp,
    "nextafter": _next_after,
    "abs": _magnitude,
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _xor,
    "bitwise_not": _complement,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "popcount": _ones,
    "clz": _count_leading_zeros,
    "q_multiply_shift": _q_multiply_shift,
    "q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
    "likely": _identity,
    "ignore_loop_partition": _identity,
}


@cache
def builtin_function(name: str, dtype: DataType) -> Function:
    """Return the function of a builtin on scalars, by the dtype of its first argument.

    It is applied lane by lane. Builtins in ``CONTROL`` have no such function.
    """
    element = dtype.element
    if name in _BY_DTYPE:
        return _BY_DTYPE[name](element)
    function, cut = _MATH[name], rounder(element)
    if element.bits == 64:
        return function
    return lambda *args: cut(function(*args))
