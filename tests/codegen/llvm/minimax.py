"""Best polynomials, by Remez's exchange in extended precision: the source of the coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import mpmath
from mpmath import mpf

Real = Callable[[mpf], mpf]


def value(coefficients: Sequence[mpf], z: mpf) -> mpf:
    """Evaluate a polynomial, coefficients from the constant one up."""
    result = mpf(0)
    for c in reversed(coefficients):
        result = result * z + c
    return result


def remez(f: Real, low: mpf, high: mpf, count: int, weight: Real) -> list[mpf]:
    """Return the ``count`` coefficients of the best fit to ``f``.

    The largest ``weight * error`` on the interval is the smallest one that there is.
    """
    middle, half = (high + low) / 2, (high - low) / 2
    points = [middle - half * mpmath.cos(mpmath.pi * i / count) for i in range(count + 1)]
    found: list[mpf] = []
    grid = [middle - half * mpmath.cos(mpmath.pi * i / (24 * count)) for i in range(24 * count + 1)]
    values = [(z, f(z), weight(z)) for z in grid]
    for _ in range(12):
        rows = mpmath.matrix(count + 1, count + 1)
        right = mpmath.matrix(count + 1, 1)
        for i, z in enumerate(points):
            for j in range(count):
                rows[i, j] = z**j
            rows[i, count] = (-1) ** i / weight(z)
            right[i] = f(z)
        solved = mpmath.lu_solve(rows, right)
        found = [solved[j] for j in range(count)]
        errors = [(w * (y - value(found, z)), z) for z, y, w in values]
        points, peaks = _exchange(errors, count + 1)
        if max(peaks) - min(peaks) < max(peaks) / 200:
            break
    return found


def _exchange(errors: list[tuple[mpf, mpf]], count: int) -> tuple[list[mpf], list[mpf]]:
    """Choose the extremes of each run of one sign; drop small ones at the ends."""
    runs: list[tuple[mpf, mpf]] = []
    for e, z in errors:
        if runs and (runs[-1][0] > 0) == (e > 0):
            if abs(e) > abs(runs[-1][0]):
                runs[-1] = (e, z)
        else:
            runs.append((e, z))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
    if len(runs) < count:
        raise ArithmeticError("the error has too few extremes; more digits may help")
    return [z for _, z in runs], [abs(e) for e, _ in runs]


def worst(
    f: Real, low: mpf, high: mpf, coefficients: Sequence[float], weight: Real, steps: int = 400
) -> mpf:
    """Return the largest ``weight * error`` of a polynomial, on Chebyshev points."""
    middle, half = (high + low) / 2, (high - low) / 2
    exact = [mpf(c) for c in coefficients]
    points = [middle - half * mpmath.cos(mpmath.pi * (i + 0.5) / steps) for i in range(steps)]
    return max(abs(weight(z) * (f(z) - value(exact, z))) for z in points)


class Fit(NamedTuple):
    """What a polynomial stands for; its error times ``weight`` is below 2**-bits.

    ``count`` terms were taken.
    """

    function: Real
    low: mpf
    high: mpf
    weight: Real
    bits: float
    count: int


def best(fit: Fit, count: int) -> list[mpf]:
    """Return the best coefficients, not rounded."""
    return remez(fit.function, fit.low, fit.high, count, fit.weight)


def _odd(f: Real, top: float, bits: float, count: int) -> Fit:
    """Fit (f(x) - x) / x**3 in powers of x**2, to the relative error of f."""

    def rest(z: mpf) -> mpf:
        x = mpmath.sqrt(z)
        return (f(x) - x) / (x * z)

    def weight(z: mpf) -> mpf:
        x = mpmath.sqrt(z)
        return z * x / f(x)

    return _fit(rest, 0, top**2, weight, bits, count)


def _fit(f: Real, low: float, high: float, weight: Real, bits: float, count: int) -> Fit:
    # At 0 itself the quotients are not defined; so near to it they are as good as there.
    first = mpf(high) * mpf(10) ** -6 if low == 0 else mpf(low)
    return Fit(f, first, mpf(high), weight, bits, count)


def _power(base: float, top: mpf, bits: float, count: int) -> Fit:
    """Fit (base**r - 1) / r to the relative error of the power, over |r| up to ``top``."""
    log = mpmath.log(base)
    return _fit(
        lambda r: mpmath.expm1(r * log) / r if r else log,
        -top,
        top,
        lambda r: r * mpmath.exp(-r * log),
        bits,
        count,
    )


def _exp(bits: float, count: int) -> Fit:
    """Fit (exp(r) - 1 - r) / r**2 to the relative error of exp(r)."""
    top = mpmath.log(2) / 2
    return _fit(
        lambda r: (mpmath.expm1(r) - r) / r**2 if r else mpf(1) / 2,
        -top,
        top,
        lambda r: r**2 * mpmath.exp(-r),
        bits,
        count,
    )


def _expm1(bits: float, count: int) -> Fit:
    """Fit the same to the relative error of 1 - exp(r), or of 1 - exp(r) / 2 where r is positive."""

    def weight(r: mpf) -> mpf:
        return r**2 / ((2 if r > 0 else 1) - mpmath.exp(r))

    return _exp(bits, count)._replace(weight=weight)


_TOP: Final = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2 * mpf("1.0001")
"""The square of s = f / (2 + f) for 1 + f the root of 2, and a little more."""


def _log_rest(z: mpf) -> mpf:
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / (s * z)


def _log(bits: float, count: int) -> Fit:
    """Fit (log(1 + f) - 2 s) / s**3 in powers of s**2, to the relative error of the logarithm."""

    def weight(z: mpf) -> mpf:
        s = mpmath.sqrt(z)
        return z * s / (2 * mpmath.atanh(s))

    return _fit(_log_rest, 0, _TOP, weight, bits, count)


def _log_single(bits: float, count: int) -> Fit:
    """Fit (log(1 + f) - f + f**2 / 2) / f**3, weighed by f**2 but for very small f."""

    def rest(f: mpf) -> mpf:
        if abs(f) < mpf(10) ** -12:
            return mpf(1) / 3 - f / 4
        return (mpmath.log1p(f) - f + f**2 / 2) / f**3

    low, high = mpmath.sqrt(mpf(1) / 2) - 1, mpmath.sqrt(2) - 1
    return _fit(rest, low, high, lambda f: (abs(f) + mpf(1) / 1000) ** 2, bits, count)


def _log_power(bits: float, count: int) -> Fit:
    def rest(z: mpf) -> mpf:
        return (_log_rest(z) - mpf(2) / 3) / z

    return _fit(rest, 0, _TOP, lambda z: 1 / rest(z), bits, count)


def _cos(bits: float, count: int) -> Fit:
    """Fit (cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2."""

    def rest(z: mpf) -> mpf:
        return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2

    top = (mpmath.pi / 4) ** 2
    return _fit(rest, 0, top, lambda z: z**2 / mpmath.cos(mpmath.sqrt(z)), bits, count)


def _erf_power(top: str, bits: float, count: int) -> Fit:
    """Fit -log(1 - erf(x)) / x - 1 to the relative error of erf(x)."""

    def weight(x: mpf) -> mpf:
        return x * mpmath.erfc(x) / mpmath.erf(x)

    return _fit(lambda x: -mpmath.log(mpmath.erfc(x)) / x - 1, 0, mpf(top), weight, bits, count)


_QUARTER: Final = mpmath.pi / 4
_SHORT: Final = mpmath.log10(2) / 2

POLYNOMIALS: Final[dict[str, Fit]] = {
    "exp single": _exp(26.4, 5),
    "exp double": _exp(55.8, 10),
    "expm1 single": _expm1(26.2, 5),
    "exp2 single": _power(2, mpf(1) / 2, 26.7, 6),
    "exp2 double": _power(2, mpf(1) / 2, 56.6, 12),
    "exp10 single": _power(10, _SHORT, 27.0, 6),
    "exp10 double": _power(10, _SHORT, 57.0, 12),
    "tanh single": _odd(mpmath.tanh, 0.35, 29.5, 5),
    "tanh double": _odd(mpmath.tanh, 0.35, 58.6, 9),
    "sinh single": _odd(mpmath.sinh, 1.0, 27.5, 4),
    "sinh double": _odd(mpmath.sinh, 1.0, 56.5, 7),
    "log single": _log_single(27.2, 8),
    "log double": _log(57.5, 7),
    "log power single": _log_power(25.6, 4),
    "log power double": _log_power(53.9, 9),
    "sin single": _odd(mpmath.sin, _QUARTER, 26.8, 3),
    "cos single": _cos(32.5, 3),
    "tan single": _odd(mpmath.tan, _QUARTER, 27.5, 7),
    "sin lite": _odd(mpmath.sin, _QUARTER, 35.6, 4),
    "sin double": _odd(mpmath.sin, _QUARTER, 55.4, 6),
    "cos lite": _cos(39.5, 4),
    "cos double": _cos(59.5, 6),
    "atan single": _odd(mpmath.atan, 1.0, 26.5, 9),
    "asin single": _odd(mpmath.asin, 0.5, 29.9, 6),
    "erf single": _erf_power("3.95", 26.3, 9),
    "atan double": _odd(mpmath.atan, 1.0, 54.5, 20),
    "asin double": _odd(mpmath.asin, 0.5, 58.8, 13),
    "erf double": _erf_power("5.93", 54.9, 24),
}
"""What each polynomial of the kernels is close to, and how close in bits.

The rounding of the first coefficients is in it, so it may be less than the last place of a result
where the polynomial only adds a small part to it.
"""
