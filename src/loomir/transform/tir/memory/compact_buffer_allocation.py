"""Shrink a buffer to the region that one iteration of the loops around its accesses needs.

A block that is moved into loops (``compute_at``) keeps a buffer for all of their iterations. If
each iteration loads only what it stores itself, it needs memory for that part only.

The part has a constant size and no gaps, unlike the boxes around accesses of ``loops/bounds.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import inf, prod
from typing import Any, Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, children, nodes_outside, rebuild, rewrite
from loomir.loops.accesses import loads_and_stores
from loomir.loops.ranges import loop_range
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import ADDRESS_OF, BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.expr import Add, Call, IntImm, Mul, PrimExpr, Sub, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["compact_buffer_allocation"]

_MOST: Final = 64
"""The most accesses of a buffer, and statements around one, so that the pass takes linear time."""
_LARGEST: Final = 1 << 24
"""The most elements along an axis of a smaller buffer."""
_ENDLESS: Final = 1 << 48
"""More elements than any array has."""
_LEAVES: Final = (BREAK_LOOP, CONTINUE_LOOP)
"""Calls that end an iteration early."""
_PASSED: Final = (SeqStmt, For, IfThenElse, LetStmt, DeclBuffer, Allocate, AssertStmt)
"""Statements that may be between a loop and an access."""


@register("tir.CompactBufferAllocation", requires={"no_blocks"})
def compact_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """Shrink buffers to the part that one iteration needs, and allocate them inside the loop.

    This applies if each iteration stores what it loads, and the buffer shrinks to at most half. The
    part must be a box with constant extents, whose start may depend on the loops around.
    """
    found: dict[Any, list[Any]] = by_class(func.body)
    sizes = _sizes(func)
    owned = {s.buffer_var: s for s in found.get(Allocate, ()) if _may_shrink(s, sizes)}
    if not owned or not found.get(For):
        return func
    if any(call.op in _LEAVES for call in found.get(Call, ())):
        return func
    for data in _list_used_otherwise(found, owned):
        owned.pop(data, None)
    if not owned:
        return func
    homes = [home for each in _accesses(func.body, owned) if (home := _home(each)) is not None]
    named = Counter(loop.loop_var for loop in found[For])
    homes = [home for home in homes if named[home.loop.loop_var] == 1]
    if not homes:
        return func
    body = _move_allocations(func.body, homes, owned)
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


def _sizes(func: PrimFunc) -> Analyzer:
    """Make an analyzer that knows that sizes of arrays are not negative."""
    analyzer = Analyzer()
    for var in {e: None for b in func.buffer_map.values() for e in b.shape if isinstance(e, Var)}:
        analyzer.assume_size(var, _ENDLESS >> 8)
    return analyzer


def _may_shrink(s: Allocate, sizes: Analyzer) -> bool:
    if s.condition is not TRUE or not isinstance(s.body, DeclBuffer):
        return False
    # An allocation that may fail must stay in place: it fails even if the loops never run.
    bounds = [sizes.const_int_bound(extent) for extent in s.extents]
    if not (all(low >= 0 for low, _ in bounds) and prod(b.max_value for b in bounds) <= _ENDLESS):
        return False
    buffer = s.body.buffer
    return (
        buffer.data is s.buffer_var
        and buffer.dtype is s.dtype
        and not buffer.strides
        and buffer.elem_offset is None
        and not buffer.axis_separators
        and bool(buffer.shape)
        and not s.annotations
    )


def _list_used_otherwise(found: dict[Any, list[Any]], owned: dict[Var, Allocate]) -> Iterator[Var]:
    """List memory that is used in other ways than by accesses of its buffer."""
    yield from (v for v in found.get(Var, ()) if v in owned)
    for access in loads_and_stores(found):
        data = access.buffer.data
        if data in owned:
            home = owned[data].body
            assert isinstance(home, DeclBuffer)
            if access.buffer is not home.buffer or any(i.dtype.lanes > 1 for i in access.indices):
                yield data
    for call in found.get(Call, ()):
        if call.op is ADDRESS_OF:
            yield from (e.buffer.data for e in by_class(call).get(BufferLoad, ()))
    for s in found.get(DeclBuffer, ()):
        if s.buffer.data in owned and owned[s.buffer.data].body is not s:
            yield s.buffer.data
    for s in found.get(AttrStmt, ()):
        if isinstance(s.node, (Var, Buffer)):
            yield s.node if isinstance(s.node, Var) else s.node.data


# -- accesses ------------------------------------------------------------------------------------
class _Access(NamedTuple):
    """A load or store, and the statements around it, from the declaration's body inwards."""

    node: BufferLoad | BufferStore
    around: tuple[Stmt, ...]

    @property
    def loops(self) -> list[For]:
        return [s for s in self.around if isinstance(s, For)]


