"""Buffers in the body of a function: matched, allocated, declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.ir.visit import pre_order
from loomir.script.builder.arguments import as_region, describe
from loomir.script.builder.blocks import SBlockFrame, head_of_block
from loomir.script.builder.buffer_spec import BufferSpec, Extent, ShapeLike
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.frame import Frame, IRBuilder
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.builder.scopes import DeclBufferFrame, LaunchThreadFrame, LetFrame, RestFrame
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from loomir.tir.expr import PrimExpr, Var

__all__ = ["alloc_buffer", "decl_buffer", "local_scalar", "match_buffer"]


def match_buffer(
    param: Var | BufferLoad | BufferRegion | Buffer,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    data: Var | None = None,
    strides: ShapeLike | None = None,
    elem_offset: Extent | None = None,
    scope: str | None = None,
    align: int | None = None,
    offset_factor: int | None = None,
    buffer_type: str | None = None,
    axis_separators: Sequence[int] | None = None,
    type: str | None = None,  # another name of buffer_type
) -> Buffer:
    """Give a parameter the shape of a buffer, or a region of a buffer another name.

    Errors: SCR0018 for what is no parameter and no region, or has a buffer already.
    """
    if shape is None:
        if not isinstance(param, (BufferLoad, BufferRegion)):
            raise mistake(
                "SCR0005",
                "T.match_buffer lacks the shape",
                help='write T.match_buffer(a, (m, n), "float32")',
            )
        shape = [
            r.extent for r in as_region(param, "T.match_buffer").region if r.extent is not None
        ]
    spec = BufferSpec(
        shape,
        "float32" if dtype is None else dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
        type,
    )
    func = _function("T.match_buffer")
    if isinstance(param, Var):
        return _match_parameter(func, param, spec)
    source = as_region(param, "T.match_buffer")
    block = head_of_block("T.match_buffer of a region")
    if dtype is None:
        spec.dtype = source.buffer.dtype
    if scope is None:
        spec.scope = source.buffer.scope
    if align is None:
        spec.align = source.buffer.data_alignment
    buffer = spec.make("", func.shape_names, None)
    block.match_buffers.append(MatchBufferRegion(buffer, source, span=source.span))
    return func.know(buffer)


def _match_parameter(func: PrimFuncFrame, param: Var, spec: BufferSpec) -> Buffer:
    if not any(param is p for p in func.params):
        raise wrong_argument(
            param,
            f"{describe(param)} is no parameter of the function",
            code="SCR0018",
            help="match a parameter annotated with T.handle, or a region such as A[0:4, j]",
        )
    if param in func.buffer_map:
        raise wrong_argument(
            param,
            f"parameter {param.name_hint!r} has a buffer already",
            code="SCR0018",
            help="match each parameter once",
        )
    if not param.dtype.is_handle:
        raise wrong_argument(
            param,
            f"parameter {param.name_hint!r} is {param.dtype}, not a handle",
            code="SCR0018",
            help=f"annotate it as {param.name_hint}: T.handle",
        )
    func.buffer_map[param] = buffer = spec.make("", func.shape_names, None)
    return func.know(buffer)


def _function(what: str) -> PrimFuncFrame:
    return IRBuilder.current().need(PrimFuncFrame, what, "write it in `with T.prim_func():`")


def alloc_buffer(
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    data: Var | None = None,
    strides: ShapeLike | None = None,
    elem_offset: Extent | None = None,
    scope: str = "global",
    align: int | None = None,
    offset_factor: int | None = None,
    buffer_type: str | None = None,
    axis_separators: Sequence[int] | None = None,
) -> Buffer:
    """Allocate a buffer.

    In the body of a block or function it belongs to that; in a loop or branch, to the rest of its
    body.
    """
    builder = IRBuilder.current()
    func = _function("T.alloc_buffer")
    spec = BufferSpec(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
    )
    buffer = func.know(spec.make("", func.shape_names, None))
    home = builder.scope()
    if not isinstance(home, (SBlockFrame, PrimFuncFrame)) or _is_local(builder, home, buffer):
        return builder.open(DeclBufferFrame(buffer, owns=True))
    home.alloc_buffers.append(buffer)
    return buffer


def _is_local(builder: IRBuilder, home: Frame[Any], buffer: Buffer) -> bool:
    """Whether the buffer's shape mentions what frames opened in ``home`` bind."""
    bound: set[int] = set()
    for frame in reversed(builder.frames):
        if frame is home:
            break
        if isinstance(frame, LetFrame):
            bound.add(id(frame.var))
        elif isinstance(frame, LaunchThreadFrame):
            bound.add(id(frame.thread.var))
        elif isinstance(frame, DeclBufferFrame):
            bound.add(id(frame.buffer))
    parts: list[PrimExpr] = [*buffer.shape, *buffer.strides]
    return any(
        id(node.buffer if isinstance(node, BufferLoad) else node) in bound
        for part in parts
        for node in pre_order(part)
    )


def decl_buffer(
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    data: Var | None = None,
    strides: ShapeLike | None = None,
    elem_offset: Extent | None = None,
    scope: str | None = None,
    align: int | None = None,
    offset_factor: int | None = None,
    buffer_type: str | None = None,
    axis_separators: Sequence[int] | None = None,
) -> RestFrame:
    """Declare a buffer on memory that exists; without ``data`` the memory is allocated with it."""
    func = _function("T.decl_buffer")
    spec = BufferSpec(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
    )
    buffer = func.know(spec.make("", func.shape_names, None))
    return DeclBufferFrame(buffer, owns=data is None)


def local_scalar(dtype: DataType) -> Buffer:
    """Make the buffer of one element that a reassigned name stands for (S11)."""
    return BufferSpec((1,), dtype, scope="local").make("", {}, None)
