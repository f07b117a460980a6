"""Emit logarithms and functions that are built from them.

``x = 2**e * (1 + f)``, where ``1 + f`` is between the square roots of 1/2 and of 2. With
``s = f / (2 + f)``, ``log(1 + f) = 2 s + s**3 G(s**2)``, summed such that the large part ``f``
comes last and is exact. For float32, a longer polynomial in f is cheaper than the division.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT, Type
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.parts import (
    bits_of,
    fma,
    format_of,
    horner,
    integers,
    two_product,
    two_sum,
)

__all__ = [
    "LOG_DOUBLE",
    "LOG_SINGLE",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_of_sum",
    "parts_of",
]

_h = float.fromhex

# (log(1 + f) - f + f**2 / 2) / f**3 in powers of f
LOG_SINGLE: Final = (
    _h("0x1.55554ap-2"),
    _h("-0x1.00021ep-2"),
    _h("0x1.99a59ap-3"),
    _h("-0x1.5478e4p-3"),
    _h("0x1.226e1cp-3"),
    _h("-0x1.0cdd5cp-3"),
    _h("0x1.07d178p-3"),
    _h("-0x1.41fed6p-4"),
)
# (log(1 + f) - 2 s) / s**3 in powers of s**2
LOG_DOUBLE: Final = (
    _h("0x1.5555555555558p-1"),
    _h("0x1.99999999952ccp-2"),
    _h("0x1.2492492df3ba9p-2"),
    _h("0x1.c71c62e26208bp-3"),
    _h("0x1.7462b58e46ebep-3"),
    _h("0x1.39fe42e9740a7p-3"),
    _h("0x1.2b59b713616c9p-3"),
)

# ln 2 in two parts; the product of the first with any exponent is exact.
_LN2: Final = {
    FLOAT: (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20")),
    DOUBLE: (_h("0x1.62e42feep-1"), _h("0x1.a39ef35793c76p-33")),
}
_LOG2_E: Final = {
    FLOAT: (_h("0x1.715476p+0"), _h("0x1.4ae0c0p-26")),
    DOUBLE: (_h("0x1.71547652b82fep+0"), _h("0x1.777d0ffda0d24p-56")),
}
_LOG10_E: Final = {
    FLOAT: (_h("0x1.bcb7b2p-2"), _h("-0x1.5b235ep-27")),
    DOUBLE: (_h("0x1.bcb7b1526e50ep-2"), _h("0x1.95355baaafad3p-57")),
}
_LOG10_2: Final = {
    FLOAT: (_h("0x1.344p-2"), _h("0x1.3509f8p-18")),
    DOUBLE: (_h("0x1.34413509f4p-2"), _h("0x1.cff7988f8959bp-41")),
}
_LOG2_2: Final = {FLOAT: (1.0, 0.0), DOUBLE: (1.0, 0.0)}
_Parts = tuple[float, float]
_SQRT_HALF: Final = 0.7071067811865476


def parts_of(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return f and e of a positive finite x, e as a float."""
    form = format_of(x)
    t = x.type
    subnormal = b.fcmp("olt", x, const(t, 2.0 ** (1 - form.bias)))
    lift = form.fraction + 2
    f, number, _ = _split(b, b.select(subnormal, b.fmul(x, const(t, 2.0**lift)), x))
    base = 2.0**form.fraction + form.bias
    return f, b.fsub(number, b.select(subnormal, const(t, base + lift), const(t, base)))


