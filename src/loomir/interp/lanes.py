"""Operators on vectors: one function for all lanes, quicker than a call for each of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from loomir.interp.arithmetic import wrapper
from loomir.interp.values import Value, rounder
from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Max, Min, Mul, Sub

__all__ = ["lanewise"]

_Function: TypeAlias = Callable[[Any, Any], Any]
_Vectors: TypeAlias = Callable[[Value, Value], Value]


def lanewise(kind: type, dtype: DataType, function: _Function, *, exact: bool) -> _Vectors:
    """Return an operator on vectors, from the ``function`` for lanes.

    With ``exact``, floats are exact numbers.
    """
    if dtype.is_float and kind in _NUMBERS:
        return _NUMBERS[kind](function) if exact else _FLOATS[kind](_round(dtype.element))
    if dtype.is_integer and not dtype.is_bool:
        if kind in _WRAPPED:
            element = dtype.element
            return _WRAPPED[kind](element.min_value, element.max_value, wrapper(element))
        if kind in _CHOICES:
            return _CHOICES[kind]
    return lambda p, q: tuple(map(function, p, q))


# -- integers ------------------------------------------------------------------------------------
def _sums(low: int, high: int, wrap: Callable[[int], Any]) -> _Vectors:
    return lambda p, q: tuple(
        [x if low <= (x := a + b) <= high else wrap(x) for a, b in zip(p, q, strict=True)]
    )


def _differences(low: int, high: int, wrap: Callable[[int], Any]) -> _Vectors:
    return lambda p, q: tuple(
        [x if low <= (x := a - b) <= high else wrap(x) for a, b in zip(p, q, strict=True)]
    )


def _products(low: int, high: int, wrap: Callable[[int], Any]) -> _Vectors:
    return lambda p, q: tuple(
        [x if low <= (x := a * b) <= high else wrap(x) for a, b in zip(p, q, strict=True)]
    )


_WRAPPED: Final = {Add: _sums, Sub: _differences, Mul: _products}
"""Operators whose results may not fit."""


def _smaller(p: Value, q: Value) -> Value:
    return tuple([a if a <= b else b for a, b in zip(p, q, strict=True)])


def _larger(p: Value, q: Value) -> Value:
    return tuple([a if a >= b else b for a, b in zip(p, q, strict=True)])


_CHOICES: Final = {Min: _smaller, Max: _larger}


# -- floats --------------------------------------------------------------------------------------
def _round(dtype: DataType) -> Callable[[list[float]], Value]:
    """Return the function that rounds a list of float64 numbers to a dtype."""
    if dtype.bits == 64:
        return tuple
    if dtype.bits == 32:
        return lambda numbers: tuple(array("f", numbers))
    cut = rounder(dtype)
    return lambda numbers: tuple(map(cut, numbers))


_FLOATS: Final[dict[type, Callable[[Callable[[list[float]], Value]], _Vectors]]] = {
    Add: lambda cut: lambda p, q: cut([a + b for a, b in zip(p, q, strict=True)]),
    Sub: lambda cut: lambda p, q: cut([a - b for a, b in zip(p, q, strict=True)]),
    Mul: lambda cut: lambda p, q: cut([a * b for a, b in zip(p, q, strict=True)]),
}
"""Operators whose results are rounded once."""


def _exact_sums(function: _Function) -> _Vectors:
    return lambda p, q: tuple(
        [
            a + b if type(a) is int and type(b) is int else function(a, b)
            for a, b in zip(p, q, strict=True)
        ]
    )


def _exact_differences(function: _Function) -> _Vectors:
    return lambda p, q: tuple(
        [
            a - b if type(a) is int and type(b) is int else function(a, b)
            for a, b in zip(p, q, strict=True)
        ]
    )


def _exact_products(function: _Function) -> _Vectors:
    return lambda p, q: tuple(
        [
            a * b if type(a) is int and type(b) is int else function(a, b)
            for a, b in zip(p, q, strict=True)
        ]
    )


_NUMBERS: Final = {Add: _exact_sums, Sub: _exact_differences, Mul: _exact_products}
"""Operators that never round."""
