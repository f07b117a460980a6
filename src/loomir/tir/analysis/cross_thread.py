"""Cross-thread reductions: find loops over the threads of a block that must run in order.

A block whose reduction iterator is bound to a loop over ``threadIdx`` or ``vthread`` declares a
cross-thread reduction. A GPU combines the values of its threads; a CPU runs the threads of a block
one after another, which adds the terms in order. Other thread loops keep the meaning of
``parallel``: their iterations must be independent.
"""

from __future__ import annotations

from typing import Final

from loomir.ir.visit import by_class, children, pre_order, rewrite
from loomir.support.diagnostics import nearest
from loomir.tir.buffer import IterVarType
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, For, ForKind, LetStmt, Stmt

__all__ = [
    "GRID",
    "VIRTUAL",
    "help_thread",
    "is_thread_of_block",
    "serialize_cross_thread_reductions",
]

GRID: Final = frozenset(f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz")
"""The threads of which a grid has one index each."""
VIRTUAL: Final = frozenset({"cthread", "vthread", *(f"vthread.{axis}" for axis in "xyz")})
"""Kinds of loops of which a nest may have any number."""


def help_thread(tag: str) -> str:
    """Suggest a known thread for an unknown one."""
    return f"did you mean {nearest(tag, sorted(GRID | VIRTUAL)) or 'threadIdx.x'!r}?"


def is_thread_of_block(loop: For) -> bool:
    """Tell whether a loop runs over the threads of one block of a grid."""
    if loop.kind is not ForKind.THREAD_BINDING or loop.thread_binding is None:
        return False
    return not loop.thread_binding.thread_tag.startswith("blockIdx")


def serialize_cross_thread_reductions(func: PrimFunc) -> PrimFunc:
    """Replace each loop of threads that a reduction block reduces over by a serial loop."""
    if not any(is_thread_of_block(loop) for loop in by_class(func.body).get(For, ())):
        return func
    reduced = _find_reduced_loops(func.body)
    if not reduced:
        return func

    def loop(s: For) -> For:
        if id(s.loop_var) not in reduced:
            return s
        return For(
            s.loop_var, s.min, s.extent, ForKind.SERIAL, s.body, None, s.annotations, span=s.span
        )

    return rewrite(func, {For: loop})


def _find_reduced_loops(body: Stmt) -> set[int]:
    """Find the variables of loops of threads from which reducing iterators get their values."""
    found: set[int] = set()
    # For each name, the loops of threads on which its value depends; names are bound once.
    sources: dict[int, frozenset[int]] = {}

    def read(value: PrimExpr) -> frozenset[int]:
        none: frozenset[int] = frozenset()
        names = (sources.get(id(part), none) for part in pre_order(value) if isinstance(part, Var))
        return none.union(*names)

    stack: list[Stmt] = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, For) and is_thread_of_block(s):
            sources[id(s.loop_var)] = frozenset({id(s.loop_var)})
        elif isinstance(s, LetStmt) and sources:
            sources[id(s.var)] = read(s.value)
        elif isinstance(s, BlockRealize) and sources:
            for it, value in zip(s.block.iter_vars, s.values, strict=True):
                sources[id(it.var)] = read(value)
                if it.iter_type is IterVarType.COMM_REDUCE:
                    found |= sources[id(it.var)]
        stack.extend(part for part in children(s) if isinstance(part, Stmt))
    return found
