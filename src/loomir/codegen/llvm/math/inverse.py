"""Emit the inverses of sine, cosine and tangent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.argument_reduction import HALF_PI, HALF_PI_SINGLE
from loomir.codegen.llvm.math.parts import (
    absolute,
    copysign,
    fma,
    horner,
    integers,
    quick_sum,
    root_in_parts,
)

__all__ = [
    "ASIN",
    "ASIN_SINGLE",
    "ATAN",
    "ATAN_SINGLE",
    "acos",
    "asin",
    "atan",
    "atan2",
]

_h = float.fromhex

ATAN_SINGLE: Final = (
    _h("-0x1.55553ep-2"),
    _h("0x1.9991fep-3"),
    _h("-0x1.2421b4p-3"),
    _h("0x1.c099e8p-4"),
    _h("-0x1.583440p-4"),
    _h("0x1.dac894p-5"),
    _h("-0x1.fece64p-6"),
    _h("0x1.65a2d6p-7"),
    _h("-0x1.d62928p-10"),
)
"""(atan(x) - x) / x**3 in powers of x**2, on [0, 1]; in floats."""
ATAN: Final = (
    _h("-0x1.5555555555526p-2"),
    _h("0x1.9999999995545p-3"),
    _h("-0x1.249249237e1c8p-3"),
    _h("0x1.c71c717f92e60p-4"),
    _h("-0x1.745d11aad2a12p-4"),
    _h("0x1.3b1366745d6dbp-4"),
    _h("-0x1.110e500e7e4dfp-4"),
    _h("0x1.e1bb9a68f3804p-5"),
    _h("-0x1.ae5e40eb083bbp-5"),
    _h("0x1.82da38852bfa4p-5"),
    _h("-0x1.59a27432ac8bep-5"),
    _h("0x1.2c2b5e20d9bb2p-5"),
    _h("-0x1.e9f0f5636ecd7p-6"),
    _h("0x1.683209a814381p-6"),
    _h("-0x1.c77c3ed27399cp-7"),
    _h("0x1.d79e5181711dep-8"),
    _h("-0x1.7a1ec0627159cp-9"),
    _h("0x1.b3d5d57e5871dp-11"),
    _h("-0x1.3f17072f6f2bep-13"),
    _h("0x1.bbbc970c4e767p-17"),
)
"""The same, in doubles."""
ASIN_SINGLE: Final = (
    _h("0x1.55554cp-3"),
    _h("0x1.33387cp-4"),
    _h("0x1.6caee0p-5"),
    _h("0x1.049156p-5"),
    _h("0x1.d922bcp-7"),
    _h("0x1.3354fep-5"),
)
"""(asin(x) - x) / x**3 in powers of x**2, for x up to 1/2; in floats."""
ASIN: Final = (
    _h("0x1.5555555555577p-3"),
    _h("0x1.333333332e0f7p-4"),
    _h("0x1.6db6db72149d2p-5"),
    _h("0x1.f1c71a943da06p-6"),
    _h("0x1.6e8bdef1d2899p-6"),
    _h("0x1.1c49ef41187f1p-6"),
    _h("0x1.ca1fa5b3519a5p-7"),
    _h("0x1.7584d2436040ep-7"),
    _h("0x1.61404af2418ffp-7"),
    _h("0x1.e5c062f34169cp-9"),
    _h("0x1.63abb96e9a86fp-6"),
    _h("-0x1.58120707c6646p-6"),
    _h("0x1.0b4cdec746a34p-5"),
)
"""The same, in doubles."""


# -- tangent -----------------------------------------------------------------------------------
def _atan_of(b: Builder, above: Value, below: Value, polynomial: Sequence[float]) -> Value:
    """Emit the angle, from 0 to pi/2, of a point in the first quadrant, including infinity."""
    t = above.type
    steep = b.fcmp("ogt", above, below)
    small, large = b.select(steep, below, above), b.select(steep, above, below)
    same = b.fcmp("oeq", above, below)
    ratio = b.fdiv(small, large)
    # The ratio of two equal numbers is 1, also of infinities; the angle of two zeros is 0.
    ratio = b.select(same, const(t, 1.0), ratio)
    ratio = b.select(b.fcmp("oeq", above, const(t, 0.0)), const(t, 0.0), ratio)
    z = b.fmul(ratio, ratio)
    flat = fma(b, b.fmul(ratio, z), horner(b, z, polynomial), ratio)
    return b.select(steep, _turn_less(b, 1.0, flat), flat)


def _turn_less(b: Builder, quarters: float, x: Value) -> Value:
    """Emit a multiple of pi/2 minus x."""
    high, low = HALF_PI[:2] if x.type.bits == 64 else HALF_PI_SINGLE[:2]
    return b.fsub(const(x.type, quarters * high), b.fsub(x, const(x.type, quarters * low)))


def atan(b: Builder, x: Value) -> Value:
    """Emit the inverse tangent."""
    found = _atan_of(b, absolute(b, x), const(x.type, 1.0), _polynomial(x))
    return copysign(b, b.select(b.fcmp("uno", x, x), x, found), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Emit the angle of the point (x, y)."""
    found = _atan_of(b, absolute(b, y), absolute(b, x), _polynomial(x))
    bits = integers(x)
    left = b.icmp("slt", b.bitcast(x, bits), const(bits, 0))
    found = copysign(b, b.select(left, _turn_less(b, 2.0, found), found), y)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), found)


