"""The error function.

For floats, 1 less e to the power of a polynomial. For doubles, x times a polynomial of x**2 up to
1; beyond, 1 less the complement, which is exp(-x**2) times a function that a polynomial of
``(x - 3) / (x + 3)`` comes close to.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.exponential import exp, one_less_exp
from loomir.codegen.llvm.kernels.parts import absolute, copysign, fma, horner, with_sign
from loomir.codegen.llvm.values import Value, const

__all__ = ["ERF", "ERFC", "ERF_SINGLE", "erf", "erf_single"]

_h = float.fromhex

# -log(1 - erf(x)) / x - 1 in powers of x, on [0, 3.95]
ERF_SINGLE: Final = (
    _h("0x1.06eba8p-3"),
    _h("0x1.45f2fcp-1"),
    _h("0x1.a4f9e8p-4"),
    _h("-0x1.39c9cap-6"),
    _h("-0x1.4e843cp-13"),
    _h("0x1.b3d53ap-10"),
    _h("-0x1.494a16p-11"),
    _h("0x1.e4bbdep-14"),
    _h("-0x1.2bcdd8p-17"),
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
    """Emit the error function of floats: 1 less e to the power of -(x + more)."""
    size = absolute(b, x)
    # From here on the result rounds to 1.
    held = b.select(b.fcmp("ogt", size, const(x.type, 3.95)), const(x.type, 3.95), size)
    linear = b.fmul(held, const(x.type, ERF_SINGLE[0]))
    more = fma(b, b.fmul(held, held), horner(b, held, ERF_SINGLE[1:]), linear)
    return with_sign(b, one_less_exp(b, held, more), x)
