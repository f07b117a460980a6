"""Lower all address builtins to one: a pointer plus a number of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.arith.fold import imm64, int64, mul
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.support.dtype import HANDLE
from loomir.support.span import Span
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import (
    ADDRESS_OF,
    HANDLE_ADD_BYTE_OFFSET,
    PTR_BYTE_OFFSET,
    TVM_ACCESS_PTR,
)
from loomir.tir.expr import Call, IntImm, PrimExpr
from loomir.tir.function import PrimFunc

__all__ = ["lower_tvm_builtin"]


def _advance(pointer: PrimExpr, count: PrimExpr, size: int, span: Span | None) -> PrimExpr:
    offset = mul(int64(count), imm64(size))
    if isinstance(offset, IntImm) and offset.value == 0:
        return pointer
    return Call(HANDLE, HANDLE_ADD_BYTE_OFFSET, (pointer, offset), span=span)


def _address_of(call: Call) -> PrimExpr:
    element = call.args[0]
    assert isinstance(element, BufferLoad)
    buffer, (index,) = element.buffer, element.indices
    return _advance(buffer.data, index, buffer.dtype.itemsize, call.span)


def _access_ptr(call: Call) -> PrimExpr:
    kind, data, offset = call.args[:3]
    return _advance(data, offset, kind.dtype.itemsize, call.span)


def _byte_offset(call: Call) -> PrimExpr:
    return _advance(call.args[0], call.args[1], 1, call.span)


_RULES: Final[dict[Op, Callable[[Call], PrimExpr]]] = {
    ADDRESS_OF: _address_of,
    TVM_ACCESS_PTR: _access_ptr,
    PTR_BYTE_OFFSET: _byte_offset,
}


@register("tir.LowerTVMBuiltin", requires={"flat_buffers"}, establishes={"plain_addresses"})
def lower_tvm_builtin(func: PrimFunc) -> PrimFunc:
    """Replace every address by a pointer plus a number of bytes.

    Afterwards the pointer of a buffer whose address is taken occurs as a variable, so that other
    passes know that the buffer may be accessed through it.
    """

    def lower(call: Call) -> Node:
        rule = _RULES.get(call.op) if isinstance(call.op, Op) else None
        return call if rule is None else rule(call)

    return rewrite(func, {Call: lower})
