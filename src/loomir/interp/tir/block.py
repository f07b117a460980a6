"""Semantics of blocks: when they run, what they allocate, and their names for regions."""

from __future__ import annotations

from collections.abc import Callable

from loomir.interp.machine import Code, Environment
from loomir.interp.memory import View, region_of
from loomir.interp.tir.expr import find_view
from loomir.interp.tir.storage import allocate_buffer
from loomir.interp.tir.writer import Label, Maker, Task, Writer
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, IterVar, IterVarType, MatchBufferRegion
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.faults import fault
from loomir.tir.stmt import Block, BlockRealize

__all__ = ["write_block", "write_block_realize"]


def write_block_realize(node: BlockRealize, w: Writer) -> None:
    """If the predicate holds, bind the iterators and run the block (T2)."""
    block, end = node.block, Label()
    w.branch(w.expr(node.predicate), end)
    values = w.exprs(node.values)
    for it, value in zip(block.iter_vars, values, strict=True):
        w.set(w.scope.bind(it.var), value)
    w.schedule(block, w.place(end), *[w.unbind(it.var) for it in block.iter_vars])


def write_block(node: Block, w: Writer) -> None:
    """Allocate buffers, bind aliases, run ``init`` if a reduction starts (T1), and the body."""
    bound: list[Var | Buffer] = []
    for buffer in node.alloc_buffers:
        allocate_buffer(buffer, w)
        bound += [buffer, buffer.data]
    for match in node.match_buffers:
        bound += _match(match, w)
    tasks: list[Task] = [node.body, *[w.unbind(name) for name in bound]]
    if node.init is not None:
        skip = Label()
        reduced = [it for it in node.iter_vars if it.iter_type is IterVarType.COMM_REDUCE]
        w.add(*_skip_unless_first(reduced, skip, w))
        tasks[:0] = [node.init, w.place(skip)]
    w.schedule(*tasks)


def _skip_unless_first(reduced: list[IterVar], skip: Label, w: Writer) -> tuple[list[Code], Maker]:
    """Go on if every reducing iterator is at its start, else skip."""
    slots: list[int] = []
    starts: list[Code] = []
    for it in reduced:
        if it.dom is not None:
            slots.append(w.scope.slot(it.var))
            starts.append(w.expr(it.dom.min))

    def maker(after: int) -> Callable[..., int]:
        def test(env: Environment, *least: int) -> int:
            for slot, start in zip(slots, least, strict=True):
                if env[slot] != start:
                    return skip.number
            return after

        return test

    return starts, maker


def _match(node: MatchBufferRegion, w: Writer) -> list[Var | Buffer]:
    """Bind a buffer as the alias of a region; return the names that this binds."""
    buffer, region = node.buffer, node.source.region
    source = find_view(node.source.buffer, w.scope, node.span)
    dtype = DataType("int64")
    mins = w.exprs([r.min for r in region])
    extents = w.exprs([IntImm(1, dtype) if r.extent is None else r.extent for r in region])
    data, slot = w.scope.bind(buffer.data), w.scope.bind(buffer)
    rank, span = len(buffer.shape), node.span

    def maker(after: int) -> Callable[..., int]:
        def make(env: Environment, *values: int) -> int:
            count = len(region)
            lengths = values[count:]
            if any(e != 1 for e in lengths[: count - rank]):
                odd = next(e for e in lengths[: count - rank] if e != 1)
                raise fault("match_axis", span, buffer=buffer.name).error((odd,))
            env[slot] = view = region_of(source(env), values[:count], lengths, rank, buffer.name)
            env[data] = view.pointer
            return after

        return make

    w.add([*mins, *extents], maker)
    bound: list[Var | Buffer] = [buffer, buffer.data]
    facts: list[tuple[PrimExpr, Callable[[View], int], str]] = []
    for axis, extent in enumerate(buffer.shape):
        facts.append((extent, lambda v, a=axis: v.axes[a].extent, f"the extent of axis {axis}"))
    for axis, stride in enumerate(buffer.strides):
        facts.append((stride, lambda v, a=axis: v.axes[a].stride, f"the stride of axis {axis}"))
    if buffer.elem_offset is not None and not isinstance(buffer.elem_offset, IntImm):
        facts.append((buffer.elem_offset, lambda v: v.offset, "the offset"))
    # Names first, then expressions of them.
    for value, actual, _ in facts:
        if isinstance(value, Var) and not w.scope.knows(value):
            view = Code(lambda env, a=actual: a(env[slot]))
            w.set(w.scope.bind(value), view)
            bound.append(value)
    for value, actual, what in facts:
        w.add((w.expr(value),), _agreement(buffer, slot, actual, what, span))
    return bound


def _agreement(
    buffer: Buffer, slot: int, actual: Callable[[View], int], what: str, span: Span | None
) -> Maker:
    def maker(after: int) -> Callable[..., int]:
        def check(env: Environment, wanted: int) -> int:
            found = actual(env[slot])
            if found != wanted:
                differs = fault("match", span, buffer=buffer.name, what=what)
                raise differs.error((wanted, found))
            return after

        return check

    return maker
