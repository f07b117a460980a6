"""Reductions over outer axes (columns), and split reductions of many elements to few results.

Columns: rows are read in the order of memory, and accumulated into as many results as fit in L1.
Split reductions: pieces are reduced to partial results, and these are combined in order. The size
of pieces depends only on extents, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from loomir.arith.fold import imm64, product
from loomir.autoschedule.builders.evaluate import (
    number,
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.reduction_ops import accumulate, identity
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import is_long, is_worth, parallelize, task_size
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rules.elementwise.elementwise import is_heavy, values_join
from loomir.autoschedule.rules.reduction.memory_streams import choose_load_options
from loomir.autoschedule.rules.reduction.row_fusion import FEW, lies_inside
from loomir.autoschedule.rules.reduction.row_sweep import (
    Piece,
    Place,
    Walk,
    may_skip,
    run_pass,
    run_start,
)
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, Min, PrimExpr, Var
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["plan_columns", "plan_partial"]

_PIECES: Final = 64
"""The most partial results for one element, if sizes are static."""
_ROWS: Final = 64
"""Least rows of a piece, each of which makes a partial result."""
_TOGETHER: Final = 4
"""Unroll factor of rows, so that results are loaded and stored less often."""
_STEPS: Final = 4096
"""Elements that are assumed where an extent is dynamic."""


def _wide(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    return tuple(axis for axis in axes if axis.size != 1)


def _units(stage: Stage) -> dict[Var, PrimExpr]:
    axes = (*stage.axes, *stage.reduced)
    return {axis.var: imm64(0) for axis in axes if axis.size == 1}


def _is_plain(stage: Stage) -> bool:
    """Whether a stage reduces, and its elements are scalars."""
    if stage.combine is Combine.NONE or stage.buffer.dtype.lanes != 1:
        return False
    return not any(axis.size == 0 for axis in (*stage.axes, *stage.reduced))


def _size(axes: Sequence[Axis]) -> int | None:
    return number(product(axis.extent for axis in axes))


def _guard_empty(stage: Stage, stmt: Stmt) -> Stmt:
    if not may_skip(stage) or all(axis.size is not None for axis in stage.reduced):
        return stmt
    return IfThenElse(imm64(0) < product(axis.extent for axis in stage.reduced), stmt)


def _combination(stage: Stage, partial: Buffer, pieces: PrimExpr, place: Place) -> Walk:
    """Return the stage that reduces partial results to the element at a place."""
    axis = Axis(Var("piece", INDEX), pieces)
    where = tuple(place[a.var] for a in storage_order(stage) if a.size != 1)
    value = BufferLoad(partial, (*where, axis.var))
    return Walk(replace(stage, reduced=(axis,), value=value, block=None), place, (axis,))


def plan_partial(stage: Stage, target: Target) -> Plan | None:
    """Plan a split reduction of many elements to few results; None for others."""
    if not stage.free_order or not _is_plain(stage):
        return None
    outer, inside = tuple(a for a in storage_order(stage) if a.size != 1), _wide(stage.reduced)
    count, steps = _size(outer), _size(inside)
    if not inside or count is None or count >= FEW or not lies_inside(stage):
        return None
    cost = time_of(stage.value, stage.buffer.dtype)
    if steps is not None and not (is_worth(count * steps * cost) and is_long(steps * cost)):
        return None
    walk = Walk(stage, _units(stage), inside)
    start = run_start([walk])
    elements = None if steps is None else count * steps
    reading = choose_load_options([stage], elements, target, only=True)
    cut = inside if start == 0 else inside[:1]
    whole = product(axis.extent for axis in cut)
    each = cost
    for axis in inside[len(cut) :]:
        each *= _STEPS if axis.size is None else axis.size
    size = _piece_size(number(whole), each, grain=64 if start == 0 else 1)
    pieces = (whole + imm64(size - 1)) // imm64(size)
    shape = [*(axis.extent for axis in outer), pieces]
    partial = scratch(f"{stage.name}_parts", shape, stage.buffer.dtype)

    def piece(t: PrimExpr) -> Stmt:
        k = t % pieces
        place = {**_units(stage), **unravel_index(t // pieces, outer)}
        indices = (*(axis.var for axis in outer), k)
        nothing = identity(stage.combine, stage.buffer.dtype)
        part = replace(stage, buffer=partial, indices=indices, init=nothing, block=None)
        left = whole - k * imm64(size)
        known = number(whole)
        extent = imm64(size) if known is not None and known % size == 0 else Min(imm64(size), left)
        span = Piece(k * imm64(size), extent)
        return run_pass([Walk(part, place, inside)], target, span, reading=reading)

    total = product(axis.extent for axis in outer)
    first, how = parallelize(total * pieces, each * size, "pieces", piece)

    def finish(t: PrimExpr) -> Stmt:
        place = {**_units(stage), **unravel_index(t, outer)}
        return run_pass([_combination(stage, partial, pieces, place)], target)

    stmt = allocate([partial], first, loop("item", total, finish))
    unit = "elements" if start == 0 else f"steps of {cut[0].var.name_hint}"
    text = f"pieces of {size} {unit} are combined each by itself, then their results, in order"
    choices = (text, how, *reading.texts())
    return Plan("reduction in two steps", _guard_empty(stage, stmt), choices)


def _piece_size(whole: int | None, each: float, grain: int) -> int:
    """Choose how many steps make a piece: a task at least, and not too many pieces."""
    size = task_size(each)
    if whole is not None:
        size = max(size, -(-whole // _PIECES))
    return -(-size // grain) * grain


class _Columns(NamedTuple):
    """The roles of the axes in a reduction over outer axes."""

    stage: Stage
    outer: tuple[Axis, ...]
    run: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    width: int
    lanes: int


def plan_columns(stage: Stage, target: Target) -> Plan | None:
    """Plan a reduction whose results are contiguous as its terms are; None for others."""
    if not _is_plain(stage):
        return None
    found = _columns(stage, target)
    if found is None:
        return None
    count, steps, length = _size(found.outer), _size(found.reduced), _size(found.run)
    cost = time_of(stage.value, stage.buffer.dtype)
    size = stage.buffer.dtype.itemsize
    block = max(found.width, target.caches[0] // 2 // size // found.width * found.width)
    if length is not None:
        block = min(block, length)
    blocks = (product(a.extent for a in found.run) + imm64(block - 1)) // imm64(block)
    known_blocks = number(blocks)
    each = cost * block * (_STEPS if steps is None else steps)
    tasks = None if count is None or known_blocks is None else count * known_blocks
    if tasks is not None and tasks < FEW and stage.free_order and is_long(each):
        per_row = cost * block
        for axis in found.reduced[1:]:
            per_row *= _STEPS if axis.size is None else axis.size
        rows = max(_piece_size(found.reduced[0].size, per_row, 1), _ROWS)
        whole = found.reduced[0].size
        if whole is None or whole >= 2 * rows:
            return _reduce_in_pieces(found, block, blocks, rows, per_row)
    if _is_narrow(found) or not _reads_rows(found):
        return None

    def task(t: PrimExpr) -> Stmt:
        row = {**_units(stage), **unravel_index(t // blocks, found.outer)}
        piece = _block(found, block, t % blocks)
        everything = Piece(imm64(0), found.reduced[0].extent)
        return _accumulate(found, row, piece, everything, None)

    total = product(a.extent for a in found.outer) * blocks
    stmt, how = parallelize(total, each, "blocks of columns", task)
    text = f"rows are added up in order, {block} results at a time, which stay in the first cache"
    return Plan("columns", _guard_empty(stage, stmt), (text, how))


def _is_narrow(found: _Columns) -> bool:
    """Whether all results fit in registers, or few rows are reduced."""
    length, steps = _size(found.run), _size(found.reduced)
    few = steps is not None and steps < 2 * _TOGETHER
    return few or (length is not None and length <= 4 * found.lanes)


def _reads_rows(found: _Columns) -> bool:
    """Whether each step of the reduction reads a row of its own, in the order of memory.

    Else registers hold results better: a filter along the run, or bits of one element.
    """
    run = {axis.var for axis in found.run}
    steps = {axis.var for axis in found.reduced}
    for load in by_class(found.stage.value).get(BufferLoad, ()):
        if not load.indices:
            continue
        *outer, last = (set(by_class(index).get(Var, ())) for index in load.indices)
        if run & last and any(steps & names for names in outer):
            return True
    return False


def _reduce_in_pieces(
    found: _Columns, block: int, blocks: PrimExpr, rows: int, per_row: float
) -> Plan:
    """Reduce pieces of the rows to partial results, then these."""
    stage = found.stage
    whole = found.reduced[0].extent
    pieces = (whole + imm64(rows - 1)) // imm64(rows)
    shape = [*(a.extent for a in found.outer), pieces, *(a.extent for a in found.run)]
    partial = scratch(f"{stage.name}_parts", shape, stage.buffer.dtype)

    def piece(t: PrimExpr) -> Stmt:
        place = {**_units(stage), **unravel_index(t // blocks // pieces, found.outer)}
        k = t // blocks % pieces
        extent: PrimExpr = Min(imm64(rows), whole - k * imm64(rows))
        if found.reduced[0].size is not None and found.reduced[0].size % rows == 0:
            extent = imm64(rows)
        part = (partial, (*(place[axis.var] for axis in found.outer), k))
        steps = Piece(k * imm64(rows), extent)
        return _accumulate(found, place, _block(found, block, t % blocks), steps, part)

    total = product(a.extent for a in found.outer) * blocks
    first, how = parallelize(total * pieces, per_row * rows, "pieces", piece)
    axis = Axis(Var("piece", INDEX), pieces)
    indices = (*(a.var for a in (*found.outer,)), axis.var, *(a.var for a in found.run))
    value = BufferLoad(partial, indices)
    last = replace(stage, reduced=(axis,), value=value, block=None)
    ends = found._replace(stage=last, reduced=(axis,))

    def finish(t: PrimExpr) -> Stmt:
        place = {**_units(stage), **unravel_index(t // blocks, found.outer)}
        everything = Piece(imm64(0), pieces)
        return _accumulate(ends, place, _block(found, block, t % blocks), everything, None)

    stmt = allocate([partial], first, loop("item", total, finish))
    text = f"pieces of {rows} {found.reduced[0].var.name_hint} are each added up, {block} columns "
    choices = (text + "at a time, then their results, in order", how)
    return Plan("columns in two steps", _guard_empty(stage, stmt), choices)


def _columns(stage: Stage, target: Target) -> _Columns | None:
    """Match the axes of a reduction; None if results and terms differ in their contiguous axes."""
    placed, reduced = [a for a in storage_order(stage) if a.size != 1], _wide(stage.reduced)
    if not placed or not reduced:
        return None
    last = placed[-1]
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    along = 0
    for load in loads:
        places = [k for k, i in enumerate(load.indices) if last.var in by_class(i).get(Var, ())]
        if places == [len(load.indices) - 1]:
            along += 1
        elif places:
            return None
    if not along or (stage.indices[-1] is not last.var and not _is_last(stage, last)):
        return None
    start = len(placed) - 1
    target_load = BufferLoad(stage.buffer, stage.indices)
    while start > 0:
        run = placed[start - 1 :]
        if not values_join(stage.value, run) or not values_join(target_load, run):
            break
        start -= 1
    run = tuple(placed[start:])
    bits = max(8, widest(stage.value, stage.buffer.dtype))
    lanes, length = min(64, target.lanes(bits)), _size(run)
    while length is not None and lanes > max(1, length):
        lanes //= 2
    width = lanes if is_heavy(stage.value) else min(64, 2 * lanes)
    while length is not None and width > max(lanes, length):
        width //= 2
    return _Columns(stage, tuple(placed[:start]), run, reduced, width, lanes)


def _is_last(stage: Stage, axis: Axis) -> bool:
    used = [k for k, i in enumerate(stage.indices) if axis.var in by_class(i).get(Var, ())]
    return used == [len(stage.indices) - 1] or all(
        isinstance(i, IntImm) for i in stage.indices[used[0] + 1 :]
    )


def _block(found: _Columns, block: int, index: PrimExpr) -> Piece:
    length = product(axis.extent for axis in found.run)
    known = number(length)
    if known is not None and known % block == 0:
        return Piece(index * imm64(block), imm64(block))
    return Piece(index * imm64(block), Min(imm64(block), length - index * imm64(block)))


def _accumulate(
    found: _Columns,
    row: Place,
    columns: Piece,
    rows: Piece,
    part: tuple[Buffer, tuple[PrimExpr, ...]] | None,
) -> Stmt:
    """Accumulate rows in a block of columns; partial results (``part``) start from the identity."""
    stage = found.stage
    steps = 1 if is_heavy(stage.value) else _TOGETHER

    def accumulator(place: Place) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        if part is not None:
            return part[0], (*part[1], *(place[axis.var] for axis in found.run))
        return stage.buffer, tuple(value_at(i, place) for i in stage.indices)

    def across(body: Callable[[Place], Stmt]) -> Stmt:
        """Do something for each column."""

        def cover_vector(first: PrimExpr, size: int) -> Stmt:
            def lane(x: PrimExpr) -> Stmt:
                return body({**row, **unravel_index(first + x if size > 1 else first, found.run)})

            return vectorize("lane", size, lane) if size > 1 else lane(imm64(0))

        sizes = sorted({found.width, found.lanes, 1}, reverse=True)
        return seq(strip_mine(columns.first, columns.extent, sizes, cover_vector))

    def start(place: Place) -> Stmt:
        buffer, indices = accumulator(place)
        value = identity(stage.combine, stage.buffer.dtype)
        if part is None:
            assert stage.init is not None
            value = value_at(stage.init, place)
        return BufferStore(buffer, value, indices)

    def join(known: Sequence[Place]) -> Stmt:
        def add_terms(place: Place) -> Stmt:
            buffer, indices = accumulator(place)
            value: PrimExpr = BufferLoad(buffer, indices)
            for reduced in known:
                value = accumulate(
                    stage.combine, value, value_at(stage.value, {**place, **reduced})
                )
            return BufferStore(buffer, value, indices)

        return across(add_terms)

    def nest(k: int, known: Place) -> Stmt:
        axis = found.reduced[k]
        low, extent = rows if k == 0 else (imm64(0), axis.extent)
        name = axis.var.name_hint
        if k < len(found.reduced) - 1:
            return loop(name, extent, lambda i: nest(k + 1, {**known, axis.var: low + i}))
        if steps == 1:
            return loop(name, extent, lambda i: join([{**known, axis.var: low + i}]))
        size = imm64(steps)

        def several(i: PrimExpr) -> Stmt:
            first = low + i * size
            return join([{**known, axis.var: first + imm64(n)} for n in range(steps)])

        done = extent // size * size
        return seq(
            (
                loop(name, extent // size, several),
                loop(
                    name,
                    extent - done,
                    lambda i: join([{**known, axis.var: low + done + i}]),
                ),
            )
        )

    begins = [across(start)] if part is not None or stage.init is not None else []
    return seq((*begins, nest(0, {})))
