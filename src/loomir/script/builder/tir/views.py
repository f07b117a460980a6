"""Views of whole buffers, such as ``A.view(8, -1)`` and ``A.view("int32")``, and offset views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from loomir.script.builder.arguments import as_dtype, as_expr
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import wrong_argument
from loomir.script.builder.tir.blocks import SBlockFrame
from loomir.script.builder.tir.buffers import decl_buffer
from loomir.script.builder.tir.scopes import RestFrame
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.expr import ExprLike, IntImm, PrimExpr

__all__ = ["offset_of_view", "view_of"]


def offset_of_view(buffer: Buffer) -> PrimExpr | None:
    """Return how many elements of its data lie before a view of a region; None for no such view."""
    builder = IRBuilder.active()
    frames = [] if builder is None else builder.frames
    sources = {
        id(match.buffer): match.source
        for frame in frames
        if isinstance(frame, SBlockFrame)
        for match in frame.match_buffers
    }
    source = sources.get(id(buffer))
    if source is None:
        return None
    offset: PrimExpr = IntImm(0, DataType("int32"))
    while source is not None:
        within = source.buffer
        for axis, part in enumerate(source.region):
            step: PrimExpr = IntImm(1, DataType("int32"))
            for extent in within.shape[axis + 1 :]:
                step = step * extent
            offset = offset + part.min * (within.strides[axis] if within.strides else step)
        source = sources.get(id(within))
        if source is None and within.elem_offset is not None and not _is_parameter(within, frames):
            offset = offset + within.elem_offset
    return offset


def _is_parameter(buffer: Buffer, frames: Sequence[object]) -> bool:
    """Whether the caller passes the buffer: its data begin where its elements do."""
    found = [frame for frame in frames if isinstance(frame, PrimFuncFrame)]
    return any(buffer is given for frame in found for given in frame.buffer_map.values())


def view_of(buffer: Buffer, shape: tuple[Any, ...]) -> RestFrame:
    """Declare another shape, or another dtype, for all of the memory of a buffer without gaps.

    One extent may be -1, for what the others leave. Errors: SCR0005.
    """
    if buffer.strides:
        raise wrong_argument(
            buffer,
            f"buffer {buffer.name!r} has strides, and no other shape has the same elements",
            help="write T.decl_buffer(shape, dtype, data=A.data, strides=…)",
        )
    dtype, offset = buffer.dtype, buffer.elem_offset
    if len(shape) == 1 and isinstance(shape[0], (str, DataType)):
        dtype = as_dtype(shape[0])
        wanted = _recast(buffer, dtype)
        offset = None if offset is None else _scale(offset, buffer.dtype, dtype)
    else:
        wanted = _infer(buffer, [as_expr(extent, "an extent") for extent in shape])
    return decl_buffer(wanted, dtype, data=buffer.data, elem_offset=offset, scope=buffer.scope)


def _recast(buffer: Buffer, dtype: DataType) -> list[ExprLike]:
    """Return the shape of the same memory as elements of another dtype."""
    if not buffer.shape:
        raise wrong_argument(
            dtype, "a buffer of one element has no axis to change", help="use T.reinterpret"
        )
    last = buffer.shape[-1]
    if isinstance(last, IntImm) and last.value * buffer.dtype.itemsize % dtype.itemsize:
        raise wrong_argument(
            dtype,
            f"{last.value} elements of {buffer.dtype} are no whole number of {dtype}",
            help="view it as a narrower dtype, or by another shape first",
        )
    return [*buffer.shape[:-1], _scale(last, buffer.dtype, dtype)]


def _scale(count: PrimExpr, old: DataType, new: DataType) -> PrimExpr:
    """Return a number of elements as one of elements of another dtype."""
    if isinstance(count, IntImm):
        return IntImm(count.value * old.itemsize // new.itemsize, count.dtype)
    return count * old.itemsize // new.itemsize


def _infer(buffer: Buffer, shape: list[PrimExpr]) -> list[ExprLike]:
    """Fill in the extent that is -1, and hold the count of elements to that of the buffer."""
    rest = [e.value for e in shape if isinstance(e, IntImm) and e.value != -1]
    free = [k for k, e in enumerate(shape) if isinstance(e, IntImm) and e.value == -1]
    if len(rest) + len(free) < len(shape) or any(not isinstance(e, IntImm) for e in buffer.shape):
        if free:
            raise wrong_argument(
                shape[free[0]], "the extent -1 stands for no constant", help="write the extent"
            )
        return list(shape)  # what is symbolic is not known to differ
    total, known = prod(e.value for e in buffer.shape if isinstance(e, IntImm)), prod(rest)
    if len(free) > 1 or (total != known and (not free or not known or total % known)):
        shown = ", ".join(str(e.value) for e in shape if isinstance(e, IntImm))
        raise wrong_argument(
            shape,
            f"({shown}) is not a shape of the {total} elements of {buffer.name!r}",
            help="give extents whose product is that number; one may be -1",
        )
    for k in free:
        shape[k] = IntImm(total // known, shape[k].dtype)
    return list(shape)
