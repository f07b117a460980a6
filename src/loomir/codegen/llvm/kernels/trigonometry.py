"""Sine, cosine, tangent and their inverses.

The angle less the nearest multiple of a quarter turn is found with pi/2 in three parts; for angles
beyond ``_FAR`` the C library is asked, lane by lane.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.parts import (
    absolute,
    copysign,
    fma,
    horner,
    integers,
    nearest,
    where_hard,
)
from loomir.codegen.llvm.types import DOUBLE
from loomir.codegen.llvm.values import Value, const

__all__ = [
    "acos_lite",
    "asin_lite",
    "atan2_lite",
    "atan_lite",
    "cos",
    "cos_lite",
    "sin",
    "sin_lite",
    "tan_lite",
]

_h = float.fromhex

_FAR: Final = 2.0**25
_TWO_OVER_PI: Final = _h("0x1.45f306dc9c883p-1")
_HALF_PI: Final = (
    _h("0x1.921fb54442d18p+0"),
    _h("0x1.1a62633145c07p-54"),
    _h("-0x1.f1976b7ed8fbcp-110"),
)
_PI: Final = 3.141592653589793

# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2
_SIN_LITE: Final = (
    _h("-0x1.555555545dd83p-3"),
    _h("0x1.11110deeb33b2p-7"),
    _h("-0x1.a013a6edc8f34p-13"),
    _h("0x1.6dbdd26f56d2dp-19"),
)
_SIN: Final = (
    _h("-0x1.5555555555555p-3"),
    _h("0x1.1111111110bb1p-7"),
    _h("-0x1.a01a019e8357dp-13"),
    _h("0x1.71de37961e4c6p-19"),
    _h("-0x1.ae600a926c89ap-26"),
    _h("0x1.5e0af186af739p-33"),
)
_COS_LITE: Final = (
    _h("0x1.5555555502be6p-5"),
    _h("-0x1.6c16bf5495185p-10"),
    _h("0x1.a015c40ec65ecp-16"),
    _h("-0x1.25242a3a17327p-22"),
)
_COS: Final = (
    _h("0x1.5555555555555p-5"),
    _h("-0x1.6c16c16c16966p-10"),
    _h("0x1.a01a019f4e867p-16"),
    _h("-0x1.27e4fa17a41b4p-22"),
    _h("0x1.1eeb68b109173p-29"),
    _h("-0x1.907d7aebd5e3dp-37"),
)
# (atan(x) - x) / x**3 in powers of x**2, on [0, 1]
_ATAN: Final = (
    _h("-0x1.555555543c557p-2"),
    _h("0x1.9999971f594e7p-3"),
    _h("-0x1.2491d128f2977p-3"),
    _h("0x1.c70a6be6d4163p-4"),
    _h("-0x1.73a719b0b93d9p-4"),
    _h("0x1.36bfd2210f14ap-4"),
    _h("-0x1.ffb2b9595f5b2p-5"),
    _h("0x1.837061ab40426p-5"),
    _h("-0x1.ea18af61c3e87p-6"),
    _h("0x1.cd243cc325c05p-7"),
    _h("-0x1.14abab0185470p-8"),
    _h("0x1.36ecfc48d188bp-11"),
)


def _turned(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Give the angle less n quarter turns, in two parts, and n."""
    n, whole = nearest(b, b.fmul(x, const(x.type, _TWO_OVER_PI)))
    first = fma(b, n, -_HALF_PI[0], x)  # exact
    # The second part with nothing lost: first - n * pi/2's second = r + (error - below).
    second = b.fmul(n, const(x.type, _HALF_PI[1]))
    below = fma(b, n, _HALF_PI[1], b.fneg(second))
    r = b.fsub(first, second)
    taken = b.fsub(first, r)
    error = b.fadd(b.fsub(first, b.fadd(r, taken)), b.fsub(taken, second))
    return r, fma(b, n, -_HALF_PI[2], b.fsub(error, below)), whole


def _pair(b: Builder, r: Value, tail: Value) -> tuple[Value, Value]:
    """Give sine and cosine of ``r + tail``."""
    t = r.type
    z = b.fmul(r, r)
    half = b.fmul(z, const(t, 0.5))
    one = const(t, 1.0)
    cubic = b.fmul(b.fmul(r, z), horner(b, z, _SIN))
    sine = b.fadd(r, fma(b, tail, b.fsub(one, half), cubic))
    whole = b.fsub(one, half)
    lost = b.fsub(b.fsub(one, whole), half)
    rest = fma(b, b.fmul(z, z), horner(b, z, _COS), b.fmul(b.fneg(r), tail))
    return sine, b.fadd(whole, b.fadd(lost, rest))


