"""Flatten buffers: each gets one axis, and each access one int64 index."""

from __future__ import annotations

from loomir.arith.fold import INT64
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, DeclBuffer, Stmt
from loomir.transform.tir.views import Layout, is_flat, reach

__all__ = ["flatten_buffer"]


@register(
    "tir.FlattenBuffer",
    requires={"no_blocks", "calls_lowered"},
    establishes={"flat_buffers"},
    breaks={"within_extents"},  # a flat index may exceed the extent of a declared axis
)
def flatten_buffer(func: PrimFunc) -> PrimFunc:
    """Replace indices by one position in the buffer's data: indices times strides, in int64.

    Indices keep their own arithmetic and are extended by their own signedness; only the arithmetic
    that flattening adds is int64. The buffers of parameters stay as declared, since calls are
    checked against them; the body declares a flat buffer on the same data.
    """
    layout = Layout(func)
    flat: dict[int, Buffer] = {}
    used: list[Buffer] = []

    def flatten(buffer: Buffer) -> Buffer:
        if id(buffer) not in flat:
            offset = None if layout.is_parameter(buffer) else buffer.elem_offset
            made = buffer if is_flat(buffer) else _flat(buffer, reach(buffer, offset))
            flat[id(buffer)] = made
            if layout.is_parameter(buffer):
                used.append(buffer)
        return flat[id(buffer)]

    def position(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        if is_flat(buffer) and indices[0].dtype.element is INT64:
            return indices
        return (layout.view(buffer).locate(indices),)

    def load(e: BufferLoad) -> BufferLoad:
        buffer, indices = flatten(e.buffer), position(e.buffer, e.indices)
        if buffer is e.buffer and indices is e.indices:
            return e
        return BufferLoad(buffer, indices, span=e.span)

    def store(s: BufferStore) -> BufferStore:
        buffer, indices = flatten(s.buffer), position(s.buffer, s.indices)
        if buffer is s.buffer and indices is s.indices:
            return s
        return BufferStore(buffer, s.value, indices, span=s.span)

    def declare(s: DeclBuffer) -> DeclBuffer:
        buffer = flatten(s.buffer)
        return s if buffer is s.buffer else DeclBuffer(buffer, s.body, span=s.span)

    body: Stmt = rewrite(func.body, {BufferLoad: load, BufferStore: store, DeclBuffer: declare})
    for buffer in reversed(used):
        if flat[id(buffer)] is not buffer:
            body = DeclBuffer(flat[id(buffer)], body, span=buffer.span)
    if body is func.body:
        return func
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


def _flat(buffer: Buffer, size: PrimExpr) -> Buffer:
    return Buffer(
        buffer.data,
        buffer.dtype,
        (size,),
        name=buffer.name,
        data_alignment=buffer.data_alignment,
        offset_factor=buffer.offset_factor,
        span=buffer.span,
    )
