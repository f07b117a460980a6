"""Remove blocks; what they allocate becomes allocations."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Max, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Allocate, BlockRealize, BufferRealize, DeclBuffer, Stmt
from loomir.tir.types import PointerType, PrimType
from loomir.transform.tir.index_math import add, imm64, int64, mul, product, sub

__all__ = ["allocation", "lower_opaque_block"]


def _extents(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Give the extents of memory that holds a buffer, its gaps included."""
    offset = buffer.elem_offset
    if not buffer.strides and offset is None:
        return buffer.shape or (imm64(1),)
    if buffer.strides:
        last: PrimExpr = imm64(1)
        for extent, stride in zip(buffer.shape, buffer.strides):
            last = add(last, mul(sub(int64(extent), imm64(1)), int64(stride)))
        total: PrimExpr = Max(last, imm64(0))
    else:
        total = product(buffer.shape)
    return (total if offset is None else add(total, int64(offset)),)


def allocation(buffer: Buffer, body: Stmt) -> Stmt:
    """Run ``body`` with fresh memory for ``buffer``."""
    held = buffer.data.type_annotation
    assert isinstance(held, PointerType)
    assert isinstance(held.element_type, PrimType)
    declared = DeclBuffer(buffer, body, span=buffer.span)
    dtype = held.element_type.dtype
    return Allocate(buffer.data, dtype, _extents(buffer), TRUE, declared, span=buffer.span)


@register(
    "tir.LowerOpaqueBlock",
    requires={"opaque_blocks", "no_match_buffers"},
    establishes={"no_blocks"},
)
def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """Put the body of each block in its place, within allocations of its buffers.

    ``BufferRealize`` becomes an allocation of the buffer's whole shape. Source: decision T31.
    """

    def lower(realize: BlockRealize) -> Stmt:
        body = realize.block.body
        for buffer in reversed(realize.block.alloc_buffers):
            body = allocation(buffer, body)
        return body

    def allocate(realize: BufferRealize) -> Stmt:
        return allocation(realize.buffer, realize.body)

    return rewrite(func, {BlockRealize: lower, BufferRealize: allocate})
