"""Tell loop kinds that are requests from schedules that somebody has written.

``T.parallel``, ``T.vectorized`` and ``T.unroll`` compute what ``range`` computes, so a nest is
lifted as if all of its loops were serial. A function counts as scheduled by its author if its loops
form tiles (several loops together make one block iterator or one index of a store), if vectors are
written out, or if there are thread bindings or annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.ir.visit import by_class, rebuild, rewrite
from loomir.tir.expr import Broadcast, IntImm, PrimExpr, Ramp, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt

__all__ = ["Request", "arrangement_of", "as_serial", "requests_of"]

_REQUESTS: Final = {
    ForKind.PARALLEL: "T.parallel",
    ForKind.VECTORIZED: "T.vectorized",
    ForKind.UNROLLED: "T.unroll",
}


class Request(NamedTuple):
    """A loop whose kind the program requests, and whether the schedule has that loop."""

    loop: str
    kind: str
    kept: bool


def as_serial(stmt: Stmt) -> Stmt:
    """Return a statement whose loops run one iteration after the other."""
    if all(loop.kind not in _REQUESTS for loop in by_class(stmt).get(For, ())):
        return stmt

    def plain(loop: For) -> For:
        return rebuild(loop, {"kind": ForKind.SERIAL}) if loop.kind in _REQUESTS else loop

    return rewrite(stmt, {For: plain})


def requests_of(func: PrimFunc, scheduled: Stmt) -> tuple[Request, ...]:
    """List the loops whose kind a program requests, the outermost first."""
    asked = [loop for loop in _loops(func.body) if loop.kind in _REQUESTS]
    if not asked:
        return ()
    left = {(loop.loop_var, loop.kind) for loop in _loops(scheduled)}
    return tuple(
        Request(loop.loop_var.name_hint, _REQUESTS[loop.kind], (loop.loop_var, loop.kind) in left)
        for loop in asked
    )


def arrangement_of(func: PrimFunc) -> str:
    """Say what shows that the author scheduled a function; empty if nothing does."""
    loops = _loops(func.body)
    blocks: list[Block] = by_class(func.body).get(Block, [])
    for loop in loops:
        if loop.annotations:
            return f"the loop {loop.loop_var.name_hint} has annotations"
    for block in blocks:
        if block.annotations:
            return f"the block {block.name_hint} has annotations"
    for loop in loops:
        if loop.kind is not ForKind.SERIAL and loop.kind not in _REQUESTS:
            return f"the loop {loop.loop_var.name_hint} is bound to a thread"
    asked = [loop for loop in loops if loop.kind in _REQUESTS]
    tiles = _tiles(func.body, loops) if asked else ""
    return f"{_REQUESTS[asked[0].kind]} stands in a program whose {tiles}" if tiles else ""


def _tiles(stmt: Stmt, loops: Sequence[For]) -> str:
    """Say which loops form tiles: several make one iterator or index of a store, or vectors."""
    found = by_class(stmt)
    if found.keys() & {Ramp, Broadcast}:
        return "elements are vectors"
    realizes: list[BlockRealize] = found.get(BlockRealize, [])
    for realize in realizes:
        name = realize.block.name_hint
        if not isinstance(realize.predicate, IntImm):
            return f"block {name} has a predicate"
        for it, value in zip(realize.block.iter_vars, realize.values, strict=True):
            if not isinstance(value, (Var, IntImm)):
                return f"block {name} makes {it.var.name_hint} of {value}"
    names = {loop.loop_var for loop in loops}
    stores: list[BufferStore] = found.get(BufferStore, [])
    for store in stores:
        for index in store.indices:
            if _mixes(index, names):
                return f"loops make a place of {store.buffer.name} together, {index}"
    return ""


def _mixes(index: PrimExpr, names: set[Var]) -> bool:
    if isinstance(index, (Var, IntImm)):
        return False
    return len(names.intersection(by_class(index).get(Var, ()))) > 1


def _loops(stmt: Stmt) -> list[For]:
    return by_class(stmt).get(For, [])
