"""The inverses of sine, cosine and tangent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.parts import absolute, copysign, fma, horner, integers, quick_sum
from loomir.codegen.llvm.kernels.reduction import HALF_PI
from loomir.codegen.llvm.values import Value, const

__all__ = [
    "ASIN",
    "ATAN",
    "ATAN_LITE",
    "acos",
    "acos_lite",
    "asin",
    "asin_lite",
    "atan",
    "atan2",
    "atan2_lite",
    "atan_lite",
]

_h = float.fromhex

ATAN_LITE: Final = (
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
"""(atan(x) - x) / x**3 in powers of x**2, on [0, 1]; good for floats."""
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
"""The same, good for doubles."""
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
"""(asin(x) - x) / x**3 in powers of x**2, for x up to 1/2."""


# -- tangent -----------------------------------------------------------------------------------
def _atan_of(b: Builder, above: Value, below: Value, polynomial: Sequence[float]) -> Value:
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
    flat = fma(b, b.fmul(ratio, z), horner(b, z, polynomial), ratio)
    return b.select(steep, _turn_less(b, 1.0, flat), flat)


def _turn_less(b: Builder, quarters: float, x: Value) -> Value:
    """Emit a multiple of pi/2 less x."""
    low = b.fsub(x, const(x.type, quarters * HALF_PI[1]))
    return b.fsub(const(x.type, quarters * HALF_PI[0]), low)


def _atan(b: Builder, x: Value, polynomial: Sequence[float]) -> Value:
    found = _atan_of(b, absolute(b, x), const(x.type, 1.0), polynomial)
    return copysign(b, b.select(b.fcmp("uno", x, x), x, found), x)


def _atan2(b: Builder, y: Value, x: Value, polynomial: Sequence[float]) -> Value:
    found = _atan_of(b, absolute(b, y), absolute(b, x), polynomial)
    bits = integers(x)
    left = b.icmp("slt", b.bitcast(x, bits), const(bits, 0))
    found = copysign(b, b.select(left, _turn_less(b, 2.0, found), found), y)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), found)


def atan(b: Builder, x: Value) -> Value:
    """Emit the inverse tangent of doubles."""
    return _atan(b, x, ATAN)


def atan_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse tangent of a float held as a double."""
    return _atan(b, x, ATAN_LITE)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Emit the angle of the point (x, y) of doubles."""
    return _atan2(b, y, x, ATAN)


def atan2_lite(b: Builder, y: Value, x: Value) -> Value:
    """Emit the angle of the point (x, y) of floats held as doubles."""
    return _atan2(b, y, x, ATAN_LITE)


# -- sine and cosine ---------------------------------------------------------------------------
def _arc(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Give an angle in two parts, and whether it is the rest.

    The sine of the angle is the magnitude of x where that is below 1/2; elsewhere the angle is the
    one whose sine is the root of ``(1 - |x|) / 2``, doubled: the angle of that cosine.
    """
    t = x.type
    size = absolute(b, x)
    near_one = b.fcmp("oge", size, const(t, 0.5))
    z = b.select(near_one, fma(b, size, -0.5, 0.5), b.fmul(x, x))
    root = b.intrinsic("llvm.sqrt", [z])
    safe = b.select(b.fcmp("oeq", root, const(t, 0.0)), const(t, 1.0), root)
    lost = b.fdiv(b.fmul(fma(b, b.fneg(root), root, z), const(t, 0.5)), safe)
    s = b.select(near_one, root, size)
    low = fma(b, b.fmul(s, z), horner(b, z, ASIN), b.select(near_one, lost, const(t, 0.0)))
    twice = b.select(near_one, const(t, 2.0), const(t, 1.0))
    return b.fmul(s, twice), b.fmul(low, twice), near_one


def _less(b: Builder, quarters: Value, high: Value, low: Value) -> Value:
    """Emit a number of quarter turns less an angle in two parts."""
    t = high.type
    first, rest = quick_sum(b, b.fmul(quarters, const(t, HALF_PI[0])), b.fneg(high))
    tail = fma(b, quarters, HALF_PI[1], b.fsub(rest, low))
    return b.fadd(first, tail)


def asin(b: Builder, x: Value) -> Value:
    """Emit the inverse sine of doubles."""
    high, low, near_one = _arc(b, x)
    large = _less(b, const(x.type, 1.0), high, low)
    return copysign(b, b.select(near_one, large, b.fadd(high, low)), x)


def acos(b: Builder, x: Value) -> Value:
    """Emit the inverse cosine of doubles."""
    t = x.type
    high, low, near_one = _arc(b, x)
    left = b.fcmp("olt", x, const(t, 0.0))
    # Left of -1/2, half a turn less the angle; in the middle, a quarter turn less it with x's sign.
    up = b.and_(left, b.not_(near_one))
    signed = [b.select(up, b.fneg(v), v) for v in (high, low)]
    quarters = b.select(near_one, const(t, 2.0), const(t, 1.0))
    turned = _less(b, quarters, signed[0], signed[1])
    return b.select(b.and_(near_one, b.not_(left)), b.fadd(high, low), turned)


def _leg(b: Builder, size: Value) -> Value:
    """Emit the square root of 1 - size**2; NaN beyond 1, and of NaN."""
    one = const(size.type, 1.0)
    square = b.fmul(b.fsub(one, size), b.fadd(one, size))
    return b.intrinsic("llvm.sqrt", [square])


def asin_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse sine of a float held as a double."""
    size = absolute(b, x)
    return copysign(b, _atan_of(b, size, _leg(b, size), ATAN_LITE), x)


def acos_lite(b: Builder, x: Value) -> Value:
    """Emit the inverse cosine of a float held as a double."""
    size = absolute(b, x)
    found = _atan_of(b, _leg(b, size), size, ATAN_LITE)
    left = b.fcmp("olt", x, const(x.type, 0.0))
    return b.select(left, _turn_less(b, 2.0, found), found)
