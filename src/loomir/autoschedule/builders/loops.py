"""Build loops, stores and scratch buffers: the shorthand in which rules write code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from loomir.arith.fold import imm
from loomir.ir.node import Node
from loomir.ir.visit import by_class, nodes_outside, rebuild, rewrite
from loomir.loops.accesses import loads_and_stores
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import (
    PREFETCH_DISTANCE,
    STEPS_AT_ONCE,
    TRUE,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    Stmt,
    seq,
)

__all__ = [
    "INDEX",
    "allocate",
    "declare_views",
    "disable_outer_unrolling",
    "loop",
    "loop_rolled",
    "parallel",
    "scratch",
    "unroll",
    "vectorize",
    "with_shape",
]

INDEX = DataType("int64")
"""The dtype of the loops that schedules make: products of extents fit."""


def _loop(
    name: str,
    extent: PrimExpr | int,
    kind: ForKind,
    body: Callable[[Var], Stmt],
    notes: Mapping[str, PrimExpr] = MappingProxyType({}),
) -> Stmt:
    size = imm(extent, INDEX) if isinstance(extent, int) else extent
    if isinstance(size, IntImm) and size.value == 1 and kind is not ForKind.VECTORIZED:
        kind = ForKind.SERIAL
    var = Var(name, INDEX)
    return For(var, imm(0, INDEX), size, kind, body(var), None, dict(notes))


def loop(
    name: str,
    extent: PrimExpr | int,
    body: Callable[[Var], Stmt],
    *,
    at_once: int = 1,
    ahead: int = 0,
) -> Stmt:
    """Run ``body`` for each value in order; LLVM unrolls the loop by ``at_once``.

    What lies so many elements ``ahead`` is brought into the caches besides.
    """
    notes = {STEPS_AT_ONCE: imm(at_once, INDEX)} if at_once > 1 else {}
    if ahead:
        notes[PREFETCH_DISTANCE] = imm(ahead, INDEX)
    return _loop(name, extent, ForKind.SERIAL, body, notes)


def loop_rolled(name: str, extent: PrimExpr | int, body: Callable[[Var], Stmt]) -> Stmt:
    """Run ``body`` for each value in order, in a loop that LLVM must not unroll."""
    notes = {STEPS_AT_ONCE: imm(1, INDEX)}
    return _loop(name, extent, ForKind.SERIAL, body, notes)


def disable_outer_unrolling(stmt: Stmt) -> Stmt:
    """Forbid LLVM to unroll loops that contain loops.

    Its unroller examines each of them, and unrolled code costs later passes more: convolutions took
    a quarter longer to compile and ran no faster. Innermost loops may gain, and are left to it.
    """

    def note(loop: For) -> For:
        if not _steps(loop) or STEPS_AT_ONCE in loop.annotations:
            return loop
        if not any(map(_steps, nodes_outside(loop.body, PrimExpr))):
            return loop
        notes = {**loop.annotations, STEPS_AT_ONCE: imm(1, INDEX)}
        return rebuild(loop, {"annotations": notes})

    return rewrite(stmt, {For: note})


def _steps(node: Node) -> bool:
    if not isinstance(node, For) or node.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
        return False
    return not (isinstance(node.extent, IntImm) and node.extent.value <= 1)


def parallel(name: str, extent: PrimExpr | int, body: Callable[[Var], Stmt]) -> Stmt:
    """Run ``body`` for each value, shared between threads."""
    return _loop(name, extent, ForKind.PARALLEL, body)


def vectorize(name: str, extent: int, body: Callable[[Var], Stmt]) -> Stmt:
    """Run ``body`` on all values at once."""
    return _loop(name, extent, ForKind.VECTORIZED, body)


def unroll(name: str, extent: int, body: Callable[[Var], Stmt]) -> Stmt:
    """Write ``body`` out for each value."""
    return _loop(name, extent, ForKind.UNROLLED, body)


def scratch(
    name: str, shape: Sequence[PrimExpr | int], dtype: DataType, scope: str = "global"
) -> Buffer:
    """Make a buffer for use inside of a kernel; ``allocated`` gives it memory."""
    return decl_buffer(tuple(shape), dtype, name, scope=scope)


def with_shape(buffer: Buffer, shape: Sequence[PrimExpr]) -> Buffer:
    """Make a view of a buffer without strides in another shape."""
    return decl_buffer(
        tuple(shape),
        buffer.dtype,
        buffer.name,
        data=buffer.data,
        elem_offset=buffer.elem_offset,
        scope=buffer.scope,
        data_alignment=buffer.data_alignment,
    )


def allocate(buffers: Iterable[Buffer], *body: Stmt, name: str = "scratch") -> Stmt:
    """Run ``body`` with fresh memory for ``buffers``."""
    block = Block((), (), (), name, seq(body), None, tuple(buffers))
    return BlockRealize((), TRUE, block)


def declare_views(views: Iterable[Buffer], stmt: Stmt) -> Stmt:
    """Declare those of ``views`` that a statement uses around it, the first outermost."""
    used = {access.buffer for access in loads_and_stores(by_class(stmt))}
    for view in reversed([view for view in views if view in used]):
        stmt = DeclBuffer(view, stmt)
    return stmt
