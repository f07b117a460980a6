"""Split kernels into loop nests, and find nests that compute each element independently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import by_class, pre_order
from loomir.loops.nests import is_serial
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType
from loomir.tir.expr import Cast, IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["Elements", "elements_of", "leaf_blocks", "parts_of", "size_analyzer"]


class Elements(NamedTuple):
    """A nest that stores ``buffer[iters] = value`` for all elements, each once."""

    buffer: Buffer
    iters: tuple[Var | None, ...]
    """The iterator of each axis; None for an axis of extent 1 that has none."""
    value: PrimExpr
    block: Block

    def bind_iterators(self, indices: tuple[PrimExpr, ...]) -> dict[Var, PrimExpr]:
        """Return the values of the iterators for an element."""
        found: dict[Var, PrimExpr] = {}
        for it, index in zip(self.iters, indices):
            if it is None:
                continue
            if it.dtype is index.dtype:
                found[it] = index
            elif isinstance(index, IntImm):
                found[it] = IntImm(index.value, it.dtype)
            else:
                found[it] = Cast(index, it.dtype)
        return found


def parts_of(func: PrimFunc) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """Return the buffers that a function's root block allocates, and its statements in order."""
    body = func.body
    allocated: tuple[Buffer, ...] = ()
    if isinstance(body, BlockRealize):
        block = body.block
        if not block.iter_vars and not block.match_buffers and block.init is None:
            allocated, body = block.alloc_buffers, block.body
    return allocated, body.seq if isinstance(body, SeqStmt) else (body,)


def size_analyzer(buffers: Iterator[Buffer]) -> Analyzer:
    """Make an analyzer that knows that extents are not negative."""
    made = Analyzer()
    seen: set[Var] = set()
    for buffer in buffers:
        for extent in buffer.shape:
            for part in pre_order(extent):
                if isinstance(part, Var) and part not in seen:
                    seen.add(part)
                    made.assume_size(part)
    return made


def leaf_blocks(stmt: Stmt) -> list[Block]:
    """List the blocks that contain no other block."""
    blocks: list[Block] = by_class(stmt).get(Block, [])
    return [b for b in blocks if Block not in by_class(b.body)]


def elements_of(stmt: Stmt, analyzer: Analyzer, *, with_names: bool = False) -> Elements | None:
    """Read a nest whose block computes each element of one buffer independently, else None.

    ``with_names``: the block may bind parts of the value to names first.
    """
    loops: dict[Var, PrimExpr] = {}
    while isinstance(stmt, For):
        plain = is_serial(stmt)
        if not plain or not isinstance(stmt.min, IntImm) or stmt.min.value != 0:
            return None
        loops[stmt.loop_var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        return None
    predicate, block = stmt.predicate, stmt.block
    if not isinstance(predicate, IntImm) or predicate.value != 1 or not _is_plain(block):
        return None
    extents = _extents(stmt, loops)
    store = block.body
    while with_names and isinstance(store, LetStmt):
        store = store.body
    if extents is None or not isinstance(store, BufferStore):
        return None
    iters = _iterators(store, extents, analyzer)
    loads: list[BufferLoad] = by_class(store.value).get(BufferLoad, [])
    if iters is None or any(load.buffer is store.buffer for load in loads):
        return None
    return Elements(store.buffer, iters, store.value, block)


def _is_plain(block: Block) -> bool:
    if block.init is not None or block.alloc_buffers or block.match_buffers or block.annotations:
        return False
    return all(it.iter_type is IterVarType.DATA_PAR for it in block.iter_vars)


def _extents(realize: BlockRealize, loops: dict[Var, PrimExpr]) -> dict[Var, PrimExpr] | None:
    """Return the extent of each iterator, if each is bound to its own loop; else None."""
    found: dict[Var, PrimExpr] = {}
    left = dict(loops)
    for it, value in zip(realize.block.iter_vars, realize.values):
        if not isinstance(value, Var) or value not in left:
            return None
        found[it.var] = left.pop(value)
    return None if left else found


def _iterators(
    store: BufferStore, extents: dict[Var, PrimExpr], analyzer: Analyzer
) -> tuple[Var | None, ...] | None:
    """Return the iterator of each axis, if they cover each element of the buffer once."""
    left = dict(extents)
    found: list[Var | None] = []
    for index, extent in zip(store.indices, store.buffer.shape):
        if isinstance(index, Var) and index in left:
            if not analyzer.can_prove_equal(left.pop(index), extent):
                return None
            found.append(index)
        elif _is_number(index, 0) and _is_number(extent, 1):
            found.append(None)
        else:
            return None
    return None if left else tuple(found)


def _is_number(expr: PrimExpr, value: int) -> bool:
    return isinstance(expr, IntImm) and expr.value == value
