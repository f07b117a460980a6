"""Emit conversions between number types, for any number of lanes, each rounded once.

- A bfloat16 is an ``i16`` in registers and has no arithmetic: widen it to float first.
- A float16 is a ``half``. If ``Module.features`` lacks ``f16c``, it is converted by bit operations,
  since LLVM would call a library function that may not exist. Its arithmetic is done in float too.
- A bool is an ``i1``.
- To a narrower float: round to nearest, ties to even; NaN stays NaN. To an integer: truncate,
  saturate to the range of the type, NaN to 0. To a bool: whether it is not 0. Integers wrap.
"""

from __future__ import annotations

import functools
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Type,
    integer,
)
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.neighbours import number_of
from loomir.codegen.llvm.math.saturating import float_to_int
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType, TypeCode

__all__ = ["cast", "narrow", "register_type", "widen"]

_FLOATS: Final = {16: HALF, 32: FLOAT, 64: DOUBLE}
_FLOAT32: Final = DataType(TypeCode.FLOAT, 32)


@functools.cache
def register_type(dtype: DataType) -> Type:
    """Return the type that a value of the dtype has in registers."""
    if dtype.is_void:
        return VOID
    if dtype.is_handle:
        return PTR
    if dtype.is_bool:
        element = I1
    elif dtype.is_bfloat:
        element = I16
    elif dtype.is_float:
        element = _FLOATS[dtype.bits]
    else:
        element = integer(dtype.bits)
    return element.with_lanes(dtype.lanes)


def cast(b: Builder, x: Value, source: DataType, target: DataType) -> Value:
    """Convert numbers of one dtype to another, lane by lane."""
    if source.lanes != target.lanes or x.type is not register_type(source):
        raise InternalError(f"{x.typed} is no {source} to make a {target} of")
    if source is target:
        return x
    if target.is_bool:
        return _to_bool(b, x, source)
    if source.is_float:
        return _from_float(b, x, source, target)
    if target.is_float:
        return _int_to_float(b, x, source, target)
    return _int_to_int(b, x, source, target)


def widen(b: Builder, x: Value, dtype: DataType) -> Value:
    """Convert a 16-bit float to 32 bits; return others unchanged."""
    return cast(b, x, dtype, _compute(dtype))


def narrow(b: Builder, x: Value, dtype: DataType) -> Value:
    """Undo ``widen``: round a result in the wider type to ``dtype``."""
    return cast(b, x, _compute(dtype), dtype)


def _compute(dtype: DataType) -> DataType:
    small = dtype.is_float and dtype.bits == 16
    return _FLOAT32.with_lanes(dtype.lanes) if small else dtype


# -- to bool and between integers ---------------------------------------------------------------
def _to_bool(b: Builder, x: Value, source: DataType) -> Value:
    if not source.is_float:
        return b.icmp("ne", x, const(x.type, 0))
    wide = widen(b, x, source)
    return b.fcmp("une", wide, const(wide.type, 0.0))


def _int_to_int(b: Builder, x: Value, source: DataType, target: DataType) -> Value:
    to = register_type(target)
    if to.bits == x.type.bits:
        return x
    if to.bits < x.type.bits:
        return b.trunc(x, to)
    return b.sext(x, to) if source.is_int else b.zext(x, to)


# -- from float ---------------------------------------------------------------------------------
def _from_float(b: Builder, x: Value, source: DataType, target: DataType) -> Value:
    if source.is_bfloat:
        x = bfloat_to_float(b, x)
    elif x.type.bits == 16:
        x = half_to_float(b, x)
    to = register_type(target)
    if not target.is_float:
        return float_to_int(b, x, to, signed=target.is_int)
    if target.bits == 16:
        if x.type.bits == 64:
            x = double_to_float_odd(b, x)
        return float_to_bfloat(b, x) if target.is_bfloat else float_to_half(b, x)
    if to.bits == x.type.bits:
        return x
    return b.fpext(x, to) if to.bits > x.type.bits else b.fptrunc(x, to)


def bfloat_to_float(b: Builder, x: Value) -> Value:
    """Convert bfloat16, carried as ``i16``, to float; exact."""
    lanes = x.type.lanes
    bits = b.zext(x, I32.with_lanes(lanes))
    return b.bitcast(b.shl(bits, const(bits.type, 16)), FLOAT.with_lanes(lanes))


def float_to_bfloat(b: Builder, x: Value) -> Value:
    """Round float to bfloat16, carried as ``i16``."""
    t = I32.with_lanes(x.type.lanes)
    bits = b.bitcast(x, t)
    high = b.lshr(bits, const(t, 16))
    odd = b.and_(high, const(t, 1))
    # Half a unit minus one, plus the last kept bit: ties are carried only into odd numbers.
    rounded = b.lshr(b.add(b.add(bits, const(t, 0x7FFF)), odd), const(t, 16))
    # Rounding must not turn a NaN into infinity, nor clear all its bits.
    quiet = b.or_(high, const(t, 0x40))
    chosen = b.select(b.fcmp("uno", x, x), quiet, rounded)
    return b.trunc(chosen, I16.with_lanes(x.type.lanes))