def _split(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Split a normal x into f, e as a float plus 2**fraction and the bias, and e in place."""
    form = format_of(x)
    t, i = x.type, integers(x)
    root = bits_of(_SQRT_HALF, form.bits)
    moved = b.sub(b.bitcast(x, i), const(i, root))
    # Biased, so that a logical shift suffices: many CPUs have no other for vectors of doubles.
    exponent = b.lshr(b.add(moved, const(i, form.bias << form.fraction)), const(i, form.fraction))
    mask = (1 << form.fraction) - 1
    fraction = b.and_(moved, const(i, mask))
    f = b.fsub(b.bitcast(b.add(fraction, const(i, root)), t), const(t, 1.0))
    # An integer in the low bits of 2**fraction adds just that integer.
    base = const(i, bits_of(2.0**form.fraction, form.bits))
    return f, b.bitcast(b.or_(exponent, base), t), b.and_(moved, const(i, ~mask))


def _tail(b: Builder, f: Value) -> tuple[Value, Value]:
    """Return h = f**2 / 2 and c with log(1 + f) = f - (h - c)."""
    t = f.type
    square = b.fmul(f, f)
    half = b.fmul(square, const(t, 0.5))
    if t.bits == 32:
        return half, b.fmul(b.fmul(square, f), horner(b, f, LOG_SINGLE))
    s = b.fdiv(f, b.fadd(f, const(t, 2.0)))
    z = b.fmul(s, s)
    return half, b.fmul(s, fma(b, z, horner(b, z, LOG_DOUBLE), half))


def _special(b: Builder, x: Value, result: Value) -> Value:
    """Replace the result at 0, at infinity, below 0 and for NaN."""
    t = x.type
    top = b.fcmp("oeq", x, const(t, float("inf")))
    result = b.select(b.fcmp("oeq", x, const(t, 0.0)), const(t, float("-inf")), result)
    result = b.select(b.fcmp("ult", x, const(t, 0.0)), const(t, float("nan")), result)
    return b.select(top, x, result)


def log(b: Builder, x: Value) -> Value:
    """Emit the natural logarithm."""
    f, e = parts_of(b, x)
    half, rest = _tail(b, f)
    high, low = _LN2[x.type.element]
    inner = b.fsub(b.fsub(half, fma(b, e, low, rest)), f)
    return _special(b, x, b.fsub(b.fmul(e, const(x.type, high)), inner))


def _scale_logarithm(
    b: Builder, x: Value, factors: Mapping[Type, _Parts], units: Mapping[Type, _Parts]
) -> Value:
    """Emit ``log(x)`` times a factor; ``units`` has ``log(2)`` times it. Both are in two parts.

    The product of the unit's first part with any exponent is exact.
    """
    factor, unit = factors[x.type.element], units[x.type.element]
    f, e = parts_of(b, x)
    half, rest = _tail(b, f)
    # log(1 + f) in two parts; its product with the factor has twice the precision.
    less = b.fsub(half, rest)
    total = b.fsub(f, less)
    error = b.fsub(b.fsub(f, total), less)
    product, below = two_product(b, total, const(x.type, factor[0]))
    below = fma(b, total, factor[1], fma(b, error, factor[0], below))
    if unit[1]:
        below = fma(b, e, unit[1], below)
    # The two parts differ much in magnitude, or nearly cancel.
    whole = e if unit[0] == 1.0 else b.fmul(e, const(x.type, unit[0]))
    return _special(b, x, b.fadd(whole, b.fadd(product, below)))


def log2(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 2."""
    return _scale_logarithm(b, x, _LOG2_E, _LOG2_2)


def log10(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 10."""
    return _scale_logarithm(b, x, _LOG10_E, _LOG10_2)


def log_of_sum(b: Builder, x: Value, low: Value, more: Value | None = None) -> Value:
    """Emit log(x + low); low is at most about one unit in the last place of x.

    x is not subnormal. ``more`` is added to its exponent.
    """
    form = format_of(x)
    t, i = x.type, integers(x)
    f, number, exponent = _split(b, x)
    e = b.fsub(number, const(t, 2.0**form.fraction + form.bias))
    if more is not None:
        e = b.fadd(e, more)
    half, rest = _tail(b, f)
    # low / x, with 1 / (1 + f) to 4 %, but exact near f = 0, where low matters most.
    unit = b.bitcast(b.sub(const(i, form.bias << form.fraction), exponent), t)
    inverse = fma(b, f, fma(b, f, 0.8, const(t, -1.0)), 1.0)
    # For the largest numbers, 1 / 2**e is subnormal, and low does not matter.
    counts = b.fcmp("olt", x, const(t, 2.0 ** (form.bias - 1)))
    moved = b.select(counts, b.fmul(low, unit), const(t, 0.0))
    rest = fma(b, moved, inverse, rest)
    high, below = _LN2[t.element]
    inner = b.fsub(b.fsub(half, fma(b, e, below, rest)), f)
    return _special(b, x, b.fsub(b.fmul(e, const(t, high)), inner))


def log1p(b: Builder, x: Value) -> Value:
    """Emit log(1 + x)."""
    found = log_of_sum(b, *two_sum(b, const(x.type, 1.0), x))
    return b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, found)
