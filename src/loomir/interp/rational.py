"""Floats without rounding: the meaning of programs whose sums may be taken in any order.

A finite value of a float dtype is an ``int`` or a ``Fraction``, whatever its dtype; infinities and
NaN are Python floats, and zero has no sign. Functions with irrational results, such as ``exp``,
round their arguments to float64, and their float64 results are exact from there on: equal arguments
give equal results. So two programs that add the same terms agree, in whatever order they add them,
and a program that loses a term differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, Final, TypeAlias

from loomir.interp.arithmetic import binary_function, conversion
from loomir.interp.builtins import builtin_function
from loomir.interp.numbers import Numbers
from loomir.interp.values import FORMATS, format_of, round_exact, rounder
from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Div, FloorDiv, FloorMod, Mul, Sub

__all__ = ["EXACT", "ExactNumber", "exact_of", "float_of", "round_to_dtype"]

ExactNumber: TypeAlias = int | Fraction | float
"""An exact number, an infinity or NaN."""

_FLOAT64: Final = DataType("float64")
_POWERS: Final = 64
"""The largest exponent of powers that are computed as products."""


def exact_of(x: float) -> ExactNumber:
    """Convert a float to an exact number."""
    try:
        whole = int(x)
    except (OverflowError, ValueError):
        return x
    return whole if whole == x else Fraction(x)


def float_of(x: ExactNumber) -> float:
    """Round to float64."""
    return x if isinstance(x, float) else round_exact(x, FORMATS["float64"])


def round_to_dtype(x: ExactNumber, dtype: DataType) -> float:
    """Round once to the elements of a float dtype."""
    return x if isinstance(x, float) else round_exact(x, format_of(dtype))


def _plain(x: Any) -> ExactNumber:
    """Convert integral fractions to integers, which are faster."""
    return x.numerator if type(x) is Fraction and x.denominator == 1 else x


# -- operators -----------------------------------------------------------------------------------
def _sign(x: Any) -> float:
    return math.nan if x != x else float((x > 0) - (x < 0))


def _sum(a: Any, b: Any) -> Any:
    if type(a) is not float and type(b) is not float:
        return a + b
    if type(a) is not float:
        return b
    return a if type(b) is not float else a + b


def _difference(a: Any, b: Any) -> Any:
    return _sum(a, -b)


def _product(a: Any, b: Any) -> Any:
    if type(a) is not float and type(b) is not float:
        return a * b
    return _sign(a) * _sign(b) * math.inf  # NaN where one is 0


def _quotient(a: Any, b: Any) -> Any:
    if type(b) is float:
        return math.nan if b != b or type(a) is float else 0
    if type(a) is float:
        return a if b >= 0 else -a
    if not b:
        return _sign(a) * math.inf
    return _plain(Fraction(a) / b)


def _floor(x: Any) -> Any:
    return x if type(x) is float else math.floor(x)


def _floor_quotient(a: Any, b: Any) -> Any:
    return _floor(_quotient(a, b))


def _floor_remainder(a: Any, b: Any) -> Any:
    return _difference(a, _product(_floor_quotient(a, b), b))


_OPERATORS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    Add: _sum,
    Sub: _difference,
    Mul: _product,
    Div: _quotient,
    FloorDiv: _floor_quotient,
    FloorMod: _floor_remainder,
}


@cache
def _binary(kind: type, dtype: DataType) -> Callable[[Any, Any], Any]:
    if dtype.is_float and kind in _OPERATORS:
        return _OPERATORS[kind]
    return binary_function(kind, dtype)  # comparisons take any numbers


# -- conversions ---------------------------------------------------------------------------------
def _identity(x: Any) -> Any:
    return x


@cache
def _conversion(source: DataType, target: DataType) -> Callable[[Any], Any]:
    source, target = source.element, target.element
    if target.is_float:
        return _identity if source.is_float else int
    if source.is_float or source.is_bool or target.is_bool or source.bits != target.bits:
        return conversion(source, target)
    if source.is_int is target.is_int:
        return _identity  # the bits stay the same
    return conversion(source, target)


# -- builtins ------------------------------------------------------------------------------------
def _fma(a: Any, b: Any, c: Any) -> Any:
    return _sum(_product(a, b), c)


def _to_whole(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    return lambda x: x if type(x) is float else function(x)


def _remainder(x: Any, y: Any) -> Any:
    if type(x) is float or type(y) is float or not y:
        return x if type(y) is float and y == y and type(x) is not float else math.nan
    return x - math.trunc(Fraction(x) / y) * y


def _scale(x: Any, exponent: int) -> Any:
    if type(x) is float or not x:
        return x
    return _plain(x * Fraction(2) ** max(-(1 << 15), min(exponent, 1 << 15)))


def _copy_sign(x: Any, y: Any) -> Any:
    negative = math.copysign(1.0, y) < 0 if type(y) is float else y < 0
    return -abs(x) if negative else abs(x)


def _is_nan(x: Any) -> bool:
    return bool(x != x)


def _is_infinite(x: Any) -> bool:
    return type(x) is float and x == x


def _is_finite(x: Any) -> bool:
    return type(x) is not float


def _power(x: Any, y: Any) -> Any:
    whole = type(y) is not float and y == int(y) and abs(y) <= _POWERS
    if whole and type(x) is not float and (x or y >= 0):
        return _plain(Fraction(x) ** int(y))
    return _compute_by_floats("pow")(x, y)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "fma": _fma,
    "floor": _floor,
    "ceil": _to_whole(math.ceil),
    "trunc": _to_whole(math.trunc),
    "round": _to_whole(round),
    "nearbyint": _to_whole(round),
    "fmod": _remainder,
    "ldexp": _scale,
    "copysign": _copy_sign,
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    "pow": _power,
    "abs": abs,
    "likely": _identity,
    "ignore_loop_partition": _identity,
}
"""Functions of fractions with fractions as results."""


@cache
def _compute_by_floats(name: str) -> Callable[..., Any]:
    function = builtin_function(name, _FLOAT64)
    return lambda *args: exact_of(function(*map(float_of, args)))


@cache
def _builtin(name: str, dtype: DataType) -> Callable[..., Any]:
    if not dtype.is_float:
        return builtin_function(name, dtype)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name == "nextafter":  # it depends on the floats of a dtype
        function, element = builtin_function(name, dtype), dtype.element
        return lambda *args: exact_of(function(*(round_to_dtype(x, element) for x in args)))
    return _compute_by_floats(name)


def _constant(value: float, dtype: DataType) -> ExactNumber:
    return exact_of(rounder(dtype)(value))


EXACT: Final = Numbers(_constant, _binary, _conversion, _builtin, exact=True)
"""The arithmetic without rounding."""
