"""Powers, the error function and other functions of floats by way of double."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.exponential import exp2_lite, exp_lite
from loomir.codegen.llvm.kernels.logarithm import log2_lite
from loomir.codegen.llvm.kernels.parts import absolute, copysign, fma, horner, integers
from loomir.codegen.llvm.values import Value, const

__all__ = ["erf_lite", "hypot_lite", "pow_lite", "rsqrt"]

_h = float.fromhex

# erf(x) / x in powers of x**2, on [0, 1]
_ERF: Final = (
    _h("0x1.20dd750428cb9p+0"),
    _h("-0x1.812746ade3c08p-2"),
    _h("0x1.ce2f20a7415c6p-4"),
    _h("-0x1.b82cbae7577a7p-6"),
    _h("0x1.56588b32275a7p-8"),
    _h("-0x1.bfe158a7be278p-11"),
    _h("0x1.f57e9cee106c1p-14"),
    _h("-0x1.d2b8522d6f7cbp-17"),
    _h("0x1.1c41ab6eec487p-20"),
)
# (1 - erf(x)) * exp(x**2) in powers of (x - 2.5) / 1.5, on [1, 4]
_ERFC: Final = (
    _h("0x1.afbb3f3b7343bp-3"),
    _h("-0x1.c8ca440df5167p-4"),
    _h("0x1.cba83be345892p-5"),
    _h("-0x1.ba7456837b480p-6"),
    _h("0x1.9940676877938p-7"),
    _h("-0x1.6d189fa998f49p-8"),
    _h("0x1.3b0f820acb939p-9"),
    _h("-0x1.0766f767d168dp-10"),
    _h("0x1.ac97c4844baffp-12"),
    _h("-0x1.58efcf742f85ap-13"),
    _h("0x1.09f5408a6f805p-14"),
    _h("-0x1.58030d5032daep-16"),
    _h("0x1.01346ec233299p-17"),
    _h("-0x1.53230afa4f438p-18"),
    _h("0x1.d7f0babd87888p-20"),
)


def rsqrt(b: Builder, x: Value) -> Value:
    """Emit 1 over the square root."""
    return b.fdiv(const(x.type, 1.0), b.intrinsic("llvm.sqrt", [x]))


def hypot_lite(b: Builder, x: Value, y: Value) -> Value:
    """Emit the length of (x, y), floats held as doubles, whose squares cannot overflow."""
    t = x.type
    root = b.intrinsic("llvm.sqrt", [fma(b, x, x, b.fmul(y, y))])
    top = const(t, float("inf"))
    infinite = b.or_(b.fcmp("oeq", absolute(b, x), top), b.fcmp("oeq", absolute(b, y), top))
    return b.select(infinite, top, root)


def erf_lite(b: Builder, x: Value) -> Value:
    """Emit the error function of a float held as a double."""
    t = x.type
    size = absolute(b, x)
    # Beyond 4 the result rounds to 1.
    held = b.select(b.fcmp("ogt", size, const(t, 4.0)), const(t, 4.0), size)
    z = b.fmul(held, held)
    u = fma(b, held, 1.0 / 1.5, -2.5 / 1.5)
    outer = b.fsub(const(t, 1.0), b.fmul(exp_lite(b, b.fneg(z)), horner(b, u, _ERFC)))
    inner = b.fmul(held, horner(b, z, _ERF))
    return copysign(b, b.select(b.fcmp("olt", size, const(t, 1.0)), inner, outer), x)


def pow_lite(b: Builder, x: Value, y: Value) -> Value:
    """Emit x to the power y, floats held as doubles, with all the cases of IEEE 754."""
    t, i = x.type, integers(x)
    one, zero = const(t, 1.0), const(t, 0.0)
    top = const(t, float("inf"))
    size = absolute(b, x)
    power = b.fmul(y, log2_lite(b, size))
    # -1 to the power of infinity is 1; the product of zero and infinity is not a number.
    unit = b.and_(b.fcmp("oeq", size, one), b.fcmp("ord", y, y))
    result = exp2_lite(b, b.select(unit, zero, power))
    whole = b.fcmp("oeq", b.intrinsic("llvm.trunc", [y]), y)
    half = b.fmul(y, const(t, 0.5))
    odd = b.and_(whole, b.fcmp("one", b.intrinsic("llvm.trunc", [half]), half))
    below = b.and_(b.fcmp("olt", x, zero), b.fcmp("olt", size, top))
    finite = b.fcmp("olt", absolute(b, y), top)
    undefined = b.and_(b.and_(below, finite), b.not_(whole))
    result = b.select(undefined, const(t, float("nan")), result)
    negative = b.icmp("slt", b.bitcast(x, i), const(i, 0))
    result = b.select(b.and_(negative, odd), b.fneg(result), result)
    always = b.or_(b.fcmp("oeq", y, zero), b.fcmp("oeq", x, one))
    return b.select(always, one, result)
