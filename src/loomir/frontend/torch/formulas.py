"""Formulas of special functions, for elements of 64 bits.

Series of Stirling and Euler-Maclaurin start where their remainder is less than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from loomir.frontend.torch.polynomials import (
    BESSEL_0,
    BESSEL_1,
    GAMMA,
    INVERSE_FAR,
    INVERSE_FARTHEST,
    INVERSE_NEAR,
    SCALED_ERFC,
)
from loomir.te import any_of, select
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Let, PrimExpr, Var, const

__all__ = [
    "digamma",
    "erfc",
    "erfcx",
    "erfinv",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "lgamma",
    "log_ndtr",
    "ndtri",
    "polygamma",
]

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
                     43867 / 798, -174611 / 330)  # fmt: skip
"""Bernoulli's numbers of even index, from 2 on."""
_INFINITY: Final = math.inf


def _number(value: float) -> PrimExpr:
    return const(value, "float64")


def _call(name: str, *args: PrimExpr) -> PrimExpr:
    return call_builtin(name, *args)


class _Parts:
    """Names of parts of a formula, each of which is computed once."""

    def __init__(self) -> None:
        self._named: list[tuple[Var, PrimExpr]] = []

    def name(self, value: PrimExpr) -> PrimExpr:
        """Return a name for a value."""
        var = Var("part", value.dtype)
        self._named.append((var, value))
        return var

    def close(self, made: PrimExpr) -> PrimExpr:
        """Return a formula of names, with what they stand for."""
        for var, value in reversed(self._named):
            made = Let(var, value, made)
        return made


def _polynomial(coefficients: Sequence[float], x: PrimExpr) -> PrimExpr:
    made = _number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        made = made * x + _number(c)
    return made


def _map_range(x: PrimExpr, low: float, high: float) -> PrimExpr:
    """Map a range to that of the polynomials, from -1 to 1."""
    return (x - (low + high) / 2) * (2 / (high - low))


# -- the error function --------------------------------------------------------------------------
def _inverse(y: PrimExpr, less: PrimExpr, parts: _Parts) -> PrimExpr:
    """Return the place where the error function is ``y``; ``less`` is ``1 - y * y``."""
    w = parts.name(_call("log", less) * -1.0)
    s = parts.name(_call("sqrt", w))
    near = _polynomial(INVERSE_NEAR, parts.name(_map_range(w, 0, 5)))
    far = _polynomial(INVERSE_FAR, parts.name(_map_range(s, 2.2, 6.2)))
    farther = _polynomial(INVERSE_FARTHEST, parts.name(_map_range(s, 6, 28)))
    factor = select(w < 5.0, near, select(s < 6.1, far, farther))
    return y * select(less.equal(0.0), _number(_INFINITY), factor)


def erfinv(y: PrimExpr) -> PrimExpr:
    """Invert the error function."""
    parts = _Parts()
    less = parts.name((1.0 - y) * (1.0 + y))
    return parts.close(_inverse(y, less, parts))


def ndtri(p: PrimExpr) -> PrimExpr:
    """Return the quantile of the normal distribution."""
    parts = _Parts()
    less = parts.name(4.0 * p * (1.0 - p))
    return parts.close(math.sqrt(2) * _inverse(parts.name(p * 2.0 - 1.0), less, parts))


def _erfcx_above_zero(x: PrimExpr, parts: _Parts) -> PrimExpr:
    t = parts.name(1.0 - 7.5 / (x + 3.75))
    return _polynomial(SCALED_ERFC, t) / (x * 2.0 + 1.0)


def erfcx(x: PrimExpr) -> PrimExpr:
    """Return ``exp(x * x) * erfc(x)``."""
    parts = _Parts()
    size = parts.name(_call("abs", x))
    above = parts.name(_erfcx_above_zero(size, parts))
    return parts.close(select(x < 0.0, _call("exp", x * x) * 2.0 - above, above))


def erfc(x: PrimExpr) -> PrimExpr:
    """Return ``1 - erf(x)``, exact where that is small."""
    parts = _Parts()
    above = _call("exp", x * x * -1.0) * _erfcx_above_zero(x, parts)
    return parts.close(select(x < 0.5, 1.0 - _call("erf", x), above))


def log_ndtr(x: PrimExpr) -> PrimExpr:
    """Return the logarithm of the normal distribution."""
    parts = _Parts()
    t = parts.name(x * math.sqrt(0.5))
    below = parts.name(t * -1.0)
    tail = _call("log", _erfcx_above_zero(below, parts) * 0.5) - t * t
    rest = parts.name(erfc(t))
    return parts.close(select(x < -1.0, tail, _call("log1p", rest * -0.5)))


# -- the gamma function --------------------------------------------------------------------------
_STEPS: Final = 8


def _log_gamma_above_zero(x: PrimExpr, parts: _Parts) -> PrimExpr:
    near = parts.name(x < 1.0)
    z = parts.name(select(near, x + 1.0, x))
    factor = parts.name(_number(1.0))
    for _ in range(_STEPS):
        beyond = parts.name(z > 2.0)
        factor, z = (
            parts.name(select(beyond, factor * (z - 1.0), factor)),
            parts.name(select(beyond, z - 1.0, z)),
        )
    middle = (z - 1.0) * (z - 2.0) * _polynomial(GAMMA, parts.name(_map_range(z, 1, 2)))
    log = parts.name(_call("log", x))
    low = middle + select(near, log * -1.0, _call("log", factor))
    back = parts.name(1.0 / x)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    series = _polynomial(terms, parts.name(back * back)) * back
    high = (x - 0.5) * log - x + 0.5 * math.log(2 * math.pi) + series
    high = select(x.equal(_INFINITY), x, high)
    return select(x < float(_STEPS), low, high)


