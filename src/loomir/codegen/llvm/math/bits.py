"""Emit functions on the bits of floats: ``ldexp``, ``copysign`` and ``nextafter``."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT, I64
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.parts import format_of, integers, power_of_two

__all__ = ["copysign_bits", "ldexp", "nextafter_bits"]


def ldexp(b: Builder, x: Value, e: Value) -> Value:
    """Emit ``x * 2**e``, rounded once; ``e`` is ``i32``."""
    if x.type.element is FLOAT:
        # Exact in double for every exponent that matters, then rounded.
        wide = b.fpext(x, DOUBLE.with_lanes(x.type.lanes))
        exponent = b.sext(_clamp_exponent(b, e, 400), I64.with_lanes(x.type.lanes))
        return b.fptrunc(b.fmul(wide, power_of_two(b, exponent, wide.type)), x.type)
    form = format_of(x)
    t = integers(x)
    n = b.sext(_clamp_exponent(b, e, 2200), t)
    # Each step downwards covers less than the whole range. If a value is subnormal before the last
    # step, it is less than half of the smallest number after it; so nothing is rounded twice.
    down = form.bias - 1 - (form.fraction + 1)
    for _ in range(2):
        low = b.icmp("slt", n, const(t, 1 - form.bias))
        x = b.select(low, b.fmul(x, const(x.type, 2.0**-down)), x)
        n = b.select(low, b.add(n, const(t, down)), n)
    for _ in range(2):
        high = b.icmp("sgt", n, const(t, form.bias))
        x = b.select(high, b.fmul(x, const(x.type, 2.0**form.bias)), x)
        n = b.select(high, b.sub(n, const(t, form.bias)), n)
    n = b.select(b.icmp("slt", n, const(t, 1 - form.bias)), const(t, 1 - form.bias), n)
    n = b.select(b.icmp("sgt", n, const(t, form.bias)), const(t, form.bias), n)
    return b.fmul(x, power_of_two(b, n, x.type))


def _clamp_exponent(b: Builder, e: Value, limit: int) -> Value:
    e = b.select(b.icmp("slt", e, const(e.type, -limit)), const(e.type, -limit), e)
    return b.select(b.icmp("sgt", e, const(e.type, limit)), const(e.type, limit), e)


def copysign_bits(b: Builder, x: Value, y: Value) -> Value:
    """Emit the bits of ``x`` with the sign bit of ``y``, integers of the width of the float."""
    t = x.type
    sign = const(t, 1 << (t.bits - 1))
    return b.or_(b.and_(x, b.not_(sign)), b.and_(y, sign))


def nextafter_bits(b: Builder, x: Value, y: Value, infinity: int) -> Value:
    """Emit the bits of the next number from ``x`` towards ``y``, both given as bits.

    ``infinity`` has the bits of positive infinity in the format, which may be any of IEEE 754.
    """
    t = x.type
    sign = const(t, 1 << (t.bits - 1))
    zero = const(t, 0)
    size_x, size_y = b.and_(x, b.not_(sign)), b.and_(y, b.not_(sign))
    # Signed integers in the same order as the numbers; both zeros become 0.
    order_x = b.select(b.icmp("slt", x, zero), b.sub(zero, size_x), x)
    order_y = b.select(b.icmp("slt", y, zero), b.sub(zero, size_y), y)
    up = b.icmp("slt", order_x, order_y)
    step = b.select(up, const(t, 1), const(t, -1))
    order = b.add(order_x, step)
    negative = b.icmp("slt", order, zero)
    moved = b.select(negative, b.or_(b.sub(zero, order), sign), order)
    # From below, zero is reached as -0, to which the step takes the smallest number, too.
    to_zero = b.and_(b.icmp("eq", order, zero), b.icmp("slt", order_x, zero))
    moved = b.select(to_zero, sign, moved)
    result = b.select(b.icmp("eq", order_x, order_y), y, moved)
    top = const(t, infinity)
    result = b.select(b.icmp("ugt", size_y, top), y, result)
    return b.select(b.icmp("ugt", size_x, top), x, result)
