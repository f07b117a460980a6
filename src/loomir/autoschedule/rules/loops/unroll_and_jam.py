"""Jam two iterations of an independent loop, each a sum of floats whose length varies.

Each addition of such a sum waits for the one before it, longer than the rest of a step takes. The
sums of two iterations advance together in one loop as long as the shorter sum; the rest of the
longer sum follows. Rows of 20 to 70 non-zeros of a sparse matrix then take 0.7 to 0.8 of the time
(float64, on an AMD EPYC, Zen 3). Sums of constant length are lifted, and have rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from loomir.arith.fold import fold_expr, imm, imm64, int64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX
from loomir.ir.equality import are_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rebuild, rewrite
from loomir.loops.dependence import explain_dependence
from loomir.loops.nests import is_serial
from loomir.loops.ranges import ranges_in
from loomir.tir.analysis.copy_statement import fresh_copies, fresh_copy
from loomir.tir.buffer import BufferLoad, Range
from loomir.tir.expr import GE, Add, Call, Cast, IntImm, Max, Min, PrimExpr, Var
from loomir.tir.stmt import (
    Allocate,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)

__all__ = ["jam_reductions"]

_ROWS: Final = 2
"""Iterations that advance together. More are seldom of similar lengths."""
_LONG: Final = 16
"""Steps of a sum, on average, from which it pays to advance two sums together."""
_SHORT: Final = 16
"""Operations of a step that a core starts while one addition of floats is in flight."""

_Wrapper = Callable[[Stmt], Stmt]
"""Puts a part of an iteration before, or around, the rest of it."""


def jam_reductions(stmt: Stmt, around: Mapping[Var, Range]) -> Stmt:
    """Jam loops without dependences whose iterations each are a sum.

    ``around`` are the loops around the statement.
    """
    ranges = {**around, **ranges_in(stmt)}

    def jam(loop: For) -> Stmt:
        if loop.kind not in (ForKind.SERIAL, ForKind.PARALLEL) or loop.annotations:
            return loop
        row = _read_row(loop.body)
        if row is None or number(row.steps.extent) is not None or not _waits(row.steps):
            return loop
        long = _are_long(row.steps, loop)
        if long is False:
            return loop
        outer = {var: r for var, r in ranges.items() if var is not loop.loop_var}
        if explain_dependence(loop, outer):
            return loop
        return _jam(loop) if long is True else IfThenElse(long, _jam(loop), fresh_copy(loop, {}))

    return rewrite(stmt, {For: jam})


def _are_long(steps: For, loop: For) -> PrimExpr | bool:
    """Tell whether sums are long on average, by the size of what their steps read one by one.

    To jam rows of up to 10 non-zeros takes 1.2 of the time (on a Zen 4): when a row ends is then
    mispredicted three times instead of once.
    """
    sizes: list[PrimExpr] = []
    for load in by_class(steps.body).get(BufferLoad, ()):
        (*_, last), (*_, size) = load.indices or (None,), load.buffer.shape or (None,)
        if last is None or size is None or len(load.indices) != 1 or load.buffer.strides:
            continue
        if steps.loop_var in _list_terms(last):
            sizes.append(int64(size))
    if not sizes:
        return True
    rows = int64(loop.extent)
    long = fold_expr(GE(sizes[0], rows * imm64(_LONG)))
    return bool(long.value) if isinstance(long, IntImm) else long


def _list_terms(index: PrimExpr) -> list[PrimExpr]:
    """List what is added up in an index."""
    found: list[PrimExpr] = []
    pending = [index]
    while pending:
        part = pending.pop()
        if isinstance(part, Add):
            pending += part.a, part.b
        elif isinstance(part, Cast):
            pending.append(part.value)
        else:
            found.append(part)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """An iteration: the loop of its sum, and what is before and after it."""

    before: tuple[_Wrapper, ...]
    steps: For
    after: tuple[Stmt, ...]


def _read_row(body: Stmt) -> _Row | None:
    """Split an iteration at the only loop in it; None if it has none or several."""
    before: list[_Wrapper] = []
    while True:
        if isinstance(body, (Allocate, DeclBuffer, LetStmt)):
            before.append(lambda rest, outer=body: rebuild(outer, {"body": rest}))
            body = body.body
            continue
        parts = body.seq if isinstance(body, SeqStmt) else (body,)
        loops = [k for k, part in enumerate(parts) if isinstance(part, For)]
        straight = parts[: loops[0]] if loops else parts[:-1]
        if any(by_class(part).keys() & {For, While} for part in straight):
            return None
        before += map(_put_before, straight)
        if loops:
            break
        if isinstance(body, SeqStmt):
            body = parts[-1]
            continue
        return None
    steps, after = parts[loops[0]], parts[loops[0] + 1 :]
    assert isinstance(steps, For)
    if any(by_class(part).keys() & {For, While} for part in (steps.body, *after)):
        return None
    return _Row(tuple(before), steps, tuple(after))


def _put_before(part: Stmt) -> _Wrapper:
    return lambda rest: seq((part, rest))


def _waits(steps: For) -> bool:
    """Whether each step waits for an operation on floats in the step before it, and is short."""
    found = by_class(steps.body)
    if not is_serial(steps) or Call in found:
        return False
    work = sum(len(v) for c, v in found.items() if issubclass(c, PrimExpr))
    if work - sum(len(found.get(cls, ())) for cls in (Var, IntImm)) > _SHORT:
        return False
    moving = {steps.loop_var}
    for let in found.get(LetStmt, ()):
        if moving & set(by_class(let.value).get(Var, ())):
            moving.add(let.var)
    for realize in found.get(BlockRealize, ()):
        for it, value in zip(realize.block.iter_vars, realize.values):
            if moving & set(by_class(value).get(Var, ())):
                moving.add(it.var)
    return any(_accumulates(store, moving) for store in found.get(BufferStore, ()))


def _accumulates(store: BufferStore, moving: set[Var]) -> bool:
    """Whether a store updates a float that is the same in all steps."""
    if not store.buffer.dtype.is_float:
        return False
    if any(moving & set(by_class(index).get(Var, ())) for index in store.indices):
        return False
    return any(
        load.buffer is store.buffer and are_equal(load.indices, store.indices)
        for load in by_class(store.value).get(BufferLoad, ())
    )


def _jam(loop: For) -> Stmt:
    """Return the loop over pairs, and the iteration that is left of an odd number."""
    # `range(2, 1)` has an extent of -1, of which the remainder by two is one iteration.
    loop = rebuild(loop, {"extent": fold_expr(Max(loop.extent, imm(0, loop.loop_var.dtype)))})
    var, size = loop.loop_var, imm(_ROWS, loop.loop_var.dtype)
    places = [fold_expr(loop.min + (var * size + imm(r, var.dtype))) for r in range(_ROWS)]
    rows: list[_Row] = []
    for copy in fresh_copies(loop.body, [{var: place} for place in places]):
        row = _read_row(copy)
        assert row is not None
        rows.append(row)
    inner = seq((_advance([row.steps for row in rows]), *chain(*zip(*(r.after for r in rows)))))
    for wrap in reversed([*chain(*zip(*(row.before for row in rows)))]):
        inner = wrap(inner)
    zero = imm(0, var.dtype)
    pairs = rebuild(loop, {"min": zero, "extent": fold_expr(loop.extent // size), "body": inner})
    left = fold_expr(loop.extent % size)
    if number(left) == 0:
        return pairs
    last = Var(var.name_hint, var.dtype)
    first = fold_expr(loop.min + loop.extent // size * size)
    return seq((pairs, For(last, first, left, ForKind.SERIAL, fresh_copy(loop.body, {var: last}))))


def _advance(rows: Sequence[For]) -> Stmt:
    """Run the loops of some iterations together while all have steps, and then one by one."""
    starts: list[PrimExpr] = []
    counts: list[Var] = []
    names: list[tuple[Var, PrimExpr]] = []
    for row in rows:
        start, count = row.min, Var("steps", INDEX)
        if number(start) is None:
            named = Var("start", start.dtype)
            names.append((named, start))
            start = named
        names.append((count, fold_expr(Cast(row.extent, INDEX))))
        starts.append(start)
        counts.append(count)
    both = Var("both", INDEX)
    shortest: PrimExpr = counts[0]
    for count in counts[1:]:
        shortest = Min(shortest, count)
    names.append((both, Max(shortest, imm64(0))))
    bodies = [_index_by_number(row, start) for row, start in zip(rows, starts)]

    def run(first: PrimExpr, extent: PrimExpr, which: Sequence[Callable[[PrimExpr], Stmt]]) -> Stmt:
        step = Var(rows[0].loop_var.name_hint, INDEX)
        body = seq([body(fold_expr(first + step)) for body in which])
        return For(step, imm64(0), extent, ForKind.SERIAL, body)

    rest = [run(both, count - both, [body]) for count, body in zip(counts, bodies)]
    made = seq((run(imm64(0), both, bodies), *rest))
    for name, value in reversed(names):
        made = LetStmt(name, value, made)
    return made


def _index_by_number(loop: For, start: PrimExpr) -> Callable[[PrimExpr], Stmt]:
    """Return what makes a step by its number; places are computed in int64, without overflow."""
    var, first = loop.loop_var, fold_expr(Cast(start, INDEX))

    def make_step(step: PrimExpr) -> Stmt:
        place = fold_expr(first + step)

        def load(e: BufferLoad) -> BufferLoad:
            if not any(index is var for index in e.indices):
                return e
            indices = tuple([place if index is var else index for index in e.indices])
            return BufferLoad(e.buffer, indices, span=e.span)

        value = fold_expr(start + fold_expr(Cast(step, var.dtype)))
        body = substitute(rewrite(loop.body, {BufferLoad: load}), {var: value})
        return fresh_copy(body, {})

    return make_step
