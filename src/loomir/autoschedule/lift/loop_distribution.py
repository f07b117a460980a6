"""Loop distribution: split a loop around several statements into one nest for each.

This is legal if iterations share no memory: each iteration writes elements of its own, or a buffer
that it fills before it reads it. Such a buffer undergoes scalar expansion: it gets an element for
each iteration, which lives as long as the new nests remain separate stages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from loomir.arith.fold import add, int64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.lift.if_conversion import distribute_guard
from loomir.ir.node import Node
from loomir.ir.visit import by_class, rewrite
from loomir.loops.accesses import loads_and_stores
from loomir.loops.dependence import has_own_axis
from loomir.loops.nests import is_rectangular, split_nest, wrap_in_loops
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
from loomir.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
)

__all__ = [
    "DistributedLoops",
    "StrippedNest",
    "distribute",
    "flatten",
    "is_memory_of_one_buffer",
    "strip_allocations",
]

_PARTS: Final = 64
"""Most statements that a nest is distributed into."""
_SMALL: Final = 1 << 20
"""Elements up to which an expanded buffer is always allowed."""
_PLAIN: Final = (For, BufferStore, SeqStmt, IfThenElse)
"""Statements of which it is known what they do."""


TripCount: TypeAlias = Callable[[PrimExpr], PrimExpr]


class DistributedLoops(NamedTuple):
    """The loops, in order, and the buffers that have an element for each iteration."""

    parts: tuple[Stmt, ...]
    buffers: tuple[Buffer, ...]


class _Split(NamedTuple):
    parts: list[Stmt]
    buffers: list[Buffer]
    joining: set[int]
    """What several of the parts use."""


def distribute(
    stmt: Stmt, private: Mapping[int, Buffer], trip_count: TripCount
) -> DistributedLoops | None:
    """Distribute a nest; None if there is nothing to distribute.

    ``private`` are buffers, by the identity of their pointers, that nothing else uses.
    ``trip_count`` returns how often a loop of some extent runs: never where that is negative.
    """
    made: list[Stmt] = []
    buffers: list[Buffer] = []
    own = dict(private)
    stack = [stmt]
    while stack:
        part = stack.pop()
        loops, inner = split_nest(part)
        split = None
        inner = distribute_guard(inner)
        if loops and isinstance(inner, SeqStmt):
            split = _split(loops, flatten(inner), own, trip_count)
        if split is None:
            made.append(part)
        else:
            stack += reversed(split.parts)
            buffers += split.buffers
            for data in split.joining:
                own.pop(data, None)
        if len(made) + len(stack) > _PARTS:
            return None
    return None if len(made) == 1 else DistributedLoops(tuple(made), tuple(buffers))


class StrippedNest(NamedTuple):
    """A nest without the allocations of its iterations, and these allocations."""

    nest: Stmt
    buffers: tuple[Buffer, ...]


def strip_allocations(stmt: Stmt) -> StrippedNest:
    """Strip a nest of the memory that its iterations allocate, if its size never changes.

    It is right only for what fills such a buffer before reading it, as ``distribute`` asks.
    """
    found: list[Buffer] = []

    def allocate(node: Allocate) -> Stmt:
        inner = node.body
        if not isinstance(inner, DeclBuffer) or not is_memory_of_one_buffer(node):
            return node
        found.append(inner.buffer)
        return inner.body

    bare = rewrite(stmt, {Allocate: allocate}) if Allocate in by_class(stmt) else stmt
    return StrippedNest(bare, tuple(found))


def is_memory_of_one_buffer(node: Allocate) -> bool:
    """Tell whether an allocation is the memory of one plain buffer."""
    inner = node.body
    if not isinstance(inner, DeclBuffer):
        return False
    buffer = inner.buffer
    always = isinstance(node.condition, IntImm) and node.condition.value != 0
    plain = buffer.data is node.buffer_var and not node.annotations and not buffer.strides
    sizes = all(number(e) is not None for e in (*node.extents, *buffer.shape))
    return always and plain and sizes and buffer.dtype is node.dtype


def flatten(stmt: Stmt) -> list[Stmt]:
    """List the statements of a sequence that do something."""
    made: list[Stmt] = []
    stack: list[Stmt] = [stmt]
    while stack:
        part = stack.pop()
        if isinstance(part, SeqStmt):
            stack += reversed(part.seq)
        elif not (isinstance(part, Evaluate) and isinstance(part.value, IntImm)):
            made.append(part)
    return made


def _is_plain(stmt: Stmt) -> bool:
    """Whether a statement does nothing but store values that can be computed at any time."""
    for kind, nodes in by_class(stmt).items():
        if issubclass(kind, Stmt) and not issubclass(kind, _PLAIN):
            return False
        if issubclass(kind, Call) and any(
            effects(n) & (Effects.ACTS | Effects.FAILS) for n in nodes
        ):
            return False
    return True


def _split(
    loops: Sequence[For],
    body: Sequence[Stmt],
    private: Mapping[int, Buffer],
    trip_count: TripCount,
) -> _Split | None:
    """Split loops around a sequence into loops around each of its statements."""
    if not all(map(_is_plain, body)) or not _can_expand(loops):
        return None
    users: dict[int, list[tuple[int, BufferLoad | BufferStore]]] = {}
    for place, part in enumerate(body):
        for access in loads_and_stores(by_class(part)):
            users.setdefault(id(access.buffer.data), []).append((place, access))
    table: dict[Buffer, Buffer] = {}
    joining: set[int] = set()
    for data, accesses in users.items():
        if len({place for place, _ in accesses}) == 1:
            continue
        joining.add(data)
        written = any(isinstance(access, BufferStore) for _, access in accesses)
        if not written or _is_iteration_private(loops, [a for _, a in accesses]):
            continue
        buffer = private.get(data)
        if buffer is None or any(a.buffer is not buffer for _, a in accesses):
            return None
        if not _fills(body[accesses[0][0]], buffer):
            return None
        shape = (*_counts(loops, trip_count), *buffer.shape)
        table[buffer] = decl_buffer(shape, buffer.dtype, buffer.name)
    if not all(_is_moderate(loops, old, users) for old in table):
        return None
    parts = [wrap_in_loops(loops, _privatize(loops, part, table)) for part in body]
    return _Split(parts, list(table.values()), joining)


def _can_expand(loops: Sequence[For]) -> bool:
    """Whether loops start near 0, and their extents are the same in all iterations."""
    firsts = [number(loop.min) for loop in loops]
    near = all(first is not None and 0 <= first <= _SMALL for first in firsts)
    return near and is_rectangular(loops)


def _is_iteration_private(
    loops: Sequence[For], accesses: Sequence[BufferLoad | BufferStore]
) -> bool:
    """Whether no two iterations use the same element."""
    first = accesses[0]
    if any(a.buffer is not first.buffer for a in accesses):
        return False
    return all(
        number(loop.extent) == 1 or has_own_axis(loop.loop_var, [a.indices for a in accesses])
        for loop in loops
    )


def _fills(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement stores every element of a buffer, and reads none."""
    loops, inner = split_nest(stmt)
    if not isinstance(inner, BufferStore) or inner.buffer is not buffer or not _can_expand(loops):
        return False
    if any(load.buffer.data is buffer.data for load in by_class(inner).get(BufferLoad, ())):
        return False
    extents = {loop.loop_var: loop for loop in loops}
    for index, extent in zip(inner.indices, buffer.shape, strict=True):
        size = number(extent)
        if isinstance(index, IntImm):
            if size != 1:
                return False
            continue
        loop = extents.pop(index, None) if isinstance(index, Var) else None
        if loop is None or size is None:
            return False
        if number(loop.min) != 0 or number(loop.extent) != size:
            return False
    return all(number(loop.extent) == 1 for loop in extents.values())