def half_to_float(b: Builder, x: Value) -> Value:
    """Convert half to float; exact."""
    lanes = x.type.lanes
    number = number_of(x) if x.is_constant else None
    if number is not None:
        return const(FLOAT.with_lanes(lanes), number)
    if "f16c" in b.module.features:
        return b.fpext(x, FLOAT.with_lanes(lanes))
    t, f = I32.with_lanes(lanes), FLOAT.with_lanes(lanes)
    bits = b.zext(b.bitcast(x, I16.with_lanes(lanes)), t)
    sign = b.shl(b.and_(bits, const(t, 0x8000)), const(t, 16))
    moved = b.shl(b.and_(bits, const(t, 0x7FFF)), const(t, 13))
    exponent = b.and_(moved, const(t, 0x0F800000))
    normal = b.add(moved, const(t, (127 - 15) << 23))
    special = b.or_(moved, const(t, 0x7F800000))
    # A subnormal half is a fraction of 2**-14: place it after the leading bit of 2**-14, then
    # subtract that leading bit.
    small = b.bitcast(b.add(moved, const(t, 113 << 23)), f)
    subnormal = b.bitcast(b.fsub(small, const(f, 2.0**-14)), t)
    out = b.select(b.icmp("eq", exponent, const(t, 0)), subnormal, normal)
    out = b.select(b.icmp("eq", exponent, const(t, 0x0F800000)), special, out)
    return b.bitcast(b.or_(out, sign), f)


def float_to_half(b: Builder, x: Value) -> Value:
    """Round float to half."""
    lanes = x.type.lanes
    if "f16c" in b.module.features:
        return b.fptrunc(x, HALF.with_lanes(lanes))
    t, f = I32.with_lanes(lanes), FLOAT.with_lanes(lanes)
    bits = b.bitcast(x, t)
    sign = b.and_(b.lshr(bits, const(t, 16)), const(t, 0x8000))
    size = b.and_(bits, const(t, 0x7FFFFFFF))
    odd = b.and_(b.lshr(size, const(t, 13)), const(t, 1))
    rebased = b.add(size, const(t, ((15 - 127) << 23) + 0xFFF))
    normal = b.lshr(b.add(rebased, odd), const(t, 13))
    # After adding 0.5, the hardware rounds at 2**-24, the unit of subnormal halves.
    shifted = b.fadd(b.bitcast(size, f), const(f, 0.5))
    subnormal = b.sub(b.bitcast(shifted, t), const(t, 0x3F000000))
    nan = b.icmp("ugt", size, const(t, 0x7F800000))
    large = b.select(nan, const(t, 0x7E00), const(t, 0x7C00))
    out = b.select(b.icmp("ult", size, const(t, 0x38800000)), subnormal, normal)
    out = b.select(b.icmp("uge", size, const(t, 0x47800000)), large, out)
    out = b.trunc(b.or_(out, sign), I16.with_lanes(lanes))
    return b.bitcast(out, HALF.with_lanes(lanes))


def double_to_float_odd(b: Builder, x: Value) -> Value:
    """Round double to float; if that is inexact, to the odd one of the two neighbours.

    Rounding the result again to a format of at most 22 bits is then correct: no tie appears or
    disappears.
    """
    lanes = x.type.lanes
    t = I32.with_lanes(lanes)
    near = b.fptrunc(x, FLOAT.with_lanes(lanes))
    back = b.fpext(near, x.type)
    away = b.fcmp("ogt", b.intrinsic("llvm.fabs", [back]), b.intrinsic("llvm.fabs", [x]))
    bits = b.bitcast(near, t)
    below = b.sub(bits, b.zext(away, t))
    odd = b.or_(below, b.zext(b.fcmp("one", back, x), t))
    return b.bitcast(odd, near.type)


# -- from integers ------------------------------------------------------------------------------
def _int_to_float(b: Builder, x: Value, source: DataType, target: DataType) -> Value:
    lanes = source.lanes
    if target.bits > 16:
        return _convert(b, x, source, register_type(target))
    if source.bits <= 16:
        near = _convert(b, x, source, FLOAT.with_lanes(lanes))
    else:
        if source.bits == 64:
            x = _round_to_53_bits(b, x, signed=source.is_int)
        near = double_to_float_odd(b, _convert(b, x, source, DOUBLE.with_lanes(lanes)))
    return float_to_bfloat(b, near) if target.is_bfloat else float_to_half(b, near)


def _convert(b: Builder, x: Value, source: DataType, to: Type) -> Value:
    return b.sitofp(x, to) if source.is_int else b.uitofp(x, to)


def _round_to_53_bits(b: Builder, x: Value, *, signed: bool) -> Value:
    """Round a large 64-bit integer to odd at bit 11, so that a double represents it exactly."""
    t = I64.with_lanes(x.type.lanes)
    rest = b.and_(x, const(t, 0x7FF))
    sticky = b.and_(b.add(rest, const(t, 0x7FF)), const(t, 0x800))
    rounded = b.or_(b.and_(x, const(t, ~0x7FF)), sticky)
    if signed:
        moved = b.add(x, const(t, 1 << 53))
        small = b.icmp("ule", moved, const(t, 1 << 54))
    else:
        small = b.icmp("ule", x, const(t, 1 << 53))
    return b.select(small, x, rounded)
