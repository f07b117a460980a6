"""Select along columns: neighbours in memory are selected at once.

If one part of an element is its index, registers hold the values of some columns and the numbers of
the rows that they come from, which are as wide as values; the index is computed after the last row.
Where the condition reads indices, too, the first row begins, and the initial values take part last,
which needs a selection in any order. Other elements are kept in the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loomir.arith.fold import fold_expr, imm, imm64, product
from loomir.autoschedule.builders.evaluate import unravel_index, value_at
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.reduction.element_choice import (
    SelectedElement,
    begin_elements,
    choose_elements,
    local_buffers,
    read_terms_at,
    unit_axes,
)
from loomir.autoschedule.rules.reduction.lane_search import LaneSearch, find_lane_search
from loomir.autoschedule.rules.reduction.recognise_selection import Selection
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Cast, Eq, Max, Min, PrimExpr, Select, Var
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["plan_columns"]

_BLOCK: Final = 4
"""Vectors of neighbours that advance together where rows are read one by one."""
_BOOL: Final = DataType("bool")
_ONE: Final = imm64(1)


def plan_columns(
    found: Selection,
    outer: Sequence[Axis],
    inside: Sequence[Axis],
    width: int,
    time: float,
    target: Target,
) -> Plan:
    """Plan a selection for each column, the last of the outer axes; rows are ``inside``.

    ``time`` is that of a column, in nanoseconds.
    """
    if len(inside) == 1:
        (rows,) = inside
        turns = find_lane_search(found.stages, found.old, found.new, found.keep, rows, target)
        if turns is not None:
            columns = _Columns(found, turns, rows, outer[-1])
            if columns.is_by_value or found.free_order:
                return columns.plan(outer[:-1], time)
    return _plan_in_order(found, outer, width, time)


class _Columns:
    """Columns that are searched with the numbers of rows."""

    def __init__(self, found: Selection, turns: LaneSearch, rows: Axis, across: Axis) -> None:
        self.found = found
        self.turns = turns
        self.rows = rows
        self.across = across
        self.width = turns.width
        while across.size is not None and self.width > max(1, across.size):
            self.width //= 2
        indices = {found.old[turns.place], found.new[turns.place]}
        self.is_by_value = indices.isdisjoint(by_class(found.keep).get(Var, ()))

    def plan(self, rest: Sequence[Axis], time: float) -> Plan:
        """Plan blocks of columns, of which the last is longer where they do not fill it."""
        extent, block = self.across.extent, self.width * _BLOCK
        blocks = fold_expr(Max(_ONE, extent // imm64(block)))

        def task(t: PrimExpr) -> Stmt:
            place = {**unit_axes(self.found), **unravel_index(t // blocks, rest)}
            k = t % blocks
            begin = k * imm64(block)
            if self.across.size is not None and self.across.size % block == 0:
                return self._cover(place, begin, imm64(block))
            last = Eq(k, blocks - _ONE)
            return self._cover(place, begin, Select(last, extent - begin, imm64(block)))

        count = product(axis.extent for axis in rest) * blocks
        stmt, how = parallelize(count, time * block, "blocks of columns", task)
        text = f"{self.width} neighbours along {self.across.var.name_hint} choose at once"
        return Plan("choice", stmt, (text, how))

    def _cover(self, place: Mapping[Var, PrimExpr], begin: PrimExpr, length: PrimExpr) -> Stmt:
        """Cover neighbours by whole strips, the last of which may overlap."""
        width = imm64(self.width)
        full = loop(
            "v", length // width, lambda v: self._strip(place, begin + v * width, self.width)
        )
        size = self.across.size
        if size is not None and size % self.width == 0:
            return full
        left = Eq(length % width, imm64(0))
        tail = self._strip(place, begin + length - width, self.width)
        strips = seq((full, IfThenElse(left, seq(()), tail)))
        if size is not None:
            return strips
        single = loop("i", length, lambda i: self._strip(place, begin + i, 1))
        return IfThenElse(width <= length, strips, single)

    def _strip(self, known: Mapping[Var, PrimExpr], first: PrimExpr, size: int) -> Stmt:
        """Select in ``size`` neighbouring columns."""
        found, turns, extent = self.found, self.turns, self.rows.extent
        value = scratch("value", (size,), turns.value, "local")
        turn = scratch("turn", (size,), turns.turn, "local")
        best = local_buffers(found, size, "best")
        keep = scratch("keep", (size,), _BOOL, "local")
        zero = imm(0, turns.turn)

        def term(k: int, row: PrimExpr, x: PrimExpr) -> PrimExpr:
            place = {**known, self.across.var: first + x, self.rows.var: row}
            return value_at(found.stages[k].value, place)

        def read(row: PrimExpr, x: PrimExpr) -> PrimExpr:
            return term(1 - turns.place, row, x)

        def read_kept(x: PrimExpr) -> SelectedElement:
            return SelectedElement(found, [(buffer, (x,)) for buffer in best])

        def search(base: PrimExpr, count: PrimExpr) -> Stmt:
            """Search some rows; with the kept values from turn 1 on, or else with the first row."""
            begun = 0 if self.is_by_value else 1
            condition = found.keep if self.is_by_value else turns.later

            def start(x: PrimExpr) -> Stmt:
                first_value = read_kept(x).values()[1 - turns.place] if not begun else read(base, x)
                return BufferStore(value, first_value, (x,))

            def step(t: PrimExpr) -> Stmt:
                number_of = Cast(t + _ONE, turns.turn)
                row = base + t + imm64(begun)
                return turns.cover_lanes(
                    lambda x: turns.select(
                        condition, (value, x), read(row, x), ((turn, x), number_of)
                    ),
                    size,
                )

            def read_coming(x: PrimExpr) -> list[PrimExpr]:
                row = base + Cast(BufferLoad(turn, (x,)), INDEX) - imm64(1 - begun)
                index = term(turns.place, row, x)
                parts = [index, BufferLoad(value, (x,))]
                return parts if turns.place == 0 else parts[::-1]

            def take(x: PrimExpr) -> Stmt:
                """Keep the index of a lane that selected none of the rows."""
                none = Eq(BufferLoad(turn, (x,)), zero)
                new = read_coming(x)
                new[turns.place] = Select(
                    none, read_kept(x).values()[turns.place], new[turns.place]
                )
                return seq(read_kept(x).put(k, part) for k, part in enumerate(new))

            selected = choose_elements(found, size, keep, read_kept, read_coming)
            return seq(
                (
                    turns.cover_lanes(start, size),
                    turns.cover_lanes(lambda x: BufferStore(turn, zero, (x,)), size),
                    loop("t", count - imm64(begun), step),
                    turns.cover_lanes(take, size) if self.is_by_value else selected,
                )
            )

        most = turns.turn.max_value
        if turns.turn.bits > 32 or (self.rows.size is not None and self.rows.size <= most):
            whole = search(imm64(0), extent)
        else:
            step = imm64(most)
            whole = loop(
                "block",
                (extent + step - _ONE) // step,
                lambda b: search(b * step, Min(step, extent - b * step)),
            )

        def put(x: PrimExpr) -> Stmt:
            where = {**known, self.across.var: first + x}
            return seq(
                BufferStore(
                    stage.buffer,
                    BufferLoad(buffer, (x,)),
                    tuple(value_at(i, where) for i in stage.indices),
                )
                for stage, buffer in zip(found.stages, best)
            )

        return allocate(
            (value, turn, *best, keep),
            begin_elements(found, size, read_kept),
            whole,
            turns.cover_lanes(put, size),
        )


def _plan_in_order(found: Selection, outer: Sequence[Axis], width: int, time: float) -> Plan:
    """Loop over rows, and select for each column in memory."""
    across, rest = outer[-1], outer[:-1]
    while across.size is not None and width > max(1, across.size):
        width //= 2
    block = width * _BLOCK
    blocks = (across.extent + imm64(block - 1)) // imm64(block)
    keep = scratch("keep", (width,), DataType("bool"), "local")

    def task(t: PrimExpr) -> Stmt:
        row = {**unit_axes(found), **unravel_index(t // blocks, rest)}
        begin = t % blocks * imm64(block)
        even = across.size is not None and across.size % block == 0
        length = imm64(block) if even else Min(imm64(block), across.extent - begin)

        def read_kept(first: PrimExpr) -> Callable[[PrimExpr], SelectedElement]:
            def read_at_lane(x: PrimExpr) -> SelectedElement:
                place = {**row, across.var: first + x}
                parts = [(s.buffer, [value_at(i, place) for i in s.indices]) for s in found.stages]
                return SelectedElement(found, parts)

            return read_at_lane

        def cover_block(body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
            return seq(strip_mine(begin, length, sorted({width, 1}, reverse=True), body))

        def nest(k: int, known: Mapping[Var, PrimExpr]) -> Stmt:
            if k == len(found.first.reduced):
                return cover_block(
                    lambda first, size: choose_elements(
                        found,
                        size,
                        keep,
                        read_kept(first),
                        lambda x: read_terms_at(found, {**known, across.var: first + x}),
                    )
                )
            axis = found.first.reduced[k]
            name = axis.var.name_hint
            return loop(name, axis.extent, lambda i: nest(k + 1, {**known, axis.var: i}))

        start = cover_block(lambda first, size: begin_elements(found, size, read_kept(first)))
        return allocate([keep], start, nest(0, row))

    count = product(axis.extent for axis in rest) * blocks
    stmt, how = parallelize(count, time * block, "blocks of columns", task)
    text = f"{width} neighbours along {across.var.name_hint} choose at once, in order"
    return Plan("choice", stmt, (text, how))
