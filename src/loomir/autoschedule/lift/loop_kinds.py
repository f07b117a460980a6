"""Loop kinds as requests: what a program asks of one loop, and what shows that all are arranged.

``T.parallel``, ``T.vectorized`` and ``T.unroll`` mean what ``range`` means, so that nests are read
as if all loops were serial. Loops are somebody's arrangement where they form tiles: iterators or
stored places that several loops make together, vectors, thread bindings, annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.ir.visit import by_class, rebuild, rewrite
from loomir.tir.expr import Broadcast, IntImm, PrimExpr, Ramp, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt

__all__ = ["Request", "as_serial", "is_arranged", "requests_of"]

_REQUESTS: Final = {
    ForKind.PARALLEL: "T.parallel",
    ForKind.VECTORIZED: "T.vectorized",
    ForKind.UNROLLED: "T.unroll",
}


class Request(NamedTuple):
    """A loop for which the program asks a kind, and whether the schedule has that loop."""

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
    """List the loops of which a program asks a kind, the outermost first."""
    asked = [loop for loop in _loops(func.body) if loop.kind in _REQUESTS]
    if not asked:
        return ()
    left = {(loop.loop_var, loop.kind) for loop in _loops(scheduled)}
    return tuple(
        Request(loop.loop_var.name_hint, _REQUESTS[loop.kind], (loop.loop_var, loop.kind) in left)
        for loop in asked
    )


def is_arranged(func: PrimFunc) -> bool:
    """Tell whether somebody has arranged the loops of a function."""
    found = by_class(func.body)
    loops = _loops(func.body)
    blocks: list[Block] = found.get(Block, [])
    if any(loop.annotations for loop in loops) or any(block.annotations for block in blocks):
        return True
    kinds = {loop.kind for loop in loops} - {ForKind.SERIAL}
    if not kinds:
        return False
    return bool(kinds - _REQUESTS.keys()) or _has_tiles(func.body, loops)


def _has_tiles(stmt: Stmt, loops: Sequence[For]) -> bool:
    """Whether loops are combined to iterators or places of results, or elements to vectors."""
    found = by_class(stmt)
    if found.keys() & {Ramp, Broadcast}:
        return True
    realizes: list[BlockRealize] = found.get(BlockRealize, [])
    for realize in realizes:
        if not isinstance(realize.predicate, IntImm):
            return True
        if any(not isinstance(value, (Var, IntImm)) for value in realize.values):
            return True
    names = {loop.loop_var for loop in loops}
    stores: list[BufferStore] = found.get(BufferStore, [])
    return any(_mixes(index, names) for store in stores for index in store.indices)


def _mixes(index: PrimExpr, names: set[Var]) -> bool:
    if isinstance(index, (Var, IntImm)):
        return False
    return len(names.intersection(by_class(index).get(Var, ()))) > 1


def _loops(stmt: Stmt) -> list[For]:
    return by_class(stmt).get(For, [])
