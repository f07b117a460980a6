"""Def-use chains of a kernel: which parts read and write each buffer, kept current during inlining.

Memory is identified by its data pointer. A query takes time in proportion to its answer, so that
functions of many thousands of parts are scheduled in linear time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from loomir.autoschedule.ir.stage import Stage
from loomir.ir.visit import by_class
from loomir.loops.accesses import loads_and_stores
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.stmt import Stmt

__all__ = ["Usage", "reads_of", "writes_of"]


def reads_of(part: Stage | Stmt) -> frozenset[int]:
    """Return the memory that a part reads, by the identity of its pointer."""
    if isinstance(part, Stage):
        return part.reads()
    found = by_class(part)
    return frozenset(
        {id(v) for v in found.get(Var, ())}
        | {id(a.buffer.data) for a in loads_and_stores(found)}
        | {id(b.data) for b in found.get(Buffer, ())}
    )


def writes_of(part: Stage | Stmt) -> frozenset[int]:
    """Return the memory that a part may write."""
    return frozenset((id(part.buffer.data),)) if isinstance(part, Stage) else reads_of(part)


class Usage:
    """The parts, and the places of those that read and that may write some memory."""

    def __init__(self, parts: Sequence[Stage | Stmt]) -> None:
        self.parts: list[Stage | Stmt | None] = []
        self._reads: list[frozenset[int]] = []
        self._writes: list[frozenset[int]] = []
        self._readers: defaultdict[int, set[int]] = defaultdict(set)
        self._writers: defaultdict[int, set[int]] = defaultdict(set)
        for place, part in enumerate(parts):
            self.parts.append(None)
            self._reads.append(frozenset())
            self._writes.append(frozenset())
            self.put(place, part)

    def put(self, place: int, part: Stage | Stmt | None) -> None:
        """Replace the part at a position, or remove it."""
        reads = frozenset[int]() if part is None else reads_of(part)
        writes = frozenset[int]() if part is None else writes_of(part)
        _move(self._readers, place, self._reads[place], reads)
        _move(self._writers, place, self._writes[place], writes)
        self.parts[place], self._reads[place], self._writes[place] = part, reads, writes

    def readers(self, data: int) -> list[int]:
        """Return the places of the parts that read some memory, in order."""
        return sorted(self._readers[data])

    def writers(self, data: int) -> Iterable[int]:
        """Return the places of the parts that may write some memory."""
        return self._writers[data]

    def is_only_in(self, data: int, first: int, last: int) -> bool:
        """Tell whether no part outside of ``range(first, last)`` reads or writes some memory."""
        places = self._readers[data] | self._writers[data]
        return all(first <= place < last for place in places)

    def memory(self) -> set[int]:
        """Return all memory that the parts read or write."""
        return set[int]().union(*self._reads, *self._writes)


def _move(
    table: defaultdict[int, set[int]], place: int, old: frozenset[int], new: frozenset[int]
) -> None:
    for data in old - new:
        table[data].discard(place)
    for data in new - old:
        table[data].add(place)
