"""Emit conditions of branches: a bool scalar, or a bool tensor of rank 0."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.types import I1, I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.relax.boxes import unbox
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.unit import dtype_word, word_of
from loomir.relax import faults
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import PrimStructInfo, TensorStructInfo
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.dtype import BOOL
from loomir.support.span import Span

__all__ = ["truth"]


def truth(frame: GraphFrame, value: Value, known: StructInfo, span: Span | None) -> Value:
    """Evaluate a condition, given what is known of it."""
    if isinstance(known, TensorStructInfo):
        return _read_tensor(frame, value, known, span)
    if isinstance(known, PrimStructInfo):
        return _read_scalar(frame, value, known, span)
    b = frame.b
    kind = frame.word(value, at.KIND, I32)
    tensor, other, done = (b.append(n) for n in ("tensor", "other", "known"))
    b.condbr(b.icmp("eq", kind, const(I32, at.TENSOR)), tensor, other)
    b.position_at_end(tensor)
    first = _read_tensor(frame, value, TensorStructInfo(), span)
    first_end = b.block
    b.br(done)
    b.position_at_end(other)
    is_scalar = b.icmp("eq", kind, const(I32, at.PRIM))
    frame.require(is_scalar, faults.bad_condition(span), b.zext(kind, I64))
    second = _read_scalar(frame, value, None, span)
    second_end = b.block
    b.br(done)
    b.position_at_end(done)
    result = b.phi(I1, "condition")
    result.add(first, first_end)
    result.add(second, second_end)
    return result


def _read_tensor(
    frame: GraphFrame, value: Value, known: TensorStructInfo, span: Span | None
) -> Value:
    b = frame.b
    tensor = at.TENSOR_DLTENSOR
    if known.dtype is not BOOL or known.ndim != 0:
        word = frame.word(value, tensor + dl.DLTENSOR_NDIM)
        rank = b.and_(word, const(I64, 0xFFFFFFFF))
        fits = b.icmp("eq", word, const(I64, word_of(BOOL, 0)))
        dtype = frame.dtype_place(b.lshr(word, const(I64, 32)))
        frame.require(fits, faults.bad_condition_tensor(span), dtype, rank)
    data = frame.word(value, tensor + dl.DLTENSOR_DATA, PTR)
    offset = frame.word(value, tensor + dl.DLTENSOR_BYTE_OFFSET)
    return b.icmp("ne", b.load(I8, b.gep(I8, data, offset)), const(I8, 0))


def _read_scalar(
    frame: GraphFrame, value: Value, known: PrimStructInfo | None, span: Span | None
) -> Value:
    b = frame.b
    if known is None or known.dtype is not BOOL:
        word = frame.word(value, at.DTYPE_WORD)
        fits = b.icmp("eq", word, const(I64, dtype_word(BOOL)))
        dtype = frame.dtype_place(word)
        frame.require(fits, faults.bad_condition_tensor(span, scalar=True), dtype, const(I64, 0))
    return unbox(frame, value, BOOL)