def lgamma(x: PrimExpr) -> PrimExpr:
    """Return the logarithm of the magnitude of the gamma function."""
    parts = _Parts()
    size = parts.name(_call("abs", x))
    above = parts.name(_log_gamma_above_zero(size, parts))
    part = parts.name(x - _call("round", x))
    sine = _call("abs", _call("sin", part * math.pi))
    below = math.log(math.pi) - _call("log", sine * size) - above
    pole = any_of(part.equal(0.0), size.equal(_INFINITY))
    below = select(pole, _number(_INFINITY), below)
    return parts.close(select(x <= 0.0, below, above))


def digamma(x: PrimExpr) -> PrimExpr:
    """Return the derivative of ``lgamma``."""
    parts = _Parts()
    z = parts.name(select(x <= 0.0, 1.0 - x, x))
    total = parts.name(_number(0.0))
    for _ in range(10):
        small = parts.name(z < 10.0)
        total, z = (
            parts.name(select(small, total - 1.0 / z, total)),
            parts.name(select(small, z + 1.0, z)),
        )
    back = parts.name(1.0 / z)
    square = parts.name(back * back)
    terms = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]
    series = _polynomial(terms, square) * square
    above = parts.name(total + _call("log", z) - back * 0.5 - series)
    part = parts.name(x - _call("round", x))
    below = above - math.pi / _call("tan", part * math.pi)
    below = select(part.equal(0.0), _number(math.nan), below)
    below = select(x.equal(0.0), _number(-_INFINITY) / _call("copysign", _number(1.0), x), below)
    return parts.close(select(x <= 0.0, below, above))


def polygamma(order: int) -> Callable[[PrimExpr], PrimExpr]:
    """Make the formula of a derivative of ``digamma``, the first or a higher one."""
    sign = 1.0 if order % 2 else -1.0
    steps = 10 + order

    def formula(x: PrimExpr) -> PrimExpr:
        parts = _Parts()
        z = parts.name(select(x < 0.0, 1.0 - x, x))
        power = _number(-(order + 1.0))
        total = parts.name(_number(0.0))
        for k in range(steps):
            total = parts.name(total + _call("pow", z + float(k), power))
        total = total * float(math.factorial(order))
        end = parts.name(z + float(steps))
        back = parts.name(1.0 / end)
        square = parts.name(back * back)
        terms = [
            b * (math.factorial(2 * k + order - 1) / math.factorial(2 * k))
            for k, b in enumerate(_BERNOULLI, 1)
        ]
        series = _polynomial(terms, square) * square
        ahead = math.factorial(order - 1) + back * (math.factorial(order) / 2) + series
        above = parts.name((total + ahead * _call("pow", back, _number(float(order)))) * sign)
        part = parts.name(x - _call("round", x))
        cotangent = parts.name(1.0 / _call("tan", part * math.pi))
        derivative = _polynomial(_derive_cotangent(order), cotangent)
        below = above * (1.0 if order % 2 == 0 else -1.0) - derivative
        below = select(part.equal(0.0), _number(sign * _INFINITY), below)
        return parts.close(select(x < 0.0, below, above))

    return formula


def _derive_cotangent(order: int) -> list[float]:
    """Return a derivative of ``pi * cot(pi * x)`` as a polynomial of that cotangent."""
    made = [0.0, math.pi]
    for _ in range(order):
        slopes = [-math.pi * i * c for i, c in enumerate(made)][1:]
        made = [a + b for a, b in zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes], strict=True)]
    return made


# -- modified functions of Bessel ----------------------------------------------------------------
_MIDDLE: Final = 12
"""Where the series in powers of x ends, and that of ``1 / x`` begins."""


def _bessel(order: int, x: PrimExpr, *, scaled: bool) -> PrimExpr:
    parts = _Parts()
    size = parts.name(_call("abs", x))
    quarter = parts.name(x * x * 0.25)
    terms = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(30)]
    low = _polynomial(terms, quarter)
    if order:
        low = low * size * 0.5
    t = parts.name(_map_range(_MIDDLE / size, 0, 1))
    high = _polynomial(BESSEL_1 if order else BESSEL_0, t) / _call("sqrt", size)
    if scaled:
        low = low * _call("exp", size * -1.0)
    else:
        high = high * _call("exp", size)
    made = select(size < float(_MIDDLE), low, high)
    return parts.close(select(x < 0.0, made * -1.0, made) if order else made)


def i0(x: PrimExpr) -> PrimExpr:
    """Return the modified function of Bessel of order 0."""
    return _bessel(0, x, scaled=False)


def i0e(x: PrimExpr) -> PrimExpr:
    """Return ``exp(-abs(x)) * i0(x)``."""
    return _bessel(0, x, scaled=True)


def i1(x: PrimExpr) -> PrimExpr:
    """Return the modified function of Bessel of order 1."""
    return _bessel(1, x, scaled=False)


def i1e(x: PrimExpr) -> PrimExpr:
    """Return ``exp(-abs(x)) * i1(x)``."""
    return _bessel(1, x, scaled=True)
