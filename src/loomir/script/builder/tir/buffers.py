"""Buffers in the body of a function: matched, allocated, declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from loomir.ir.visit import pre_order
from loomir.script.builder.arguments import as_annotations, as_region, describe
from loomir.script.builder.buffer_spec import BufferSpec, Extent, ShapeLike
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.frame import Frame, IRBuilder
from loomir.script.builder.function import PrimFuncFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.script.builder.tir.blocks import SBlockFrame, head_of_block
from loomir.script.builder.tir.scopes import DeclBufferFrame, LaunchThreadFrame, LetFrame, RestFrame
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from loomir.tir.expr import ExprLike, PrimExpr, Var

__all__ = [
    "alloc_buffer",
    "alloc_local",
    "alloc_shared",
    "decl_buffer",
    "local_scalar",
    "match_buffer",
]

_Spec = ParamSpec("_Spec")
_Param = TypeVar("_Param")
_Made = TypeVar("_Made")
_Described = TypeVar("_Described", bound=BufferSpec)


# What describes a buffer is listed once, by BufferSpec: these functions take its arguments.
def _describe_with(
    like: Callable[_Spec, _Described],
) -> Callable[[Callable[[_Described], _Made]], Callable[_Spec, _Made]]:
    def wrap_constructor(make: Callable[[_Described], _Made]) -> Callable[_Spec, _Made]:
        @functools.wraps(make)
        def make_described(*args: _Spec.args, **keywords: _Spec.kwargs) -> _Made:
            return make(like(*args, **keywords))

        cast("Any", make_described).__signature__ = inspect.signature(like)
        return make_described

    return wrap_constructor


def _describe_after_param(
    like: Callable[_Spec, BufferSpec],
) -> Callable[[Callable[[_Param, BufferSpec], _Made]], Callable[Concatenate[_Param, _Spec], _Made]]:
    def wrap_constructor(
        make: Callable[[_Param, BufferSpec], _Made],
    ) -> Callable[Concatenate[_Param, _Spec], _Made]:
        @functools.wraps(make)
        def make_described(param: _Param, *args: _Spec.args, **keywords: _Spec.kwargs) -> _Made:
            return make(param, like(*args, **keywords))

        first = inspect.signature(make).parameters["param"]
        known = inspect.signature(like)
        parts = [first, *known.parameters.values()]
        cast("Any", make_described).__signature__ = known.replace(parameters=parts)
        return make_described

    return wrap_constructor


@_describe_after_param(BufferSpec)
def match_buffer(param: Var | BufferLoad | BufferRegion | Buffer, spec: BufferSpec) -> Buffer:
    """Return a parameter the shape of a buffer, or a region of a buffer another name.

    Errors: SCR0018 for what is not a parameter and no region, or has a buffer already.
    """
    if spec.shape is None:
        if not isinstance(param, (BufferLoad, BufferRegion)):
            raise mistake(
                "SCR0005",
                "T.match_buffer lacks the shape",
                help='write T.match_buffer(a, (m, n), "float32")',
            )
        spec.shape = [
            r.extent for r in as_region(param, "T.match_buffer").region if r.extent is not None
        ]
    func = _function("T.match_buffer")
    if isinstance(param, Var):
        return _match_parameter(func, param, spec)
    source = as_region(param, "T.match_buffer")
    block = head_of_block("T.match_buffer of a region")
    if spec.dtype is None:
        spec.dtype = source.buffer.dtype
    if spec.scope is None:
        spec.scope = source.buffer.scope
    if spec.align is None:
        spec.align = source.buffer.data_alignment
    buffer = spec.make("", func.shape_names, None)
    block.match_buffers.append(MatchBufferRegion(buffer, source, span=source.span))
    return func.know(buffer)


def _match_parameter(func: PrimFuncFrame, param: Var, spec: BufferSpec) -> Buffer:
    if not any(param is p for p in func.params):
        raise wrong_argument(
            param,
            f"{describe(param)} is not a parameter of the function",
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


class AllocSpec(BufferSpec):
    """What is allocated: a buffer, and notes for the compiler."""

    def __init__(
        self,
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
        type: str | None = None,
        byte_offset: ExprLike | None = None,
        layout: object = None,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        given = (shape, dtype, data, strides, elem_offset, scope, align, offset_factor)
        more = (buffer_type, axis_separators, type, byte_offset, layout)
        super().__init__(*given, *more)
        self.annotations = annotations


@_describe_with(AllocSpec)
def alloc_buffer(spec: AllocSpec) -> Buffer:
    """Allocate a buffer.

    In the body of a block or function it belongs to that; in a loop or branch, or with
    ``annotations``, to the rest of its body.
    """
    return _allocate(spec, spec.annotations)


def _allocate(spec: BufferSpec, annotations: Mapping[str, Any] | None) -> Buffer:
    builder = IRBuilder.current()
    func = _function("T.alloc_buffer")
    buffer = func.know(spec.make("", func.shape_names, None))
    home = builder.scope()
    notes = {} if annotations is None else as_annotations(annotations, "annotations")
    in_place = not isinstance(home, (SBlockFrame, PrimFuncFrame))
    if in_place or notes or _is_local(builder, home, buffer):
        return builder.open(DeclBufferFrame(buffer, True, notes))
    home.alloc_buffers.append(buffer)
    return buffer


@_describe_with(BufferSpec)
def alloc_shared(spec: BufferSpec) -> Buffer:
    """Allocate a buffer of scope "shared"."""
    return _allocate(_set_scope(spec, "shared"), None)


@_describe_with(BufferSpec)
def alloc_local(spec: BufferSpec) -> Buffer:
    """Allocate a buffer of scope "local"."""
    return _allocate(_set_scope(spec, "local"), None)


def _set_scope(spec: BufferSpec, scope: str) -> BufferSpec:
    if spec.scope not in (None, scope):
        raise wrong_argument(
            spec.scope, f"the scope is {scope!r} already", help="use T.alloc_buffer for another"
        )
    spec.scope = scope
    return spec


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


@_describe_with(BufferSpec)
def decl_buffer(spec: BufferSpec) -> RestFrame:
    """Declare a buffer on memory that exists; without ``data`` the memory is allocated with it."""
    func = _function("T.decl_buffer")
    buffer = func.know(spec.make("", func.shape_names, None))
    return DeclBufferFrame(buffer, owns=spec.data is None)


def local_scalar(dtype: DataType) -> Buffer:
    """Make the buffer of one element that a reassigned name stands for (S11)."""
    return BufferSpec((1,), dtype, scope="local").make("", {}, None)