def _accesses(body: Stmt, owned: dict[Var, Allocate]) -> Iterator[list[_Access]]:
    """List the accesses of each buffer in program order, if they are few."""
    accesses: dict[Var, list[tuple[BufferLoad | BufferStore, Stmt]]] = {}
    above: dict[int, Stmt] = {}
    for s in nodes_outside(body, PrimExpr):
        if not isinstance(s, Stmt):
            continue
        for part in children(s):
            if isinstance(part, Stmt):
                above[id(part)] = s
            elif isinstance(part, PrimExpr):
                for load in by_class(part).get(BufferLoad, ()):
                    if load.buffer.data in owned:
                        accesses.setdefault(load.buffer.data, []).append((load, s))
        if isinstance(s, BufferStore) and s.buffer.data in owned:
            accesses.setdefault(s.buffer.data, []).append((s, s))
    for data, each in accesses.items():
        made = [
            _Access(node, _list_around(s, owned[data].body, above)) for node, s in each[: _MOST + 1]
        ]
        if len(made) <= _MOST and all(access.around for access in made):
            yield made


def _list_around(s: Stmt, end: Stmt, above: dict[int, Stmt]) -> tuple[Stmt, ...]:
    """List the statements from below ``end`` to ``s``; none if they are too many."""
    made: list[Stmt] = []
    while s is not end:
        made.append(s)
        if len(made) > _MOST or id(s) not in above:
            return ()
        s = above[id(s)]
    return tuple(reversed(made))


