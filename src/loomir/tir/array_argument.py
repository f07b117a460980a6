"""Describe an array that one function passes to another."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.dtype import HANDLE, DataType
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.table import STACK_MAKE_ARRAY, STACK_MAKE_SHAPE
from loomir.tir.expr import Call, IntImm, PrimExpr, cast, const

__all__ = ["describe"]

_INT64 = DataType("int64")


def describe(
    buffer: Buffer,
    data: PrimExpr | None = None,
    strides: Sequence[PrimExpr] | None = None,
    offset: PrimExpr | None = None,
) -> Call:
    """Describe a buffer: data, shape, strides (none where row-major), rank, an element, offset.

    Parts that are not passed are those of the buffer.
    """
    start = offset if offset is not None else buffer.elem_offset
    return Call(
        HANDLE,
        STACK_MAKE_ARRAY,
        (
            buffer.data if data is None else data,
            _numbers(buffer.shape),
            _numbers(buffer.strides if strides is None else strides),
            IntImm(len(buffer.shape), DataType("int32")),
            const(0, buffer.dtype),
            IntImm(0, _INT64) if start is None else start,
        ),
    )


def _numbers(values: Sequence[PrimExpr]) -> Call:
    return Call(HANDLE, STACK_MAKE_SHAPE, tuple(cast(v, _INT64) for v in values))