def _polynomial(x: Value) -> Sequence[float]:
    return ATAN if x.type.bits == 64 else ATAN_SINGLE


# -- sine and cosine ---------------------------------------------------------------------------
def _arc(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return an angle in two parts, and whether its complement is meant.

    If ``|x| < 1/2``, the angle is ``asin(|x|)``; else it is ``2 asin(sqrt((1 - |x|) / 2))``, which
    is ``acos(|x|)``.
    """
    t = x.type
    size = absolute(b, x)
    near_one = b.fcmp("oge", size, const(t, 0.5))
    z = b.select(near_one, fma(b, size, -0.5, 0.5), b.fmul(x, x))
    root, lost = root_in_parts(b, z)
    s = b.select(near_one, root, size)
    low = fma(
        b,
        b.fmul(s, z),
        horner(b, z, ASIN if t.bits == 64 else ASIN_SINGLE),
        b.select(near_one, lost, const(t, 0.0)),
    )
    twice = b.select(near_one, const(t, 2.0), const(t, 1.0))
    return b.fmul(s, twice), b.fmul(low, twice), near_one


def _subtract_angle(b: Builder, quarters: Value, high: Value, low: Value) -> Value:
    """Emit a number of quarter turns minus an angle in two parts."""
    t = high.type
    turn, turn_low = HALF_PI[:2] if t.bits == 64 else HALF_PI_SINGLE[:2]
    first, rest = quick_sum(b, b.fmul(quarters, const(t, turn)), b.fneg(high))
    return b.fadd(first, fma(b, quarters, turn_low, b.fsub(rest, low)))


def asin(b: Builder, x: Value) -> Value:
    """Emit the inverse sine."""
    high, low, near_one = _arc(b, x)
    large = _subtract_angle(b, const(x.type, 1.0), high, low)
    return copysign(b, b.select(near_one, large, b.fadd(high, low)), x)


def acos(b: Builder, x: Value) -> Value:
    """Emit the inverse cosine."""
    t = x.type
    high, low, near_one = _arc(b, x)
    left = b.fcmp("olt", x, const(t, 0.0))
    # Below -1/2, half a turn minus the angle; in the middle, a quarter turn minus the signed angle.
    up = b.and_(left, b.not_(near_one))
    signed = [b.select(up, b.fneg(v), v) for v in (high, low)]
    quarters = b.select(near_one, const(t, 2.0), const(t, 1.0))
    subtracted = _subtract_angle(b, quarters, signed[0], signed[1])
    return b.select(b.and_(near_one, b.not_(left)), b.fadd(high, low), subtracted)
