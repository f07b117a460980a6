"""Emit fused multiply-add, ``x * y + z`` rounded once, with or without an instruction for it.

For floats of at most 32 bits, the product is exact in double; the sum is rounded to odd in double,
so that rounding it again to fewer bits is correct. This needs no library call, and vectors stay
vectors. Double itself has no wider type: if the CPU lacks the instruction, the C library's ``fma``
is called.
"""

from __future__ import annotations

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, I64
from loomir.codegen.llvm.assembler.values import Value, const

__all__ = ["multiply_add", "multiply_add_odd"]


def multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Emit ``x * y + z``, rounded once, for floats of 32 or 64 bits."""
    t = x.type
    if t.bits == 64 or "fma" in b.module.features:
        return b.intrinsic("llvm.fma", [x, y, z])
    wide = DOUBLE.with_lanes(t.lanes)
    return b.fptrunc(multiply_add_odd(b, *(b.fpext(v, wide) for v in (x, y, z))), t)


def multiply_add_odd(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Emit ``x * y + z`` for doubles with an exact product; inexact results are rounded to odd."""
    product = b.fmul(x, y)
    total = b.fadd(product, z)
    # The rounding error of the sum, exactly.
    back = b.fsub(total, product)
    lost = b.fadd(b.fsub(product, b.fsub(total, back)), b.fsub(z, back))
    zero = const(total.type, 0.0)
    t = I64.with_lanes(total.type.lanes)
    bits = b.bitcast(total, t)
    away = b.icmp("eq", b.zext(b.fcmp("ogt", lost, zero), t), b.zext(b.fcmp("ogt", total, zero), t))
    step = b.select(away, const(t, 1), const(t, -1))
    even = b.icmp("eq", b.and_(bits, const(t, 1)), const(t, 0))
    inexact = b.and_(b.fcmp("one", lost, zero), even)
    return b.bitcast(b.select(inexact, b.add(bits, step), bits), total.type)
