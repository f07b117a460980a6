"""Integer operators, of which most indices consist: one closure for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from loomir.interp.arithmetic import InexactResult, wrapper
from loomir.interp.machine import Code, Environment, is_shallow
from loomir.support.dtype import DataType
from loomir.tir.expr import GE, GT, LE, LT, NE, Add, Eq, FloorDiv, FloorMod, Max, Min, Mul, Sub

__all__ = ["integer_code"]

Evaluator: TypeAlias = Callable[[Environment], Any]


def integer_code(kind: type, dtype: DataType, a: Code, b: Code, *, exact: bool) -> Code | None:
    """Compile an operator on scalar integers; None for others, and if ``strict`` is needed.

    With ``exact``, a signed result of 64 bits that does not fit raises InexactResult; others wrap.
    """
    if dtype.is_vector or dtype.is_bool or not dtype.is_integer or not is_shallow(a, b):
        return None
    compare = _COMPARISONS.get(kind)
    run = None if compare is None else compare(a.run, b.run)
    if run is None and b.constant is not None:
        run = _with_constant(kind, dtype, a, b.constant, exact=exact)
    if run is None and kind in _CHECKED:
        run = _CHECKED[kind](a.run, b.run, *_limits(dtype, exact=exact))
    return None if run is None else Code(run, 1 + max(a.height, b.height))


def _limits(dtype: DataType, *, exact: bool) -> tuple[int, int, Callable[[int], Any]]:
    """Return the range of a dtype, and the function for integers outside of it."""
    if exact and dtype.is_int and dtype.bits == 64:
        return dtype.min_value, dtype.max_value, _raise
    return dtype.min_value, dtype.max_value, wrapper(dtype)


def _raise(x: int) -> int:
    raise InexactResult


_COMPARISONS: Final[dict[type, Callable[[Evaluator, Evaluator], Evaluator]]] = {
    Eq: lambda a, b: lambda env: a(env) == b(env),
    NE: lambda a, b: lambda env: a(env) != b(env),
    LT: lambda a, b: lambda env: a(env) < b(env),
    LE: lambda a, b: lambda env: a(env) <= b(env),
    GT: lambda a, b: lambda env: a(env) > b(env),
    GE: lambda a, b: lambda env: a(env) >= b(env),
    Min: lambda a, b: lambda env: x if (x := a(env)) <= (y := b(env)) else y,
    Max: lambda a, b: lambda env: x if (x := a(env)) >= (y := b(env)) else y,
}
"""Operators whose results always fit."""


def _with_constant(
    kind: type, dtype: DataType, a: Code, k: int, *, exact: bool
) -> Evaluator | None:
    """Compile an operator with a constant right operand."""
    run, slot = a.run, a.slot
    if kind in (FloorDiv, FloorMod):
        if k <= 0:
            return None
        if kind is FloorDiv:
            return (lambda env: run(env) // k) if slot is None else lambda env: env[slot] // k
        return (lambda env: run(env) % k) if slot is None else lambda env: env[slot] % k
    low, high, beyond = _limits(dtype, exact=exact)
    if kind is Sub:
        kind, k = Add, -k
    if kind is Add:
        if slot is None:
            return lambda env: x if low <= (x := run(env) + k) <= high else beyond(x)
        return lambda env: x if low <= (x := env[slot] + k) <= high else beyond(x)
    if kind is Mul:
        if slot is None:
            return lambda env: x if low <= (x := run(env) * k) <= high else beyond(x)
        return lambda env: x if low <= (x := env[slot] * k) <= high else beyond(x)
    return None


def _sum(
    a: Evaluator, b: Evaluator, low: int, high: int, beyond: Callable[[int], Any]
) -> Evaluator:
    return lambda env: x if low <= (x := a(env) + b(env)) <= high else beyond(x)


def _difference(
    a: Evaluator, b: Evaluator, low: int, high: int, beyond: Callable[[int], Any]
) -> Evaluator:
    return lambda env: x if low <= (x := a(env) - b(env)) <= high else beyond(x)


def _product(
    a: Evaluator, b: Evaluator, low: int, high: int, beyond: Callable[[int], Any]
) -> Evaluator:
    return lambda env: x if low <= (x := a(env) * b(env)) <= high else beyond(x)


_CHECKED: Final[dict[type, Callable[..., Evaluator]]] = {Add: _sum, Sub: _difference, Mul: _product}
"""Operators whose results may not fit."""
