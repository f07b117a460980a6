"""Semantics of statements that allocate memory or name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.interp.machine import Code, Environment
from loomir.interp.memory import View, allocate, row_major, view_at
from loomir.interp.scope import Scope
from loomir.interp.tir.writer import Label, Writer
from loomir.interp.values import Pointer
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import Allocate, BufferRealize, DeclBuffer

__all__ = ["allocate_buffer", "write_allocate", "write_buffer_realize", "write_decl_buffer"]


def _allocate(
    buffer: Buffer, shape: Sequence[int], strides: Sequence[int], offset: int, scope: Scope
) -> View:
    """Allocate memory for a buffer."""
    size: Sequence[int] = shape
    if strides or offset:
        steps = strides or row_major(shape)
        reach = sum((e - 1) * s for e, s in zip(shape, steps, strict=True)) + 1 if all(shape) else 0
        size = (offset + reach,)
    memory = allocate(buffer.dtype, size, buffer.name, buffer.span, scope.trackers is not None)
    pointer = Pointer(memory, 0)
    return view_at(pointer, buffer.dtype, shape, strides, offset, buffer.name, scope.trackers)


def _numbers(buffer: Buffer, w: Writer) -> list[Code]:
    """Compile a buffer's shape, strides and offset, in this order."""
    offset = [] if buffer.elem_offset is None else [buffer.elem_offset]
    return w.exprs([*buffer.shape, *buffer.strides, *offset])


def _split(buffer: Buffer, values: Sequence[int]) -> tuple[Sequence[int], Sequence[int], int]:
    rank, last = len(buffer.shape), len(buffer.shape) + len(buffer.strides)
    return values[:rank], values[rank:last], values[last] if len(values) > last else 0


def allocate_buffer(buffer: Buffer, w: Writer) -> None:
    """Add the allocation of a buffer of a block."""
    scope = w.scope
    operands = _numbers(buffer, w)
    data, slot = scope.bind(buffer.data), scope.bind(buffer)

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            env[slot] = view = _allocate(buffer, *_split(buffer, values), scope)
            env[data] = Pointer(view.memory, 0)
            return after

        return make

    w.add(operands, maker)


def write_allocate(node: Allocate, w: Writer) -> None:
    """Allocate, and run the body; if the condition is false, the body does not run (T30)."""
    end, scope, span = Label(), w.scope, node.span
    w.branch(w.expr(node.condition), end)
    operands = w.exprs(node.extents)
    slot = scope.bind(node.buffer_var)
    name, dtype = node.buffer_var.name_hint, node.dtype

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *extents: int) -> int:
            memory = allocate(dtype, extents, name, span, scope.trackers is not None)
            env[slot] = Pointer(memory, 0)
            return after

        return make

    w.add(operands, maker)
    w.schedule(node.body, w.place(end), w.unbind(node.buffer_var))


def write_decl_buffer(node: DeclBuffer, w: Writer) -> None:
    """View existing memory in the shape of a buffer; its ``elem_offset`` counts from the data."""
    buffer, scope = node.buffer, w.scope
    operands = _numbers(buffer, w)
    pointer = scope.slot(buffer.data, node.span)
    slot = scope.bind(buffer)

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            shape, strides, offset = _split(buffer, values)
            env[slot] = view_at(
                env[pointer],
                buffer.dtype,
                shape,
                strides,
                offset,
                buffer.name,
                scope.trackers,
                scope.flat,
            )
            return after

        return make

    w.add(operands, maker)
    w.schedule(node.body, w.unbind(buffer))


def write_buffer_realize(node: BufferRealize, w: Writer) -> None:
    """Allocate the buffer, and bind free names in its shape, strides and offset."""
    buffer = node.buffer
    fresh: list[Var] = []

    def bind(part: PrimExpr | None, value: Callable[[], Code]) -> None:
        if isinstance(part, Var) and not w.scope.knows(part):
            code = value()
            w.set(w.scope.bind(part), code)
            fresh.append(part)

    # The bounds are hints (T31); there may be fewer of them if they bind no name.
    for extent, bound in zip(buffer.shape, node.bounds, strict=False):
        wanted = IntImm(1, extent.dtype) if bound.extent is None else bound.extent
        bind(extent, lambda e=wanted: w.expr(e))
    for axis, stride in enumerate(buffer.strides):
        inner = w.exprs(buffer.shape[axis + 1 :])
        bind(stride, lambda rest=inner: _product(rest))
    bind(buffer.elem_offset, lambda: Code(lambda env: 0))
    allocate_buffer(buffer, w)
    w.schedule(node.body, w.unbind(buffer), w.unbind(buffer.data), *[w.unbind(v) for v in fresh])


def _product(factors: list[Code]) -> Code:
    def multiply(env: Environment) -> int:
        total = 1
        for factor in factors:
            total *= factor.run(env)
        return total

    return Code(multiply)
