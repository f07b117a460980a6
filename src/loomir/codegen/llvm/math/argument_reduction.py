"""Range reduction of the trigonometric functions: reduce angles modulo a quarter turn.

Up to ``_FAR``, a multiple of pi/2, in three parts, is subtracted. Beyond that, the angle in quarter
turns is the product of its 53 bits with 192 bits of 2/pi: higher bits only contribute whole turns,
lower bits do not change the result.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, I64, integer
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.parts import (
    absolute,
    fma,
    nearest,
    power_of_two,
    quick_sum,
    two_product,
)

__all__ = ["HALF_PI", "HALF_PI_SINGLE", "far", "reduce_angle", "reduce_far", "reduce_single"]

_h = float.fromhex

_FAR: Final = {32: 2.0**17, 64: 2.0**25}
_TWO_OVER_PI: Final = _h("0x1.45f306dc9c883p-1")
HALF_PI: Final = (
    _h("0x1.921fb54442d18p+0"),
    _h("0x1.1a62633145c07p-54"),
    _h("-0x1.f1976b7ed8fbcp-110"),
)
"""pi/2 in three parts, for doubles."""

HALF_PI_SINGLE: Final = _h("0x1.921fb6p+0"), _h("-0x1.777a5cp-25"), _h("-0x1.ee59dap-50")
"""The same for floats."""

# The bits of 2/pi after the binary point, after 64 zeros, which angles below 2**53 need.
_BITS: Final = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)
_TABLE: Final = "loomir.two_over_pi"
_I128: Final = integer(128)


def far(b: Builder, args: Sequence[Value]) -> Value:
    """Tell whether an angle is finite and too large for ``reduce_angle``."""
    x = args[0]
    size = absolute(b, x)
    beyond = b.fcmp("ogt", size, const(x.type, _FAR[x.type.bits]))
    return b.and_(beyond, b.fcmp("olt", size, const(x.type, float("inf"))))


def reduce_angle(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return the angle minus n quarter turns, in two parts, and n."""
    turn = HALF_PI if x.type.bits == 64 else HALF_PI_SINGLE
    n, whole = nearest(b, b.fmul(x, const(x.type, _TWO_OVER_PI)))
    first = fma(b, n, -turn[0], x)  # exact
    # The second part, exactly: first - n * (the second part of pi/2) = r + (error - below).
    second = b.fmul(n, const(x.type, turn[1]))
    below = fma(b, n, turn[1], b.fneg(second))
    r = b.fsub(first, second)
    taken = b.fsub(first, r)
    error = b.fadd(b.fsub(first, b.fadd(r, taken)), b.fsub(taken, second))
    return r, fma(b, n, -turn[2], b.fsub(error, below)), whole


def reduce_single(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return the angle minus n quarter turns, to a unit in the last place, and n; for floats."""
    n, whole = nearest(b, b.fmul(x, const(x.type, _TWO_OVER_PI)))
    r = fma(b, n, -HALF_PI_SINGLE[0], x)  # exact
    r = fma(b, n, -HALF_PI_SINGLE[1], r)
    return fma(b, n, -HALF_PI_SINGLE[2], r), whole


def reduce_far(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Do the same as ``reduce_angle`` for one finite double that is too large for it."""
    bits = b.bitcast(x, I64)
    magnitude = b.and_(bits, const(I64, (1 << 63) - 1))
    exponent = b.lshr(magnitude, const(I64, 52))
    fraction = b.and_(magnitude, const(I64, (1 << 52) - 1))
    number = b.or_(fraction, const(I64, 1 << 52))
    # The number times 2**scale, where scale = exponent - 1075. Bits of 2/pi before scale - 2 make
    # multiples of four quarter turns.
    high, middle, low = _window(b, b.sub(exponent, const(I64, 1075 + 2 - 64)))
    wide = b.zext(number, _I128)
    product = b.add(
        b.mul(wide, b.zext(middle, _I128)),
        b.shl(b.zext(b.mul(number, high), _I128), const(_I128, 64)),
    )
    carried = b.lshr(b.mul(wide, b.zext(low, _I128)), const(_I128, 64))
    turns = b.add(product, carried)  # two bits of quarter turns, 126 after the point
    n = b.lshr(b.add(turns, const(_I128, 1 << 125)), const(_I128, 126))
    r, tail, below = _radians(b, b.shl(turns, const(_I128, 2)))
    negative = b.xor(below, b.icmp("slt", bits, const(I64, 0)))
    whole = b.trunc(n, I64)
    whole = b.select(b.icmp("slt", bits, const(I64, 0)), b.neg(whole), whole)
    return (
        b.select(negative, b.fneg(r), r),
        b.select(negative, b.fneg(tail), tail),
        whole,
    )


def _window(b: Builder, start: Value) -> tuple[Value, Value, Value]:
    """Return 192 bits of the table, starting at a given bit, as three words."""
    init = struct.pack(f"<{len(_BITS)}Q", *_BITS)
    table = b.module.data_once(_TABLE, init, align=8)
    first = b.lshr(start, const(I64, 6))
    shift = b.and_(start, const(I64, 63))
    words = [b.load(I64, b.gep(I64, table, b.add(first, const(I64, i))), align=8) for i in range(4)]
    # The next word's high bits are shifted down in two steps, since a shift by 64 is undefined.
    rest = b.sub(const(I64, 63), shift)
    words_at = [
        b.or_(b.shl(one, shift), b.lshr(b.lshr(following, const(I64, 1)), rest))
        for one, following in itertools.pairwise(words)
    ]
    return words_at[0], words_at[1], words_at[2]


def _radians(b: Builder, turns: Value) -> tuple[Value, Value, Value]:
    """Return the magnitude of a signed 128-bit fraction of a quarter turn in radians, and its sign.

    The magnitude is in two parts.
    """
    below = b.icmp("slt", turns, const(_I128, 0))
    size = b.select(below, b.neg(turns), turns)
    # Zero does not occur: no double is that close to a multiple. The mask makes it harmless.
    empty = b.and_(b.intrinsic("llvm.ctlz", [size, const(_FLAG, 0)]), const(_I128, 127))
    full = b.shl(size, empty)
    lz = b.trunc(empty, I64)
    first = b.uitofp(b.trunc(b.lshr(full, const(_I128, 75)), I64), DOUBLE)
    rest = b.and_(b.trunc(b.lshr(full, const(_I128, 22)), I64), const(I64, (1 << 53) - 1))
    hi = b.fmul(first, power_of_two(b, b.sub(const(I64, -53), lz), DOUBLE))
    lo = b.fmul(b.uitofp(rest, DOUBLE), power_of_two(b, b.sub(const(I64, -106), lz), DOUBLE))
    r, lost = two_product(b, hi, const(DOUBLE, HALF_PI[0]))
    lost = fma(b, hi, HALF_PI[1], lost)
    r, tail = quick_sum(b, r, fma(b, lo, HALF_PI[0], lost))
    return r, tail, below


_FLAG: Final = integer(1)
