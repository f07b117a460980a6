"""Box scalars as objects, and unbox them."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.types import I64
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.scalars.bits import bits_of, value_of
from loomir.codegen.llvm.relax.unit import dtype_word
from loomir.runtime.graph import object_layout as at
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["box", "unbox"]


def box(frame: GraphFrame, value: Value, dtype: DataType, span: Span | None) -> Value:
    """Make a scalar object, kept until the current binding is done."""
    made = frame.new(at.PRIM_VALUE + 8, at.PRIM, span, "a scalar")
    frame.set_word(const(I64, dtype_word(dtype)), made, at.DTYPE_WORD)
    frame.set_word(bits_of(frame.b, value, dtype), made, at.PRIM_VALUE)
    return made


def unbox(frame: GraphFrame, value: Value, dtype: DataType) -> Value:
    """Read a scalar object of that dtype."""
    return value_of(frame.b, frame.word(value, at.PRIM_VALUE), dtype)