# -- choosing the loop -----------------------------------------------------------------------------
class _Home(NamedTuple):
    """The loop in which each iteration allocates ``made`` in place of ``buffer``.

    ``starts`` has the first element along each axis; None if the axis stays whole.
    """

    loop: For
    buffer: Buffer
    made: Buffer
    starts: tuple[PrimExpr | None, ...]
    analyzer: Analyzer

    def indices(self, old: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return the indices in the smaller buffer."""
        return tuple(
            index if start is None else self.analyzer.simplify(Sub(index, start))
            for index, start in zip(old, self.starts, strict=True)
        )


def _home(accesses: list[_Access]) -> _Home | None:
    """Find the innermost loop in which a buffer can be allocated with a smaller size."""
    shared = _common_path([access.around for access in accesses])
    loops = [(n, s) for n, s in enumerate(shared) if isinstance(s, For)]
    # Lanes of a vector share memory that is allocated outside.
    loops = list(takewhile(lambda each: each[1].kind is not ForKind.VECTORIZED, loops))
    if not loops or not all(
        isinstance(s, _PASSED) for access in accesses for s in access.around[:-1]
    ):
        return None
    analyzer = Analyzer()
    if not _bind_loops(analyzer, accesses):
        return None
    for depth, loop in reversed(loops):
        inner = [_Access(a.node, a.around[depth + 1 :]) for a in accesses]
        if _keeps_to_itself(inner, analyzer):
            return _shrink(loop, inner, analyzer)
    return None


def _common_path(chains: list[tuple[Stmt, ...]]) -> list[Stmt]:
    """Return the statements around all accesses; for a single access, without its own one."""
    made: list[Stmt] = []
    for each in zip(*(chain[:-1] for chain in chains)):
        if any(s is not each[0] for s in each):
            break
        made.append(each[0])
    return made


def _bind_loops(analyzer: Analyzer, accesses: list[_Access]) -> bool:
    """Bind the range of every loop around an access; False if two loops share a variable."""
    known: dict[Var, For] = {}
    for access in accesses:
        for loop in access.loops:
            if known.setdefault(loop.loop_var, loop) is not loop:
                return False
    for var, loop in known.items():
        analyzer.bind(var, loop_range(loop))
    return True


def _keeps_to_itself(accesses: list[_Access], analyzer: Analyzer) -> bool:
    """Tell whether every loaded element has been stored before in the same iteration."""
    stores = [access for access in accesses if isinstance(access.node, BufferStore)]
    return all(
        any(_covers(store, access, analyzer) for store in stores)
        for access in accesses
        if isinstance(access.node, BufferLoad)
    )


def _covers(store: _Access, load: _Access, analyzer: Analyzer) -> bool:
    """Tell whether a store, over the loops around only it, precedes a load and covers it."""
    depth = len(_common_path([store.around, load.around]))
    common = store.around[:depth]
    if not common or not isinstance(common[-1], SeqStmt):
        return False
    first, second = store.around[depth], load.around[depth]
    order = [id(part) for part in common[-1].seq]
    if order.index(id(first)) >= order.index(id(second)):
        return False
    used = {v for index in store.node.indices for v in by_class(index).get(Var, ())}
    begin = _find_first_iterations(common, used)
    loops: list[For] = []
    for n, s in enumerate(store.around[depth:-1], depth):
        if isinstance(s, For):
            if not isinstance(s.extent, IntImm) or s.extent.value < 1:
                return False
            loops.append(s)
        elif isinstance(s, IfThenElse):
            if s.then_case is not store.around[n + 1]:
                return False
            if not analyzer.can_prove(substitute(s.condition, begin)):
                return False
        elif isinstance(s, LetStmt) and s.var in used:
            return False
    box = _box(store.node.indices, loops, analyzer)
    return box is not None and all(
        _is_within(index, start, 0, span - 1, analyzer)
        for index, (start, span) in zip(load.node.indices, box, strict=True)
    )


def _find_first_iterations(around: Sequence[Stmt], used: set[Var]) -> dict[Var, PrimExpr]:
    """Return the starts of loops whose first iteration stores for all later ones.

    Such a loop runs in order. The stored element, the iterations of the other loops, and whether
    the store is reached do not depend on it.
    """
    loops = [s for s in around if isinstance(s, For)]
    found = {
        s.loop_var: s.min
        for s in loops
        if s.loop_var not in used and s.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    }
    rest: list[PrimExpr] = [e for s in loops for e in (s.min, s.extent)]
    rest += [s.condition for s in around if isinstance(s, IfThenElse)]
    rest += [s.value for s in around if isinstance(s, LetStmt)]
    parts = [by_class(e) for e in rest]
    steady = all(BufferLoad not in each and Call not in each for each in parts)
    steady = steady and all(found.keys().isdisjoint(each.get(Var, ())) for each in parts)
    return found if steady else {}


def _is_within(index: PrimExpr, start: PrimExpr, low: int, high: int, analyzer: Analyzer) -> bool:
    found = _distance(index, start, analyzer)
    return found is not None and low <= found[0] and found[1] <= high


def _distance(index: PrimExpr, start: PrimExpr, analyzer: Analyzer) -> tuple[int, int] | None:
    """Return the least and the greatest distance of an index from ``start``."""
    if index.dtype is not start.dtype:
        return None
    bound = analyzer.const_int_bound(Sub(index, start))
    if bound.min_value == -inf or bound.max_value == inf:
        return None
    return int(bound.min_value), int(bound.max_value)


def _box(
    indices: Sequence[PrimExpr], loops: list[For], analyzer: Analyzer
) -> list[tuple[PrimExpr, int]] | None:
    """Return, for each axis, the start and the number of the elements that all iterations store.

    None if they have gaps, or if that is unknown.
    """
    begin = {loop.loop_var: loop.min for loop in loops}
    taken: set[Var] = set()
    made: list[tuple[PrimExpr, int]] = []
    for index in indices:
        start = substitute(index, begin)
        steps: list[tuple[int, int]] = []
        again: PrimExpr = start
        for loop in loops:
            var, one = loop.loop_var, IntImm(1, loop.loop_var.dtype)
            if var not in by_class(index).get(Var, ()):
                continue
            moved = substitute(index, {**begin, var: Add(loop.min, one)})
            step = analyzer.simplify(Sub(moved, start))
            if not isinstance(step, IntImm) or step.value < 1 or var in taken:
                return None
            taken.add(var)
            assert isinstance(loop.extent, IntImm)
            steps.append((step.value, loop.extent.value))
            if var.dtype is not index.dtype:
                return None
            again = Add(again, Mul(Sub(var, loop.min), IntImm(step.value, index.dtype)))
        span = 1
        for step, count in sorted(steps):
            if step > span:
                return None
            span += step * (count - 1)
        if steps and not analyzer.can_prove_equal(index, again):
            return None
        made.append((start, span))
    return made


def _shrink(loop: For, accesses: list[_Access], analyzer: Analyzer) -> _Home | None:
    """Return the part of the buffer that an iteration needs, None if it is more than half."""
    store = next((a for a in accesses if isinstance(a.node, BufferStore)), None)
    if store is None:
        return None
    buffer = store.node.buffer
    begin = {s.loop_var: s.min for s in store.loops}
    inside = {v for access in accesses for v in _list_bound(access.around)}
    shape: list[PrimExpr] = []
    starts: list[PrimExpr | None] = []
    before = after = 1
    for axis, (extent, index) in enumerate(zip(buffer.shape, store.node.indices, strict=True)):
        base = substitute(index, begin)
        found = None
        if inside.isdisjoint(by_class(base).get(Var, ())) and BufferLoad not in by_class(base):
            found = _range(base, [access.node.indices[axis] for access in accesses], analyzer)
        whole = extent.value if isinstance(extent, IntImm) else None
        if found is None or (whole is not None and found[1] - found[0] + 1 >= whole):
            shape.append(extent)
            starts.append(None)
            continue
        low, high = found
        size = high - low + 1
        if size > _LARGEST:
            return None
        before *= max(whole, 1) if whole is not None else 2 * size
        after *= size
        shape.append(IntImm(size, extent.dtype))
        starts.append(analyzer.simplify(Add(base, IntImm(low, base.dtype))))
    if before < 2 * after:
        return None
    made = Buffer(
        buffer.data,
        buffer.dtype,
        tuple(shape),
        name=buffer.name,
        data_alignment=buffer.data_alignment,
        offset_factor=buffer.offset_factor,
        buffer_type=buffer.buffer_type,
        span=buffer.span,
    )
    return _Home(loop, buffer, made, tuple(starts), analyzer)


def _list_bound(around: Sequence[Stmt]) -> Iterator[Var]:
    for s in around:
        if isinstance(s, For):
            yield s.loop_var
        elif isinstance(s, LetStmt):
            yield s.var


def _range(
    start: PrimExpr, indices: Iterable[PrimExpr], analyzer: Analyzer
) -> tuple[int, int] | None:
    """Return the least and the greatest distance of indices from ``start``."""
    found = [_distance(index, start, analyzer) for index in indices]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


# -- the program ---------------------------------------------------------------------------------
def _move_allocations(body: Stmt, homes: list[_Home], owned: dict[Var, Allocate]) -> Stmt:
    """Move the allocations into their loops."""
    by_buffer = {id(home.buffer): home for home in homes}
    by_loop: dict[Var, list[_Home]] = {}
    for home in homes:
        by_loop.setdefault(home.loop.loop_var, []).append(home)

    def load(e: BufferLoad) -> BufferLoad:
        home = by_buffer.get(id(e.buffer))
        return e if home is None else BufferLoad(home.made, home.indices(e.indices), span=e.span)

    def store(s: BufferStore) -> BufferStore:
        home = by_buffer.get(id(s.buffer))
        if home is None:
            return s
        return BufferStore(home.made, s.value, home.indices(s.indices), span=s.span)

    def leave(s: Allocate) -> Stmt:
        if isinstance(s.body, DeclBuffer) and id(s.body.buffer) in by_buffer:
            return s.body.body
        return s

    def enter(s: For) -> For:
        inner = s.body
        for home in reversed(by_loop.get(s.loop_var, [])):
            old = owned[home.buffer.data]
            declared = DeclBuffer(home.made, inner, span=home.buffer.span)
            inner = rebuild(old, {"extents": home.made.shape, "body": declared})
        return s if inner is s.body else rebuild(s, {"body": inner})

    return rewrite(body, {BufferLoad: load, BufferStore: store, Allocate: leave, For: enter})
