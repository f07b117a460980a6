"""Remove blocks; their buffers become allocations."""

from __future__ import annotations

from loomir.arith.fold import imm64
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var, cast
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    BlockRealize,
    BufferRealize,
    DeclBuffer,
    LetStmt,
    Stmt,
)
from loomir.tir.types import PointerType, PrimType
from loomir.transform.tir.views import compact_strides, list_bound, reach

__all__ = ["allocation", "extents_of", "lower_opaque_block"]


def extents_of(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the extents of the memory of a buffer, including gaps from strides."""
    if buffer.strides or buffer.elem_offset is not None:
        return (reach(buffer, buffer.elem_offset),)
    return buffer.shape or (imm64(1),)


def allocation(buffer: Buffer, body: Stmt) -> Stmt:
    """Run ``body`` with fresh memory for ``buffer``."""
    pointer = buffer.data.type_annotation
    assert isinstance(pointer, PointerType)
    assert isinstance(pointer.element_type, PrimType)
    declared = DeclBuffer(buffer, body, span=buffer.span)
    dtype = pointer.element_type.dtype
    return Allocate(buffer.data, dtype, extents_of(buffer), TRUE, declared, span=buffer.span)


def _fresh_names(realize: BufferRealize, bound: set[int]) -> list[tuple[Var, PrimExpr]]:
    """Bind the names that a realised buffer introduces: extents, row-major strides, offset 0."""
    buffer = realize.buffer
    found: list[tuple[Var, PrimExpr]] = []
    rows: list[tuple[PrimExpr | None, PrimExpr | None]] = [
        (e, r.extent) for e, r in zip(buffer.shape, realize.bounds)
    ]
    rows += zip(buffer.strides, compact_strides(buffer.shape))
    rows.append((buffer.elem_offset, imm64(0)))
    for part, value in rows:
        if isinstance(part, Var) and id(part) not in bound:
            bound.add(id(part))
            found.append((part, imm64(1) if value is None else value))
    return found


@register(
    "tir.LowerOpaqueBlock",
    requires={"opaque_blocks", "no_match_buffers"},
    establishes={"no_blocks"},
)
def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """Replace each block by its body, inside allocations of its buffers.

    ``BufferRealize`` becomes an allocation of the buffer's whole shape. Source: decision T31.
    """

    def lower(realize: BlockRealize) -> Stmt:
        body = realize.block.body
        for buffer in reversed(realize.block.alloc_buffers):
            body = allocation(buffer, body)
        return body

    bound: set[int] = set()

    def allocate(realize: BufferRealize) -> Stmt:
        made = allocation(realize.buffer, realize.body)
        if not bound:
            bound.update(list_bound(func))
        for var, value in reversed(_fresh_names(realize, bound)):
            made = LetStmt(var, cast(value, var.dtype), made, span=realize.span)
        return made

    return rewrite(func, {BlockRealize: lower, BufferRealize: allocate})
