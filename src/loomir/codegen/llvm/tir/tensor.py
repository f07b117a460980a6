"""The memory layout of a ``DLTensor`` in LLVM IR, and how to build one."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.types import I8, I16, I32, I64, PTR, Type, array, struct
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.runtime import layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.builtins.table import STACK_MAKE_ARRAY, STACK_MAKE_SHAPE
from loomir.tir.expr import Call, PrimExpr

__all__ = ["DLTENSOR", "FIELDS", "element_code", "header_word", "make_tensor"]

_INT64: Final = DataType("int64")

DLTENSOR: Final[Type] = struct([PTR, I32, I32, I32, I8, I8, I16, PTR, PTR, I64])
"""Fields: data, device type, device id, ndim, code, bits, lanes, shape, strides, byte offset."""

FIELDS: Final = {"data": 0, "device": 1, "ndim": 3, "shape": 7, "strides": 8, "byte_offset": 9}


def element_code(dtype: DataType) -> tuple[int, int]:
    """Return DLPack's code and bits of a dtype's elements."""
    return int(dtype.code), 8 if dtype.is_bool else dtype.bits


def header_word(dtype: DataType, rank: int) -> int:
    """Return ``ndim`` and the dtype as they lie in memory, as one little-endian 64-bit word."""
    code, bits = element_code(dtype)
    return rank | code << 32 | bits << 40 | dtype.lanes << 48


def make_tensor(frame: FunctionFrame, e: PrimExpr) -> Step[Value]:
    """Make the ``DLTensor`` that lowering described."""
    if not isinstance(e, Call) or e.op is not STACK_MAKE_ARRAY:
        raise InternalError("lowered code passes something else than an array")
    data, shape, strides, _, element, offset = e.args
    b = frame.b
    tensor = b.alloca(DLTENSOR, align=8, hint="tensor")
    pointer: Value = yield frame.value(data)
    shape_at: Value = yield _numbers(frame, shape)
    strides_at: Value = yield _numbers(frame, strides)
    start: Value = yield frame.value(offset)
    dtype = element.dtype
    first = cast(b, start, offset.dtype, _INT64)
    code, bits = element_code(dtype)
    fields = (
        pointer,
        const(I32, at.DEVICE_CPU),
        const(I32, 0),
        const(I32, _length(shape)),
        const(I8, code),
        const(I8, bits),
        const(I16, dtype.lanes),
        shape_at,
        strides_at,
        b.mul(first, const(I64, dtype.itemsize)),
    )
    for i, value in enumerate(fields):
        b.store(value, b.field(DLTENSOR, tensor, i))
    return tensor


def _length(shape: PrimExpr) -> int:
    return len(shape.args) if isinstance(shape, Call) else 0


def _numbers(frame: FunctionFrame, e: PrimExpr) -> Step[Value]:
    """Store integers in an array and return its address; NULL if there are none."""
    if not isinstance(e, Call) or e.op is not STACK_MAKE_SHAPE:
        raise InternalError("lowered code passes an array of no shape")
    if not e.args:
        return NULL
    t = array(I64, len(e.args))
    place = frame.b.alloca(t, hint="numbers")
    for i, part in enumerate(e.args):
        value: Value = yield frame.value(part)
        b = frame.b
        b.store(cast(b, value, part.dtype, _INT64), b.gep(I64, place, const(I64, i)))
    return place