def _is_moderate(
    loops: Sequence[For],
    buffer: Buffer,
    users: Mapping[int, Sequence[tuple[int, BufferLoad | BufferStore]]],
) -> bool:
    """Whether a buffer for each iteration takes about as much memory as the arrays at hand."""
    sizes = [number(e) for e in (*buffer.shape, *(loop.extent for loop in loops))]
    if any(size is None for size in sizes):
        one = all(number(extent) == 1 for extent in buffer.shape)
        return one and any(
            _is_iteration_private(loops, [a for _, a in found]) for found in users.values()
        )
    given = [[number(e) for e in found[0][1].buffer.shape] for found in users.values()]
    largest = max((math.prod(s) for s in map(_find_known, given) if s is not None), default=0)
    return math.prod(_find_known(sizes) or ()) <= max(_SMALL, 2 * largest)


def _find_known(sizes: Sequence[int | None]) -> list[int] | None:
    found = [size for size in sizes if size is not None]
    return found if len(found) == len(sizes) else None


def _counts(loops: Sequence[For], trip_count: TripCount) -> list[PrimExpr]:
    """Return the upper bounds of the loops' variables."""
    return [add(int64(loop.min), int64(trip_count(loop.extent))) for loop in loops]


def _privatize(loops: Sequence[For], part: Stmt, table: Mapping[Buffer, Buffer]) -> Stmt:
    """Redirect accesses of a statement to the expanded buffers."""
    if not table:
        return part
    own: list[PrimExpr] = [loop.loop_var for loop in loops]

    def prepend_own(indices: Iterable[PrimExpr]) -> tuple[PrimExpr, ...]:
        return (*own, *indices)

    def load(node: BufferLoad) -> Node:
        new = table.get(node.buffer)
        return node if new is None else BufferLoad(new, prepend_own(node.indices), span=node.span)

    def store(node: BufferStore) -> Node:
        new = table.get(node.buffer)
        if new is None:
            return node
        return BufferStore(new, node.value, prepend_own(node.indices), span=node.span)

    return rewrite(part, {BufferLoad: load, BufferStore: store})
