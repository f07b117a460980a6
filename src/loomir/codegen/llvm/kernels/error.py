"""The error function.

Up to 1 it is x times a polynomial of x**2; beyond, 1 less the complement. That is, for doubles,
exp(-x**2) times a function that a polynomial of ``(x - 3) / (x + 3)`` comes close to; for floats, e
to the power of a polynomial.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.exponential import exp, exp_of_negative
from loomir.codegen.llvm.kernels.parts import absolute, copysign, fma, horner
from loomir.codegen.llvm.values import Value, const

__all__ = ["ERF", "ERFC", "ERFC_SINGLE", "ERF_SINGLE", "erf", "erf_single"]

_h = float.fromhex

# erf(x) / x - 1 in powers of x**2, on [0, 1]
ERF_SINGLE: Final = (
    _h("0x1.06eba8p-3"),
    _h("-0x1.81273ep-2"),
    _h("0x1.ce2cf8p-4"),
    _h("-0x1.b7f910p-6"),
    _h("0x1.5405bep-8"),
    _h("-0x1.a3f71ep-11"),
    _h("0x1.496a12p-14"),
)
# -log(1 - erf(x)) / x in powers of x, on [1, 3.95]
ERFC_SINGLE: Final = (
    _h("0x1.20e410p+0"),
    _h("0x1.458bbcp-1"),
    _h("0x1.ae8decp-4"),
    _h("-0x1.7586bap-6"),
    _h("0x1.a1b596p-9"),
    _h("-0x1.b9bab8p-13"),
)
# erf(x) / x - 1 in powers of x**2, on [0, 1]
ERF: Final = (
    _h("0x1.06eba8214db68p-3"),
    _h("-0x1.812746b0379bdp-2"),
    _h("0x1.ce2f21a040d16p-4"),
    _h("-0x1.b82ce311fa931p-6"),
    _h("0x1.565bccf92b0a4p-8"),
    _h("-0x1.c02db03dd1d1fp-11"),
    _h("0x1.f9a2baa8980e0p-14"),
    _h("-0x1.f4ca4d6abcfa4p-17"),
    _h("0x1.b97fd3bcad2d7p-20"),
    _h("-0x1.5c072691a3b45p-23"),
    _h("0x1.d71b0e5d56600p-27"),
    _h("-0x1.abae4b227a0b6p-31"),
)
# (1 - erf(x)) * exp(x**2) in powers of (x - 3) / (x + 3), on [1, 6]
ERFC: Final = (
    _h("0x1.6e9827d229d2dp-3"),
    _h("-0x1.4e102b9cf8515p-2"),
    _h("0x1.f6ff204105a1ap-3"),
    _h("-0x1.336ffbef0887bp-3"),
    _h("0x1.258b13b00dad6p-4"),
    _h("-0x1.8fa58eb645ddcp-6"),
    _h("0x1.17c8390b2e813p-8"),
    _h("0x1.7310209992affp-11"),
    _h("-0x1.39085fbf699adp-11"),
    _h("0x1.7b9e00d4eab6bp-15"),
    _h("0x1.0cb2bf59dd8dfp-14"),
    _h("-0x1.aeefca3f3deecp-17"),
    _h("-0x1.0cab365a4a3b4p-17"),
    _h("0x1.0d5a7f05b7392p-19"),
    _h("0x1.536d4284c1ef4p-20"),
)


def erf(b: Builder, x: Value) -> Value:
    """Emit the error function of doubles."""
    t = x.type
    size = absolute(b, x)
    # Beyond 6 the result rounds to 1.
    held = b.select(b.fcmp("ogt", size, const(t, 6.0)), const(t, 6.0), size)
    z = b.fmul(held, held)
    three = const(t, 3.0)
    u = b.fdiv(b.fsub(held, three), b.fadd(held, three))
    outer = b.fsub(const(t, 1.0), b.fmul(exp(b, b.fneg(z)), horner(b, u, ERFC)))
    inner = fma(b, held, horner(b, z, ERF), held)
    return copysign(b, b.select(b.fcmp("olt", size, const(t, 1.0)), inner, outer), x)


def erf_single(b: Builder, x: Value) -> Value:
    """Emit the error function of floats."""
    t = x.type
    size = absolute(b, x)
    # From here on the result rounds to 1.
    held = b.select(b.fcmp("ogt", size, const(t, 3.95)), const(t, 3.95), size)
    power = b.fmul(b.fneg(held), horner(b, held, ERFC_SINGLE))
    outer = b.fsub(const(t, 1.0), exp_of_negative(b, power))
    inner = fma(b, held, horner(b, b.fmul(held, held), ERF_SINGLE), held)
    return copysign(b, b.select(b.fcmp("olt", size, const(t, 1.0)), inner, outer), x)
