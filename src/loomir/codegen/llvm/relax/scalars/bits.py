"""Represent scalars in 64 bits: integers extended, floats in the lowest bits."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I1, I64, integer
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import register_type
from loomir.support.dtype import DataType

__all__ = ["bits_of", "value_of"]


def bits_of(b: Builder, value: Value, dtype: DataType) -> Value:
    """Return the 64 bits of a scalar."""
    t = value.type
    if t is I64:
        return value
    if dtype.is_float and not t.is_int:
        whole = b.bitcast(value, integer(t.bits))
        return whole if t.bits == 64 else b.zext(whole, I64)
    return b.sext(value, I64) if dtype.is_int else b.zext(value, I64)


def value_of(b: Builder, bits: Value, dtype: DataType) -> Value:
    """Return the scalar with these 64 bits."""
    t = register_type(dtype)
    if t is I64:
        return bits
    if t is I1:
        return b.icmp("ne", bits, const(I64, 0))
    narrow = b.trunc(bits, integer(t.bits)) if t.bits < 64 else bits
    return narrow if t.is_int else b.bitcast(narrow, t)