def _pair_lite(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Give sine and cosine of the angle less n quarter turns, and n."""
    n, whole = nearest(b, b.fmul(x, const(x.type, _TWO_OVER_PI)))
    r = fma(b, n, -_HALF_PI[1], fma(b, n, -_HALF_PI[0], x))
    z = b.fmul(r, r)
    sine = fma(b, b.fmul(r, z), horner(b, z, _SIN_LITE), r)
    cosine = fma(b, b.fmul(z, z), horner(b, z, _COS_LITE), fma(b, z, -0.5, 1.0))
    return sine, cosine, whole


def _in_quadrant(b: Builder, sine: Value, cosine: Value, n: Value) -> Value:
    """Give the sine of n quarter turns more."""
    t = n.type
    odd = b.icmp("ne", b.and_(n, const(t, 1)), const(t, 0))
    chosen = b.select(odd, cosine, sine)
    sign = b.shl(b.and_(n, const(t, 2)), const(t, t.bits - 2))
    return b.bitcast(b.xor(b.bitcast(chosen, t), sign), chosen.type)


def _far(b: Builder, x: Value) -> Value:
    size = absolute(b, x)
    beyond = b.fcmp("ogt", size, const(x.type, _FAR))
    return b.and_(beyond, b.fcmp("olt", size, const(x.type, float("inf"))))


def sin(b: Builder, x: Value) -> Value:
    """Emit the sine of doubles."""
    r, tail, n = _turned(b, x)
    near = _in_quadrant(b, *_pair(b, r, tail), n)
    # Zero keeps its sign, which adding the tail would lose.
    near = b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, near)
    return where_hard(b, _far(b, x), near, "sin", [x])


def cos(b: Builder, x: Value) -> Value:
    """Emit the cosine of doubles."""
    r, tail, n = _turned(b, x)
    near = _in_quadrant(b, *_pair(b, r, tail), b.add(n, const(n.type, 1)))
    return where_hard(b, _far(b, x), near, "cos", [x])


def sin_lite(b: Builder, x: Value) -> Value:
    """Emit the sine of floats, by way of double."""
    sine, cosine, n = _pair_lite(b, _double(b, x))
    near = b.fptrunc(_in_quadrant(b, sine, cosine, n), x.type)
    near = b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, near)
    return where_hard(b, _far(b, x), near, "sin", [x])


def cos_lite(b: Builder, x: Value) -> Value:
    """Emit the cosine of floats, by way of double."""
    sine, cosine, n = _pair_lite(b, _double(b, x))
    near = b.fptrunc(_in_quadrant(b, sine, cosine, b.add(n, const(n.type, 1))), x.type)
    return where_hard(b, _far(b, x), near, "cos", [x])


def tan_lite(b: Builder, x: Value) -> Value:
    """Emit the tangent of floats, by way of double."""
    sine, cosine, n = _pair_lite(b, _double(b, x))
    odd = b.icmp("ne", b.and_(n, const(n.type, 1)), const(n.type, 0))
    above = b.select(odd, b.fneg(cosine), sine)
    below = b.select(odd, sine, cosine)
    near = b.fptrunc(b.fdiv(above, below), x.type)
    near = b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, near)
    return where_hard(b, _far(b, x), near, "tan", [x])


def _double(b: Builder, x: Value) -> Value:
    return b.fpext(x, DOUBLE.with_lanes(x.type.lanes))


# -- inverses, of floats held as doubles --------------------------------------------------------
def _atan_of(b: Builder, above: Value, below: Value) -> Value:
    """Emit the angle in [0, pi/2] of a point in the first quadrant, axes and infinity included."""
    t = above.type
    steep = b.fcmp("ogt", above, below)
    small, large = b.select(steep, below, above), b.select(steep, above, below)
    same = b.fcmp("oeq", above, below)
    ratio = b.fdiv(small, large)
    # Of two equal ones the ratio is 1, also where it is not defined; of two zeros the angle is 0.
    ratio = b.select(same, const(t, 1.0), ratio)
    ratio = b.select(b.fcmp("oeq", above, const(t, 0.0)), const(t, 0.0), ratio)
    z = b.fmul(ratio, ratio)
    flat = fma(b, b.fmul(ratio, z), horner(b, z, _ATAN), ratio)
    return b.select(steep, b.fsub(const(t, _HALF_PI[0]), flat), flat)


def atan_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse tangent."""
    found = _atan_of(b, absolute(b, x), const(x.type, 1.0))
    return copysign(b, b.select(b.fcmp("uno", x, x), x, found), x)


def atan2_lite(b: Builder, y: Value, x: Value) -> Value:
    """Emit the angle of the point (x, y)."""
    t = y.type
    found = _atan_of(b, absolute(b, y), absolute(b, x))
    bits = integers(x)
    left = b.icmp("slt", b.bitcast(x, bits), const(bits, 0))
    found = b.select(left, b.fsub(const(t, _PI), found), found)
    found = copysign(b, found, y)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), found)


def asin_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse sine."""
    size = absolute(b, x)
    return copysign(b, _atan_of(b, size, _leg(b, size)), x)


def acos_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse cosine."""
    t = x.type
    size = absolute(b, x)
    found = _atan_of(b, _leg(b, size), size)
    left = b.fcmp("olt", x, const(t, 0.0))
    return b.select(left, b.fsub(const(t, _PI), found), found)


def _leg(b: Builder, size: Value) -> Value:
    """Emit the square root of 1 - size**2; NaN beyond 1, and of NaN."""
    one = const(size.type, 1.0)
    square = b.fmul(b.fsub(one, size), b.fadd(one, size))
    return b.intrinsic("llvm.sqrt", [square])
