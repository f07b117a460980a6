"""Reductions that select an element by value and index, as ``argmax`` does.

Along an axis of the result, lanes compute neighbouring results in program order. Along the reduced
axis, each lane selects among its own elements, and the lanes are reduced last: the selection must
be associative and commutative, which is proved by trying all orderings of three elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64, product
from loomir.autoschedule.builders.evaluate import (
    number,
    storage_order,
    time_of,
    unravel_index,
    value_at,
)
from loomir.autoschedule.builders.loops import allocate, loop, scratch
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import is_long, is_worth, parallelize, task_size
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.reduction.column_selection import plan_columns
from loomir.autoschedule.rules.reduction.element_choice import (
    SelectedElement,
    begin_elements,
    choose_elements,
    local_buffers,
    read_terms_at,
    unit_axes,
)
from loomir.autoschedule.rules.reduction.lane_search import LaneSearch, find_lane_search
from loomir.autoschedule.rules.reduction.recognise_selection import Selection, read_selection
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    Min,
    PrimExpr,
    Var,
)
from loomir.tir.stmt import IfThenElse, Stmt, seq

__all__ = ["plan_choice"]

_FEW: Final = 16
_PIECES: Final = 64
"""Up to ``_FEW`` results are found by splitting the reduction into at most ``_PIECES`` pieces,
enough for the threads of most machines: both were not tuned.
"""
_STEPS: Final = 4096
"""Elements that are assumed where an extent is dynamic."""
_TIME: Final = 0.2
"""Nanoseconds of an element, without its memory."""
_VECTORS: Final = 4
"""Vectors of the widest buffer that advance together, to hide the latency of a selection."""
_Place = Mapping[Var, PrimExpr]


def plan_choice(stmt: Stmt, target: Target) -> Plan | None:
    """Plan a block that selects; None for others."""
    found = read_selection(stmt, target)
    if found is None:
        return None
    first = found.first
    outer = tuple(axis for axis in storage_order(first) if axis.size != 1)
    inside = tuple(axis for axis in first.reduced if axis.size != 1)
    if not inside or any(axis.size == 0 for axis in inside):
        return None  # a block that never runs does not even initialise
    each = sum(time_of(stage.value, stage.buffer.dtype) for stage in found.stages) + _TIME
    steps = number(product(axis.extent for axis in inside)) or _STEPS
    width = _VECTORS * found.lanes
    if found.free_order and _lies_along(found, inside[-1]):
        row = inside[-1]
        turns = find_lane_search(found.stages, found.old, found.new, found.keep, row, target)
        found = replace(found, turns=turns and turns.fit_row(row.size))
        return _guard(found, _select_in_lanes(found, outer, inside, width, each, steps))
    if outer and _lies_along(found, outer[-1]) and _stores_along(found, outer[-1]):
        return _guard(found, plan_columns(found, outer, inside, width, each * steps, target))
    return None


def _guard(found: Selection, plan: Plan) -> Plan:
    if all(axis.size is not None for axis in found.first.reduced):
        return plan
    some = imm64(0) < product(axis.extent for axis in found.first.reduced)
    return Plan(plan.kind, IfThenElse(some, plan.stmt), plan.choices)


def _lies_along(found: Selection, axis: Axis) -> bool:
    """Whether every load that uses an axis is contiguous along it."""
    loads = [p for s in found.stages for p in by_class(s.value).get(BufferLoad, ())]
    along = 0
    for load in loads:
        places = [k for k, i in enumerate(load.indices) if axis.var in by_class(i).get(Var, ())]
        if places == [len(load.indices) - 1]:
            along += 1
        elif places:
            return False
    return along > 0


def _stores_along(found: Selection, axis: Axis) -> bool:
    return all(stage.indices[-1] is axis.var for stage in found.stages)


_Span = tuple[PrimExpr, PrimExpr]


def _row(
    found: Selection,
    place: _Place,
    inside: Sequence[Axis],
    part: _Span,
    width: int,
    result: Sequence[tuple[Buffer, Sequence[PrimExpr]]],
) -> Stmt:
    """Select among a row, or a part of its first axis: in lanes, then among lanes."""
    wide, single = local_buffers(found, width, "lanes"), local_buffers(found, 1, "best")
    keep = scratch("keep", (width,), DataType("bool"), "local")

    def lanes(x: PrimExpr) -> SelectedElement:
        return SelectedElement(found, [(buffer, (x,)) for buffer in wide])

    def best(_: PrimExpr) -> SelectedElement:
        return SelectedElement(found, [(buffer, (imm64(0),)) for buffer in single])

    def nest(k: int, known: _Place) -> Stmt:
        axis = inside[k]
        first, extent = part if k == 0 else (imm64(0), axis.extent)
        if k < len(inside) - 1:
            name = axis.var.name_hint
            return loop(name, extent, lambda i: nest(k + 1, {**known, axis.var: first + i}))

        def step(begin: PrimExpr, size: int) -> Stmt:
            def read_terms(x: PrimExpr) -> list[PrimExpr]:
                return read_terms_at(found, {**known, axis.var: begin + x})

            return choose_elements(found, size, keep, lanes if size > 1 else best, read_terms)

        if found.turns is not None:
            return search_in_turns(found.turns, axis, known, (first, extent))
        return seq(strip_mine(first, extent, (width, 1), step))

    def search_in_turns(turns: LaneSearch, axis: Axis, known: _Place, part: _Span) -> Stmt:
        first, extent = part

        def term(k: int, i: PrimExpr) -> PrimExpr:
            return value_at(found.stages[k].value, {**known, axis.var: first + i})

        def take(value: PrimExpr, i: PrimExpr) -> Stmt:
            coming = [term(k, i) if k == turns.place else value for k in range(2)]
            return choose_elements(found, 1, keep, best, lambda _: coming)

        made = turns.search(extent, lambda i: term(1 - turns.place, i), take)
        if (number(extent) or 0) >= turns.width:
            return made

        def choose_step(i: PrimExpr) -> Stmt:
            terms = read_terms_at(found, {**known, axis.var: first + i})
            return choose_elements(found, 1, keep, best, lambda _: terms)

        return IfThenElse(imm64(turns.width) <= extent, made, loop("i", extent, choose_step))

    def join(size: int) -> Stmt:
        def read_lanes(x: PrimExpr) -> list[PrimExpr]:
            return lanes(imm64(size) + x).values()

        return choose_elements(found, size, keep, lanes, read_lanes)

    def ends() -> list[Stmt]:
        halves = [width >> k for k in range(1, width.bit_length())]
        combined = [join(size) for size in halves]
        return [*combined, choose_elements(found, 1, keep, best, lambda x: lanes(x).values())]

    kept = SelectedElement(found, result)
    last = [kept.put(k, value) for k, value in enumerate(best(imm64(0)).values())]
    starts = [begin_elements(found, 1, best)]
    if found.turns is not None:
        return allocate([*single, keep], *starts, nest(0, place), *last)
    starts.insert(0, begin_elements(found, width, lanes))
    return allocate([*wide, *single, keep], *starts, nest(0, place), *ends(), *last)


def _select_in_lanes(
    found: Selection,
    outer: Sequence[Axis],
    inside: Sequence[Axis],
    width: int,
    each: float,
    steps: int,
) -> Plan:
    length = number(inside[-1].extent)
    while length is not None and width > max(2, length):
        width //= 2
    count, rows = product(axis.extent for axis in outer), number(product(a.extent for a in outer))
    lanes = width if found.turns is None else found.turns.width
    text = f"{lanes} lanes choose among their own along {inside[-1].var.name_hint}, then among them"
    if rows is not None and rows < _FEW and is_long(each * steps) and is_worth(each * steps * rows):
        return _select_in_pieces(found, outer, inside, width, each, text)

    def item(t: PrimExpr) -> Stmt:
        place = {**unit_axes(found), **unravel_index(t, outer)}
        result = [(s.buffer, [value_at(i, place) for i in s.indices]) for s in found.stages]
        return _row(found, place, inside, (imm64(0), inside[0].extent), width, result)

    stmt, how = parallelize(count, each * steps, "rows", item)
    return Plan("choice", stmt, (text, how))


def _select_in_pieces(
    found: Selection,
    outer: Sequence[Axis],
    inside: Sequence[Axis],
    width: int,
    each: float,
    text: str,
) -> Plan:
    """Select in pieces of the first axis, then among the pieces."""
    per = each
    for axis in inside[1:]:
        per *= _STEPS if axis.size is None else axis.size
    whole = inside[0].extent
    size = task_size(per)
    if inside[0].size is not None:
        size = max(size, -(-inside[0].size // _PIECES))
    if len(inside) == 1:
        size = -(-size // width) * width
    pieces = (whole + imm64(size - 1)) // imm64(size)
    shape = [*(axis.extent for axis in outer), pieces]
    partial = [scratch("parts", shape, stage.buffer.dtype) for stage in found.stages]
    keep = scratch("keep", (1,), DataType("bool"), "local")

    def piece(t: PrimExpr) -> Stmt:
        k = t % pieces
        place = {**unit_axes(found), **unravel_index(t // pieces, outer)}
        where = (*(place[axis.var] for axis in outer), k)
        span = (k * imm64(size), Min(imm64(size), whole - k * imm64(size)))
        return _row(found, place, inside, span, width, [(buffer, where) for buffer in partial])

    count = product(axis.extent for axis in outer)
    first, how = parallelize(count * pieces, per * size, "pieces", piece)

    def finish(t: PrimExpr) -> Stmt:
        place = {**unit_axes(found), **unravel_index(t, outer)}
        result = [(s.buffer, [value_at(i, place) for i in s.indices]) for s in found.stages]
        where = [place[axis.var] for axis in outer]

        def read_kept(_: PrimExpr) -> SelectedElement:
            return SelectedElement(found, result)

        def join(k: PrimExpr) -> Stmt:
            coming = [BufferLoad(buffer, (*where, k)) for buffer in partial]
            return choose_elements(found, 1, keep, read_kept, lambda _: coming)

        return allocate([keep], begin_elements(found, 1, read_kept), loop("piece", pieces, join))

    stmt = allocate(partial, first, loop("item", count, finish))
    return Plan("choice", stmt, (text, f"pieces of {size} each choose", how))
