"""Scalars as objects, and back."""

from __future__ import annotations

from loomir.codegen.llvm.floats import register_type
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.unit import dtype_word
from loomir.codegen.llvm.types import I1, I64, integer
from loomir.codegen.llvm.values import Value, const
from loomir.runtime import object_layout as at
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["bits_of", "boxed", "unboxed"]


def bits_of(frame: GraphFrame, value: Value, dtype: DataType) -> Value:
    """Give a scalar's 64 bits: integers extended, floats in the lowest bits."""
    b, t = frame.b, value.type
    if t is I64:
        return value
    if dtype.is_float and not t.is_int:
        whole = b.bitcast(value, integer(t.bits))
        return whole if t.bits == 64 else b.zext(whole, I64)
    return b.sext(value, I64) if dtype.is_int else b.zext(value, I64)


def boxed(frame: GraphFrame, value: Value, dtype: DataType, span: Span | None) -> Value:
    """Make a scalar object, kept for the binding in the making."""
    made = frame.new(at.PRIM_VALUE + 8, at.PRIM, span, "a scalar")
    frame.set_word(const(I64, dtype_word(dtype)), made, at.DTYPE_WORD)
    frame.set_word(bits_of(frame, value, dtype), made, at.PRIM_VALUE)
    return made


def unboxed(frame: GraphFrame, value: Value, dtype: DataType) -> Value:
    """Read a scalar object of that dtype."""
    b, t = frame.b, register_type(dtype)
    whole = frame.word(value, at.PRIM_VALUE)
    if t is I64:
        return whole
    if t is I1:
        return b.icmp("ne", whole, const(I64, 0))
    narrow = b.trunc(whole, integer(t.bits)) if t.bits < 64 else whole
    return narrow if t.is_int else b.bitcast(narrow, t)
