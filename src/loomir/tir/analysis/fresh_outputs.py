"""Find the parameters that a function writes without reading their previous contents.

The analysis is conservative: a load counts as one of previous contents unless the element was
certainly stored before, by a store of the same indices, a block's ``init``, or a loop nest that
fills the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["fresh_outputs"]

_JUMPS: Final = (BREAK_LOOP, CONTINUE_LOOP, RET)
"""The jumps that can end a loop, or the function, before its stores."""
_MOST: Final = 64
"""How many stores before a statement are remembered; older ones count as unknown."""


class _StoredElement(NamedTuple):
    """A stored element; without ``indices``, the whole buffer."""

    data: int
    indices: tuple[PrimExpr, ...] | None


_StoredElements: TypeAlias = tuple[_StoredElement, ...]


def fresh_outputs(func: PrimFunc, module: IRModule | None = None) -> list[Buffer]:
    """List the buffers of parameters whose contents before a call do not matter to it."""
    if any(isinstance(part, Call) and part.op in _JUMPS for part in pre_order(func.body)):
        return []
    written = {id(b.data) for b in written_buffers(func, module)}
    outputs = {id(b.data): b for b in func.buffer_map.values() if id(b.data) in written}
    waiting: list[tuple[Stmt, _StoredElements]] = [(func.body, ())]
    while waiting and outputs:
        stmt, before = waiting.pop()
        if isinstance(stmt, SeqStmt):
            for part in stmt.seq:
                waiting.append((part, before))
                before = _append(before, _stores_of(part, outputs))
            continue
        parts: Sequence[Node] = children(stmt)
        if isinstance(stmt, Block):
            for match in stmt.match_buffers:
                outputs.pop(id(match.source.buffer.data), None)
            inner = before
            if stmt.init is not None:
                waiting.append((stmt.init, before))
                inner = _append(before, _stores_of(stmt.init, outputs))
            waiting.append((stmt.body, inner))
            parts = stmt.iter_vars
        for part in parts:
            if isinstance(part, Stmt):
                waiting.append((part, before))
            else:
                _drop_read(part, before, outputs)
    return list(outputs.values())


def _append(before: _StoredElements, more: Sequence[_StoredElement]) -> _StoredElements:
    return (*before, *more)[-_MOST:] if more else before


def _drop_read(root: Node, before: _StoredElements, outputs: dict[int, Buffer]) -> None:
    """Drop the outputs whose earlier contents an expression may read, or passes to a call."""
    for part in pre_order(root):
        if isinstance(part, Var):
            outputs.pop(id(part), None)
        elif isinstance(part, BufferLoad) and id(part.buffer.data) in outputs:
            data = id(part.buffer.data)
            if not any(s.data == data and _covers(s, part.indices) for s in before):
                del outputs[data]


def _covers(stored: _StoredElement, indices: Sequence[PrimExpr]) -> bool:
    if stored.indices is None:
        return True
    pairs = zip(stored.indices, indices, strict=True)
    return all(structural_equal(a, b) for a, b in pairs)


def _stores_of(root: Stmt, outputs: dict[int, Buffer]) -> list[_StoredElement]:
    """List what a statement stores under all conditions."""
    found: list[_StoredElement] = []
    waiting: list[tuple[Stmt, tuple[For, ...], dict[int, PrimExpr]]] = [(root, (), {})]
    while waiting:
        stmt, loops, values = waiting.pop()
        if isinstance(stmt, SeqStmt):
            waiting += [(part, loops, values) for part in stmt.seq]
        elif isinstance(stmt, (LetStmt, AssertStmt, DeclBuffer, Allocate)):
            waiting.append((stmt.body, loops, values))
        elif isinstance(stmt, For):
            waiting.append((stmt.body, (*loops, stmt), values))
        elif isinstance(stmt, BlockRealize) and _is_true(stmt.predicate):
            block = stmt.block
            named = zip(block.iter_vars, stmt.values, strict=True)
            waiting.append((block.body, loops, {**values, **{id(i.var): v for i, v in named}}))
        elif isinstance(stmt, BufferStore) and id(stmt.buffer.data) in outputs:
            indices = tuple(values.get(id(i), i) for i in stmt.indices)
            if _fills(stmt.buffer, indices, loops):
                found.append(_StoredElement(id(stmt.buffer.data), None))
            elif not loops and not values and all(map(_is_steady, indices)):
                found.append(_StoredElement(id(stmt.buffer.data), indices))
    return found


def _is_true(condition: PrimExpr) -> bool:
    return isinstance(condition, IntImm) and condition.value == 1


def _fills(buffer: Buffer, indices: Sequence[PrimExpr], loops: Sequence[For]) -> bool:
    """Whether the enclosing loops run over all elements: one over each axis, and no others."""
    over = {id(loop.loop_var): loop for loop in loops}
    if len(indices) != len(loops) or {id(i) for i in indices} != over.keys():
        return False
    return all(
        isinstance(over[id(i)].min, IntImm)
        and getattr(over[id(i)].min, "value", None) == 0
        and structural_equal(over[id(i)].extent, extent)
        for i, extent in zip(indices, buffer.shape, strict=True)
    )


def _is_steady(index: PrimExpr) -> bool:
    return not any(isinstance(part, (BufferLoad, Call)) for part in pre_order(index))
