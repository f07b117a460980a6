"""Remove statements that do nothing."""

from __future__ import annotations

from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.visit import by_class, nodes_in, plan_of, pre_order, rewrite
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from loomir.transform.tir.facts import VOLATILE

__all__ = ["remove_no_op"]


def _is_empty(s: Stmt | None) -> bool:
    return s is None or (isinstance(s, SeqStmt) and not s.seq)


def _sequence(s: SeqStmt) -> Stmt:
    flat: list[Stmt] = []
    for part in s.seq:
        if isinstance(part, SeqStmt):
            flat.extend(part.seq)
        else:
            flat.append(part)
    if len(flat) == 1:
        return flat[0]
    if len(flat) == len(s.seq):
        return s
    return SeqStmt(tuple(flat), span=s.span)


def _for(s: For) -> Stmt:
    # Only a loop with constant bounds certainly raises no error about its end.
    constant = isinstance(s.min, IntImm) and isinstance(s.extent, IntImm)
    return SeqStmt(()) if constant and _is_empty(s.body) else s


@register("tir.RemoveNoOp", requires={"no_blocks"})
def remove_no_op(func: PrimFunc) -> PrimFunc:
    """Remove empty statements, and definitions that nothing uses.

    Expressions that may fail stay: an unused division, and an allocation whose size is not
    constant. So do reads of volatile memory.
    """
    used, volatile = _find_used(func), _volatile(func)

    def is_nothing(value: PrimExpr) -> bool:
        return is_discardable(value) and not (
            volatile
            and any(
                isinstance(part, BufferLoad) and part.buffer.data in volatile
                for part in pre_order(value)
            )
        )

    def evaluate(s: Evaluate) -> Stmt:
        return SeqStmt(()) if is_nothing(s.value) else s

    def branch(s: IfThenElse) -> Stmt:
        if _is_empty(s.then_case) and _is_empty(s.else_case) and is_nothing(s.condition):
            return SeqStmt(())
        if s.else_case is not None and _is_empty(s.else_case):
            return IfThenElse(s.condition, s.then_case, None, span=s.span)
        return s

    def let(s: LetStmt) -> Stmt:
        unused = id(s.var) not in used or _is_empty(s.body)
        return s.body if unused and is_nothing(s.value) else s

    def declare(s: DeclBuffer) -> Stmt:
        return s.body if id(s.buffer) not in used or _is_empty(s.body) else s

    def allocate(s: Allocate) -> Stmt:
        constant = all(isinstance(e, IntImm) for e in (*s.extents, s.condition))
        if constant and _is_empty(s.body):
            return s.body
        return s

    return rewrite(
        func,
        {
            SeqStmt: _sequence,
            Evaluate: evaluate,
            IfThenElse: branch,
            For: _for,
            LetStmt: let,
            DeclBuffer: declare,
            Allocate: allocate,
        },
    )


def _volatile(func: PrimFunc) -> set[Var]:
    """List the pointers to volatile memory, whose accesses must stay."""
    return {
        part.node
        for part in by_class(func.body).get(AttrStmt, ())
        if part.attr_key == VOLATILE and isinstance(part.node, Var)
    }


def _find_used(func: PrimFunc) -> set[int]:
    """List the variables and buffers that are used."""
    used: set[int] = set()
    buffers: dict[int, Buffer] = {id(b): b for b in func.buffer_map.values()}
    found = by_class(func.body)
    used.update(map(id, found.get(Var, ())))
    for kind in (BufferLoad, BufferStore):
        by_data: dict[int, Buffer] = {id(part.buffer): part.buffer for part in found.get(kind, ())}
        used.update(by_data)
        buffers |= by_data
    buffers |= {id(part.buffer): part.buffer for part in found.get(DeclBuffer, ())}
    for buffer in buffers.values():
        used.add(id(buffer.data))
        parts: list[Node] = [
            name for value in plan_of(Buffer).get(buffer) for name in nodes_in(value)
        ]
        for part in parts:
            used.update(id(name) for name in pre_order(part) if isinstance(name, Var))
    return used
