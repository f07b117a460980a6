"""Dependence test for vectorisation: whether iterations of a loop may become lanes of a vector.

``loops/dependence.py`` proves that iterations of a serial loop are independent. Here the program
has said so, by marking the loop: it stays serial only if the lanes of one vector meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any, Final, NamedTuple

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import TRANSFER, Interval
from loomir.arith.linear_form import read_sums
from loomir.ir.visit import of_classes, pre_order
from loomir.tir.analysis.effects import Effects, effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.calls import OUTSIDE
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Add, And, Call, Let, Mul, Or, PrimExpr, Var
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
)
from loomir.transform.tir.loops.speculative_reads import SafeReads

__all__ = ["LaneAccess", "Loop", "Refusal", "cannot_vectorize", "conflict", "study"]

_ALLOWED: Final = (
    SeqStmt,
    BufferStore,
    LetStmt,
    Allocate,
    DeclBuffer,
    For,
    IfThenElse,
    Evaluate,
    PrimExpr,
)


class Refusal(NamedTuple):
    """Why a rewrite does not apply; the text is formatted only when shown."""

    text: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.text.format(*self.values)


class Loop(NamedTuple):
    """The analysis of the body of a loop to be vectorised.

    ``varying`` are variables that may differ between lanes, ``own`` the data of buffers that each
    iteration allocates for itself, ``inner`` the variables that the body binds.
    """

    loop: For
    varying: frozenset[int]
    own: frozenset[int]
    inner: frozenset[int]

    def varies(self, e: PrimExpr) -> bool:
        """Tell whether an expression may differ between lanes."""
        for part in pre_order(e):
            if isinstance(part, Var) and id(part) in self.varying:
                return True
            if isinstance(part, BufferLoad) and id(part.buffer.data) in self.own:
                return True
        return False


def study(loop: For) -> Loop:
    """Find the variables that vary between the iterations of a loop."""
    varying = {id(loop.loop_var)}
    own: set[int] = set()
    inner: set[int] = set()
    for part in of_classes(loop.body, LetStmt, Let, Allocate, For):
        if isinstance(part, (LetStmt, Let)):
            inner.add(id(part.var))
            if Loop(loop, frozenset(varying), frozenset(own), frozenset()).varies(part.value):
                varying.add(id(part.var))
        elif isinstance(part, Allocate):
            own.add(id(part.buffer_var))
        else:
            inner.add(id(part.loop_var))
    return Loop(loop, frozenset(varying), frozenset(own), frozenset(inner))


def cannot_vectorize(known: Loop, reads: SafeReads) -> Refusal | None:
    """Return why the body cannot run once for all lanes, None if it can.

    Anything that may fail or has effects prevents it: with all lanes at once, failures and effects
    would not be in the order of the iterations.
    """
    allocated: dict[int, object] = {}
    reads.enter(known.loop.body)
    for part in pre_order(known.loop.body):
        why = _node(part, known, reads)
        if why is not None:
            return why
        if isinstance(part, Allocate):
            allocated[id(part.buffer_var)] = part.dtype
        elif isinstance(part, DeclBuffer):
            declared = allocated.get(id(part.buffer.data), part.buffer.dtype)
            if declared is not part.buffer.dtype:
                return Refusal("buffer {} reads memory as another dtype", (part.buffer.name,))
    return None


def _node(part: Any, known: Loop, reads: SafeReads) -> Refusal | None:
    if isinstance(part, AttrStmt) or not isinstance(part, _ALLOWED):
        return Refusal("the body has a {}", (type(part).__name__,))
    if isinstance(part, PrimExpr):
        return _expression(part, known, reads)
    if isinstance(part, For):
        if part.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return Refusal("an inner loop is not serial")
        if known.varies(part.min) or known.varies(part.extent):
            return Refusal("the bounds of inner loop {} vary", (part.loop_var.name_hint,))
    elif isinstance(part, IfThenElse):
        if known.varies(part.condition):
            return Refusal("a condition varies")
    elif isinstance(part, Allocate):
        if part.condition is not TRUE or any(known.varies(e) for e in part.extents):
            return Refusal("the size of an allocation varies")
    elif isinstance(part, DeclBuffer):
        if any(known.varies(e) for e in part.buffer.shape):
            return Refusal("the extent of buffer {} varies", (part.buffer.name,))
    elif isinstance(part, BufferStore):
        if id(part.buffer.data) not in known.own and not known.varies(part.indices[0]):
            return Refusal("all iterations store to one element of {}", (part.buffer.name,))
    elif isinstance(part, LetStmt) and part.var.dtype.is_handle:
        return Refusal("pointer {} is bound in the body", (part.var.name_hint,))
    return None


def _expression(e: PrimExpr, known: Loop, reads: SafeReads) -> Refusal | None:
    if e.dtype.lanes > 1:
        return Refusal("the body has vectors of its own")
    if isinstance(e, Call) and (e.dtype.is_handle or any(a.dtype.is_handle for a in e.args)):
        return Refusal("the body computes with pointers")
    if isinstance(e, BufferLoad) and e.buffer.dtype.lanes > 1:
        return Refusal("buffer {} holds vectors", (e.buffer.name,))
    does = effects_of_node(e)
    if does is not Effects.NOTHING:
        if does & Effects.FAILS:
            return Refusal("the body may fail")
        if does & Effects.ACTS:
            return Refusal("the body has effects beyond its stores")
    if isinstance(e, Call) and e.op in OUTSIDE:
        return Refusal("functions outside of the program take no vectors")
    if isinstance(e, (And, Or)):
        if known.varies(e) and effects(e.b) and not reads.are_safe(e.b):
            return Refusal("an operand that not all lanes evaluate reads memory")
    elif isinstance(e, Call) and e.op is IF_THEN_ELSE and known.varies(e.args[0]):
        if any(effects(value) and not reads.are_safe(value) for value in e.args[1:]):
            return Refusal("a value that not all lanes evaluate reads memory")
    elif e.dtype.is_handle and id(e) in known.own:
        return Refusal("a pointer to memory of one iteration is used")
    return None


class LaneAccess(NamedTuple):
    """An access of memory that iterations share: ``start`` plus ``step`` for each lane."""

    buffer: Buffer
    step: int | None
    start: PrimExpr
    stores: bool


def conflict(
    accesses: Iterable[LaneAccess],
    known: Loop,
    lanes: int,
    bounds: Bounds,
    pointers: frozenset[int],
) -> Refusal | None:
    """Find two accesses with a dependence between lanes, None if there are none.

    The language forbids that an iteration of such a loop reads what another one writes, so that
    undecided cases are taken to be independent. The loop stays serial if indices provably meet, or
    if they vary in inner loops in an unknown way. The memory at one of ``pointers``, which the
    program computed, may belong to any buffer.
    """
    by_data: dict[int, list[LaneAccess]] = {}
    for access in accesses:
        by_data.setdefault(id(access.buffer.data), []).append(access)
    if len(by_data) > 1 and pointers & by_data.keys():
        stores = any(a.stores for group in by_data.values() for a in group)
        if stores:
            return Refusal("a pointer may lead to memory of another buffer")
    for group in by_data.values():
        stores = [a for a in group if a.stores]
        for store in stores:
            if not store.step:
                if len(group) == 1 and not _moves(store.start, known):
                    continue
                return Refusal("stores to {} may meet", (store.buffer.name,))
            for other in group:
                if _meet(store, other, known, lanes, bounds):
                    return Refusal("accesses of {} meet", (store.buffer.name,))
    return None


def _moves(e: PrimExpr, known: Loop) -> bool:
    return any(id(part) in known.inner for part in pre_order(e))


def _meet(store: LaneAccess, other: LaneAccess, known: Loop, lanes: int, bounds: Bounds) -> bool:
    """Tell whether lanes access the same element, certainly or possibly by inner loops."""
    if store.step is None or other.step is None:
        return True
    if other.step == 0 and not other.stores:
        return not _is_clear(store, other, known, lanes, bounds)
    if store.step != other.step:
        return True
    written, used = read_sums(store.start, other.start)
    difference = written.plus(used, -1)
    # A variable of an inner loop has independent values in the two accesses.
    moving = [
        (term, factor * sign)
        for form, sign in ((written, 1), (used, -1))
        for term, factor in form.terms.items()
        if _moves(term, known)
    ]
    grain = gcd(*(factor for _, factor in moving))
    if any(not _moves(term, known) for term in difference.terms):
        return grain != 0
    low, high = _range_of_sum(moving, difference.constant, bounds)
    # Lanes at a distance of t meet if step * t is among low, low + grain, …, high.
    reach = [store.step * t for t in range(1 - lanes, lanes) if t]
    reached = (m for m in reach if low <= m <= high)
    return any(grain == 0 or (m - difference.constant) % grain == 0 for m in reached)


def _range_of_sum(terms: Iterable[tuple[PrimExpr, int]], constant: int, bounds: Bounds) -> Interval:
    """Bound a sum of terms times factors, plus a constant."""
    made = Interval(constant, constant)
    for term, factor in terms:
        made = TRANSFER[Add](made, TRANSFER[Mul](bounds.of(term), Interval(factor, factor)))
    return made


def _is_clear(store: LaneAccess, load: LaneAccess, known: Loop, lanes: int, bounds: Bounds) -> bool:
    """Tell whether an element that all lanes read lies before or after all that they store."""
    assert store.step is not None
    if _moves(store.start, known) or _moves(load.start, known):
        return False
    read, written = read_sums(load.start, store.start)
    difference = read.plus(written, -1)
    low, high = _range_of_sum(difference.terms.items(), difference.constant, bounds)
    ends = (0, store.step * (lanes - 1))
    return high < min(ends) or low > max(ends)
