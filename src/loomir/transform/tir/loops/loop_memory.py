"""Track what loops may write, to find the outermost loop in which a load is invariant.

A load can be hoisted out of a loop if nothing in the loop may write what it reads, and if loading
before the loop is certainly valid. It is valid for an element that

- every iteration reads before anything can end the program or the iteration, in a loop with at
  least one iteration; or
- has constant indices, and was stored before, or belongs to an array argument. Loading memory in
  which nothing was stored would itself be harmless, but LLVM treats a branch on such a value as
  unreachable.

All elements of a buffer count as one, so that this takes linear time; whether iterations meet at an
element is asked by ``loops/dependence.py``, which proves it, and by ``vector_safety.py``.

Statements are numbered in program order, and a loop is the range of numbers in its body. A query is
a binary search in these numbers, however deep the nest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from loomir.ir.visit import by_class, children, of_classes
from loomir.tir.analysis.constant_index import constant_span
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Select, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    For,
    Stmt,
    While,
)
from loomir.transform.tir.facts import VOLATILE

__all__ = ["NEVER", "LoopMemory"]

NEVER: Final = 1 << 30
"""Deeper than any loop: the level of expressions that must stay in place."""
_Element: TypeAlias = tuple[object, ...]


class LoopMemory:
    """The loops of a function, and those around the current place.

    Entered loops are numbered from 1; a *level* is the number of loops in which an expression must
    stay. ``costly`` has the ids of the statements with costly expressions, or with ``risky``
    divisions, whose divisor may be 0.
    """

    def __init__(
        self, func: PrimFunc, costly: set[int], risky: set[int], *, allow_alias: bool
    ) -> None:
        parts = by_class(func.body)
        allocations: list[Allocate] = parts.get(Allocate, [])
        allocated = {s.buffer_var for s in allocations}
        given = list(func.buffer_map.values())
        # Any use of a pointer, except accesses of its buffers, mentions its variable.
        escaped = {v for v in parts.get(Var, ()) if v.dtype.is_handle}
        self._private = allocated - escaped
        self._disjoint = allocated if allow_alias else allocated | {b.data for b in given}
        self._volatile = {
            s.node
            for s in parts.get(AttrStmt, ())
            if s.attr_key == VOLATILE and isinstance(s.node, Var)
        }
        self._bytes = {b.data: _size(b.shape, b) for b in given if not b.strides}
        self._given = {id(b) for b in given}

        self._stores: dict[Var, list[int]] = {}
        self._wild: list[int] = []
        """Statements that may write unknown memory."""
        self._shared: list[int] = []
        """Statements that may write memory that pointers from outside can reach."""
        self._stops: list[int] = []
        """Statements at which the program, or an iteration, may end."""
        self._work: list[int] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        self.costly: set[int] = set()
        doing = [e for kind in _KINDS for e in parts.get(kind, ()) if id(e) not in costly]
        does = [(id(e), effects_of_node(e)) for e in doing]
        self._fail = {e for e, what in does if what & (Effects.FAILS | Effects.ACTS)}
        self._act = {e for e, what in does if what & Effects.ACTS}
        self._survey(func.body, costly | risky)

        self._starts: list[int] = []
        self._ends: list[int] = []
        """The ends of loops, negative, so that they ascend."""
        self._floors: list[int] = [0]
        self._written: list[dict[Var, int]] = [{}]
        self._stored: dict[_Element, int] = {}
        self._scopes: list[list[_Element]] = [[]]

    # -- the program -------------------------------------------------------------------------------
    def _survey(self, body: Stmt, costly: set[int]) -> None:
        """Walk through the program in order, number statements, and record their effects."""
        number = 0
        # A number on the stack is the start of the loop below it; its body is done.
        stack: list[Any] = [body]
        while stack:
            s = stack.pop()
            if s.__class__ is int:
                self._ranges[id(stack.pop())] = s, number + 1
                continue
            number += 1
            below: list[Stmt] = []
            for part in children(s):
                if isinstance(part, Stmt):
                    below.append(part)
                elif part.child_names:
                    self._note(s, number, of_classes(part, *_KINDS), costly)
            if isinstance(s, For):
                if _may_not_count(s):
                    self._stops.append(number)
                stack += (s, number + 1)
            elif isinstance(s, BufferStore):
                data = s.buffer.data
                self._stores.setdefault(data, []).append(number)
                if data not in self._private:
                    self._shared.append(number)
                    if data not in self._disjoint:
                        self._wild.append(number)
            elif isinstance(s, (AssertStmt, While)) or (
                isinstance(s, Allocate) and _size(s.extents, s) < 0
            ):
                self._stops.append(number)
            stack += below[::-1]

    def _note(self, s: Stmt, number: int, parts: Iterable[Any], costly: set[int]) -> None:
        for part in parts:
            if id(part) in costly and id(s) not in self.costly:
                self.costly.add(id(s))
                self._work.append(number)
            if id(part) in self._fail:
                self._stops.append(number)
                if id(part) in self._act:
                    self._wild.append(number)
                    self._shared.append(number)

    def is_idle(self, loop: For) -> bool:
        """Tell whether the body of a loop has no costly expressions."""
        start, end = self._ranges[id(loop)]
        at = bisect_left(self._work, start)
        return at == len(self._work) or self._work[at] >= end

    # -- the current place -------------------------------------------------------------------------
    def enter(self, loop: For, *, guarded: bool) -> None:
        """Enter the body of a loop; ``guarded``: not every iteration of the loop around runs it."""
        outer = len(self._starts) if guarded else self._floors[-1]
        start, end = self._ranges[id(loop)]
        self._starts.append(start)
        self._ends.append(-end)
        self._written.append({})
        depth = len(self._starts)
        runs = isinstance(loop.extent, IntImm) and loop.extent.value > 0
        certain = runs and not _may_not_count(loop) and self._deepest(self._stops) < depth
        self._floors.append(outer if certain else depth)
        self.open()

    def leave(self) -> None:
        """Leave the innermost loop."""
        self.close()
        for stack in (self._starts, self._ends, self._floors, self._written):
            stack.pop()

    def open(self) -> None:
        """Enter code that may not run, or whose stores may not have run for later code."""
        self._scopes.append([])

    def close(self) -> None:
        """Leave such code."""
        for element in self._scopes.pop():
            self._stored.pop(element)

    def store(self, s: BufferStore) -> None:
        """Record that an element has been stored."""
        element = _element(s.buffer, s.indices)
        if element is not None and element not in self._stored:
            self._stored[element] = 1
            self._scopes[-1].append(element)

    # -- loads -------------------------------------------------------------------------------------
    def level_of(self, load: BufferLoad, *, guarded: bool) -> int:
        """Return the level of a load, without regard to its indices and names."""
        data = load.buffer.data
        if data in self._volatile:
            return NEVER
        written = self._written[-1]
        if data not in written:
            written[data] = self._writer(data)
        if self._is_there(load):
            return written[data]
        return max(written[data], len(self._starts) if guarded else self._floors[-1])

    def _writer(self, data: Var) -> int:
        """Return the number of the innermost loop that may write the memory of a pointer."""
        if data in self._private:
            return self._deepest(self._stores.get(data, ()))
        if data in self._disjoint:
            return max(self._deepest(self._stores.get(data, ())), self._deepest(self._wild))
        return self._deepest(self._shared)

    def _deepest(self, numbers: Sequence[int]) -> int:
        """Return the number of the innermost enclosing loop that contains one of the statements."""
        if not self._starts or not numbers:
            return 0
        at, found = bisect_left(numbers, self._starts[-1]), 0
        if at < len(numbers):
            found = bisect_left(self._ends, -numbers[at])
        if at:
            found = max(found, bisect_right(self._starts, numbers[at - 1]))
        return found

    def _is_there(self, load: BufferLoad) -> bool:
        """Tell whether an element exists and is initialised before the innermost loop."""
        buffer = load.buffer
        if _element(buffer, load.indices) in self._stored:
            return True
        size = _size(buffer.shape, buffer)
        if size < 0:
            return False
        if id(buffer) not in self._given:
            moved = buffer.strides or not _is_zero(buffer.elem_offset)
            if moved or size > self._bytes.get(buffer.data, -1):
                return False
        for index, extent in zip(load.indices, buffer.shape):
            span = constant_span(index)
            assert isinstance(extent, IntImm)
            if span is None or span[0] < 0 or span[1] >= extent.value:
                return False
        return True


_KINDS: Final = (Call, Div, FloorDiv, FloorMod, Mod, Select)


def _size(extents: Iterable[PrimExpr], array: Buffer | Allocate) -> int:
    """Return the bytes of an array, -1 if its extents are not constant."""
    values = [e.value if isinstance(e, IntImm) else -1 for e in extents]
    return -1 if any(v < 0 for v in values) else prod(values) * array.dtype.itemsize


def _is_zero(offset: PrimExpr | None) -> bool:
    return offset is None or (isinstance(offset, IntImm) and offset.value == 0)


def _may_not_count(loop: For) -> bool:
    """Tell whether a loop may fail because its variable cannot reach its end."""
    if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
        return False
    return not _is_zero(loop.min) or loop.loop_var.dtype == "uint64"


def _element(buffer: Buffer, indices: Iterable[PrimExpr]) -> _Element | None:
    """Identify an element with constant indices; None if an index is not constant.

    Vectors between the same two ends have the same elements, in whatever order.
    """
    found: list[object] = [id(buffer)]
    for index in indices:
        span = constant_span(index)
        if span is None:
            return None
        found += (*span, index.dtype.lanes)
    return tuple(found)
