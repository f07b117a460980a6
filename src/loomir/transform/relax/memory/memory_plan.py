"""Plan an arena: assign memory to tensors, and reuse it after a tensor's last use.

Tensors of constant size are packed tightly by offset. Tensors whose sizes depend on shape variables
get slots; another tensor may reuse a slot if it provably fits.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.visit import pre_order
from loomir.relax.shape import INT64
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["ALIGNMENT", "ARENA", "MemoryRequest", "Plan", "plan_arena"]

ALIGNMENT: Final = 64
"""In bytes: a cache line, and the widest vector."""
ARENA: Final = "storage"
"""The name of the variable that an arena is bound to."""
_TRIES: Final = 8
"""The most free slots of symbolic sizes that are compared with a size."""


class MemoryRequest(NamedTuple):
    """A tensor to place: its bytes, and its live range in bindings."""

    size: PrimExpr
    first: int
    last: int


class Plan(NamedTuple):
    """An arena: its bytes, and the offsets of the tensors, in the order of the request."""

    size: PrimExpr
    offsets: tuple[PrimExpr, ...]


def plan_arena(wanted: Sequence[MemoryRequest], analyzer: Analyzer) -> Plan:
    """Choose a place for each tensor; ``wanted`` is in the order of ``first``."""
    fixed = [(i, w) for i, w in enumerate(wanted) if isinstance(w.size, IntImm)]
    others = [(i, w) for i, w in enumerate(wanted) if not isinstance(w.size, IntImm)]
    offsets: dict[int, PrimExpr] = {}
    end = 0
    places = _Places()
    for i, w in fixed:
        assert isinstance(w.size, IntImm)
        at = places.take(_round_up(w.size.value), w.first, w.last)
        offsets[i] = IntImm(at, INT64)
        end = places.end
    slots = _Slots(analyzer)
    assigned = [(i, slots.take(w)) for i, w in others]
    start: PrimExpr = IntImm(end, INT64)
    starts: list[PrimExpr] = []
    for size in slots.sizes:
        starts.append(start)
        start = analyzer.simplify(start + size)
    offsets.update((i, starts[slot]) for i, slot in assigned)
    return Plan(start, tuple(offsets[i] for i in range(len(wanted))))


def _round_up(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


class _Places:
    """The free ranges of the arena, with adjacent ones merged; allocation is best fit."""

    def __init__(self) -> None:
        self.end = 0
        self.free: list[tuple[int, int]] = []  # (offset, size), in order
        self.busy: list[tuple[int, int, int]] = []  # (last use, offset, size), a heap

    def take(self, size: int, first: int, last: int) -> int:
        """Return the offset of a range that is free for a live range."""
        while self.busy and self.busy[0][0] < first:
            _, offset, length = heapq.heappop(self.busy)
            self._release(offset, length)
        fits = [(length, offset) for offset, length in self.free if length >= size]
        if fits:
            length, offset = min(fits)
            self.free.remove((offset, length))
            if length > size:
                insort(self.free, (offset + size, length - size))
        elif self.free and sum(self.free[-1]) == self.end:  # grow the last free range
            offset, _ = self.free.pop()
            self.end = offset + size
        else:
            offset = self.end
            self.end += size
        heapq.heappush(self.busy, (last, offset, size))
        return offset

    def _release(self, offset: int, length: int) -> None:
        insort(self.free, (offset, length))
        at = self.free.index((offset, length))
        if at + 1 < len(self.free) and sum(self.free[at]) == self.free[at + 1][0]:
            self.free[at : at + 2] = [(offset, length + self.free[at + 1][1])]
        if at > 0 and sum(self.free[at - 1]) == offset:
            before, size = self.free[at - 1]
            self.free[at - 1 : at + 1] = [(before, size + self.free[at][1])]


class _Slots:
    """Slots of symbolic sizes."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.sizes: list[PrimExpr] = []
        self.keys: list[tuple[object, ...]] = []
        self.free: list[int] = []
        self.busy: list[tuple[int, int]] = []  # (last use, slot), a heap

    def take(self, wanted: MemoryRequest) -> int:
        """Return a free slot that is large enough, or a new one."""
        while self.busy and self.busy[0][0] < wanted.first:
            self.free.append(heapq.heappop(self.busy)[1])
        slot = self._find_fitting(wanted.size)
        if slot is None:
            slot = len(self.sizes)
            bytes_ = (wanted.size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
            self.sizes.append(self.analyzer.simplify(bytes_))
            self.keys.append(_key(wanted.size))
        else:
            self.free.remove(slot)
        heapq.heappush(self.busy, (wanted.last, slot))
        return slot

    def _find_fitting(self, size: PrimExpr) -> int | None:
        key = _key(size)
        for slot in self.free:
            if self.keys[slot] == key:
                return slot
        for slot in self.free[-_TRIES:]:
            if self.analyzer.can_prove(self.sizes[slot] >= size):
                return slot
        return None


def _key(e: PrimExpr) -> tuple[object, ...]:
    """Return a key of an expression that is equal for equal ones, with variables by identity."""
    return tuple(
        p if isinstance(p, Var) else (type(p), getattr(p, "value", None)) for p in pre_order(e)
    )
