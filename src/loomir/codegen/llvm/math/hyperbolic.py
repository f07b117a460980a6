"""Emit the hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.exponential import emit_half_exp, expm1_of_twice
from loomir.codegen.llvm.math.logarithm import log_of_sum
from loomir.codegen.llvm.math.parts import (
    absolute,
    copysign,
    fma,
    horner,
    quick_sum,
    root_in_parts,
    two_product,
    two_sum,
)

__all__ = [
    "SINH",
    "SINH_SINGLE",
    "TANH",
    "TANH_NEAR",
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "sinh",
    "tanh",
]

_h = float.fromhex

# (tanh(x) - x) / x**3 in powers of x**2, for |x| up to TANH_NEAR.
TANH_NEAR: Final = 0.35
TANH: Final = {
    FLOAT: (
        _h("-0x1.555556p-2"),
        _h("0x1.111108p-3"),
        _h("-0x1.ba11fep-5"),
        _h("0x1.64918ep-6"),
        _h("-0x1.011acap-7"),
    ),
    DOUBLE: (
        _h("-0x1.5555555555555p-2"),
        _h("0x1.1111111111061p-3"),
        _h("-0x1.ba1ba1b9f62d6p-5"),
        _h("0x1.664f486a28ee1p-6"),
        _h("-0x1.226e2d4397ad2p-7"),
        _h("0x1.d6d0cea0be03ep-9"),
        _h("-0x1.7d4f05c70008bp-10"),
        _h("0x1.2fe8f25005bdep-11"),
        _h("-0x1.92b3c69bc499fp-13"),
    ),
}
SINH_SINGLE: Final = (
    _h("0x1.555556p-3"),
    _h("0x1.111134p-7"),
    _h("0x1.9ffe92p-13"),
    _h("0x1.7a15d0p-19"),
)
"""(sinh(x) - x) / x**3 in powers of x**2, for |x| up to 1; in floats."""
SINH: Final = (
    _h("0x1.5555555555556p-3"),
    _h("0x1.11111111110a6p-7"),
    _h("0x1.a01a01a028996p-13"),
    _h("0x1.71de3a465b658p-19"),
    _h("0x1.ae64671ae43bcp-26"),
    _h("0x1.611a563137f1cp-33"),
    _h("0x1.b4c754ee5d6c0p-41"),
)
"""The same, in doubles."""

_LARGE: Final = {32: 2.0**13, 64: 2.0**28}
"""From here on, asinh(x) and acosh(x) equal log(2 x) to the last place."""


def tanh(b: Builder, x: Value) -> Value:
    """Emit the hyperbolic tangent: ``t / (t + 2)`` with ``t = exp(2|x|) - 1``.

    Near 0 it is a polynomial, since rounding errors of the quotient would be largest there.
    """
    t = x.type
    # Beyond this, the result rounds to 1.
    top = const(t, 10.0 if t.bits == 32 else 20.0)
    size = absolute(b, x)
    size = b.select(b.fcmp("ogt", size, top), top, size)
    grown = expm1_of_twice(b, size)
    far = b.fdiv(grown, b.fadd(grown, const(t, 2.0)))
    z = b.fmul(size, size)
    near = fma(b, b.fmul(size, z), horner(b, z, TANH[t.element]), size)
    chosen = b.select(b.fcmp("olt", size, const(t, TANH_NEAR)), near, far)
    return copysign(b, chosen, x)


def sinh(b: Builder, x: Value) -> Value:
    """Emit the hyperbolic sine."""
    t = x.type
    size = absolute(b, x)
    half = emit_half_exp(b, size)
    large = b.fsub(half, b.fdiv(const(t, 0.25), half))
    z = b.fmul(size, size)
    small = fma(b, b.fmul(size, z), horner(b, z, SINH if t.bits == 64 else SINH_SINGLE), size)
    return copysign(b, b.select(b.fcmp("olt", size, const(t, 1.0)), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    """Emit the hyperbolic cosine."""
    half = emit_half_exp(b, absolute(b, x))
    return b.fadd(half, b.fdiv(const(x.type, 0.25), half))


def asinh(b: Builder, x: Value) -> Value:
    """Emit the inverse hyperbolic sine: log(1 + a), ``a = x + x**2 / (1 + root)``.

    ``root`` is the square root of ``1 + x**2``; a is computed in two parts.
    """
    t = x.type
    one = const(t, 1.0)
    size = absolute(b, x)
    large = b.fcmp("oge", size, const(t, _LARGE[t.bits]))
    bounded = b.select(large, one, size)
    square, square_low = two_product(b, bounded, bounded)
    sum_, sum_low = two_sum(b, one, square)
    root, root_low = root_in_parts(b, sum_, b.fadd(sum_low, square_low))
    below, below_low = quick_sum(b, root, one)
    below_low = b.fadd(below_low, root_low)
    inverse = b.fdiv(one, below)
    quotient = b.fmul(square, inverse)
    rest = b.fsub(square_low, b.fmul(quotient, below_low))
    rest = b.fmul(b.fadd(fma(b, b.fneg(quotient), below, square), rest), inverse)
    a, a_low = two_sum(b, bounded, quotient)
    u, u_low = two_sum(b, one, a)
    u_low = b.fadd(u_low, b.fadd(a_low, rest))
    return copysign(b, _log_or_twice(b, large, size, u, u_low), x)


def acosh(b: Builder, x: Value) -> Value:
    """Emit the inverse hyperbolic cosine, log(x + root) with the root in two parts."""
    t = x.type
    one = const(t, 1.0)
    large = b.fcmp("oge", x, const(t, _LARGE[t.bits]))
    bounded = b.select(large, one, x)
    square, square_low = two_product(b, bounded, bounded)
    less, less_low = quick_sum(b, square, b.fneg(one))
    less, less_low = quick_sum(b, less, b.fadd(less_low, square_low))
    root, root_low = root_in_parts(b, less, less_low)
    u, u_low = quick_sum(b, bounded, root)
    found = _log_or_twice(b, large, x, u, b.fadd(u_low, root_low))
    return b.select(b.fcmp("olt", x, one), const(t, float("nan")), found)


def atanh(b: Builder, x: Value) -> Value:
    """Emit the inverse hyperbolic tangent: half the log of ``(1 + x) / (1 - x)``."""
    t = x.type
    one = const(t, 1.0)
    size = absolute(b, x)
    above, above_low = two_sum(b, one, size)
    below, below_low = two_sum(b, one, b.fneg(size))
    inverse = b.fdiv(one, below)
    quotient = b.fmul(above, inverse)
    rest = b.fsub(above_low, b.fmul(quotient, below_low))
    low = b.fmul(b.fadd(fma(b, b.fneg(quotient), below, above), rest), inverse)
    found = b.fmul(log_of_sum(b, quotient, low), const(t, 0.5))
    return copysign(b, found, x)


def _log_or_twice(b: Builder, twice: Value, x: Value, u: Value, low: Value) -> Value:
    """Emit log(2 x) where ``twice`` holds, else log(u + low)."""
    zero = const(x.type, 0.0)
    more = b.select(twice, const(x.type, 1.0), zero)
    return log_of_sum(b, b.select(twice, x, u), b.select(twice, zero, low), more)
