"""Describe the operands of a GEMM: their tiles and blocks, and how elements are addressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    conversions,
    extent_of,
    let,
    load_under_casts,
    minimum,
    ramp,
    size_of,
    unravel,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Eq, FloorDiv, IntImm, Max, PrimExpr, Select, Var, cast
from loomir.tir.stmt import Stmt

__all__ = [
    "AxesAtOffset",
    "AxisValues",
    "Side",
    "Source",
    "bind_tile",
    "bind_values",
    "count_tiles",
    "load_vector",
]

AxisValues: TypeAlias = Mapping[Var, PrimExpr]
"""The values of axes at some point of the loops."""

AxesAtOffset: TypeAlias = Callable[[PrimExpr], AxisValues]
"""Maps an offset in a tile to the axes of that row (or column)."""


class Source(Enum):
    """Where the micro-kernel reads an operand from."""

    DIRECT = "read where it is"
    WHOLE = "packed before, all of it"
    BLOCK = "packed block by block"


class Side:
    """One operand: its rows (or columns) in tiles of ``width``, ``per_block`` tiles to a block."""

    def __init__(
        self, name: str, factor: PrimExpr, axes: tuple[Axis, ...], width: int, per_block: int
    ) -> None:
        self.name = name
        self.factor = factor
        self.axes = axes
        self.width = width
        self.extent = extent_of(axes)
        self.size = size_of(axes)
        self.tiles = ceil_div(self.extent, width)
        self.per_block = per_block
        self.blocks = ceil_div(self.tiles, per_block)
        self.most = per_block
        """The tiles of the largest block."""
        self.source = Source.WHOLE
        self.ahead = False
        """Whether it is constant, and prepacked before any call."""
        self.packed: Buffer | None = None
        self.even = self.size is not None and self.size % width == 0
        self.overlaps = False
        """Whether the last tile is shifted back to be full, and overlaps the one before."""
        many = [axis for axis in axes if axis.size != 1]
        self.last = many[-1] if len(many) > 1 else None
        run = None if self.last is None else self.last.size
        self.aligned = run is not None and run % width == 0
        """Whether no tile crosses the end of the innermost of several axes."""

    @property
    def describe_source(self) -> str:
        """Say where the micro-kernel reads the operand from."""
        return "constant, packed before all calls" if self.ahead else self.source.value

    def overlap(self) -> None:
        """Shift the last tile back so that it is full; it shares a block with the one before.

        Two tiles then store the same elements, and one thread has to run both: the last block holds
        up to twice as many tiles as the others.
        """
        self.overlaps = True
        if isinstance(self.tiles, IntImm):
            count = self.tiles.value
            blocks = max(1, count // self.per_block)
            if blocks == 1:
                self.per_block = count
            self.blocks, self.most = imm64(blocks), count - (blocks - 1) * self.per_block
        else:
            self.blocks = Max(FloorDiv(self.tiles, imm64(self.per_block)), imm64(1))
            self.most = 2 * self.per_block - 1

    def tiles_of(self, block: PrimExpr) -> PrimExpr:
        """Count the tiles of a block; the last may have fewer, or more where tiles overlap."""
        each = imm64(self.per_block)
        rest = sub(self.tiles, mul(block, each))
        if self.overlaps and self.most > self.per_block:
            return Select(Eq(block, sub(self.blocks, imm64(1))), rest, each)
        if isinstance(self.tiles, IntImm) and self.tiles.value % self.per_block == 0:
            return each
        return minimum(each, rest)

    def compute_first_row(self, tile: PrimExpr) -> PrimExpr:
        """Compute the first row of a tile."""
        start = mul(tile, imm64(self.width))
        if self.overlaps:
            return minimum(start, sub(self.extent, imm64(self.width)))
        return start

    def hoist_indices(self, first: PrimExpr, body: Callable[[AxesAtOffset], Stmt]) -> Stmt:
        """Hoist out of a tile the index arithmetic that all its rows share."""
        if not self.aligned or self.last is None:
            return body(lambda i: unravel(self.axes, add(first, i)))
        table = unravel(self.axes, first)
        last = self.last.var
        return bind_values(
            list(table.items()), lambda t: body(lambda i: {**t, last: add(t[last], i)})
        )

    def element(self, *tables: AxisValues) -> PrimExpr:
        """Substitute the axes in the operand by their values in the tables."""
        values: dict[Var, PrimExpr] = {}
        for table in tables:
            values.update(table)
        return value_at(self.factor, values)

    def vector(self, index: PrimExpr, *tables: AxisValues) -> PrimExpr:
        """Load a vector of columns from the unpacked operand, with its conversions."""
        first = load_under_casts(self.element(*tables, unravel(self.axes, imm64(0))))
        assert first is not None
        indices = (*first.indices[:-1], add(first.indices[-1], index))
        made: PrimExpr = BufferLoad(first.buffer, indices)
        for dtype in conversions(self.factor):
            made = cast(made, dtype.with_lanes(index.dtype.lanes))
        return made

    def clamp(self, places: AxesAtOffset, first: PrimExpr) -> AxesAtOffset:
        """Clamp rows to the last one; results of rows beyond it are never stored."""
        if self.even:
            return places
        most = sub(self.extent, imm64(1))
        return lambda i: unravel(self.axes, minimum(add(first, i), most))


def count_tiles(side: Side, block: PrimExpr) -> PrimExpr:
    """Count the tiles of a block of static size; the last may have fewer."""
    count, each = -(-(side.size or 0) // side.width), side.per_block
    if count % each == 0:
        return imm64(each)
    return minimum(imm64(each), sub(imm64(count), mul(block, imm64(each))))


def load_vector(factor: PrimExpr, element: PrimExpr, lanes: int) -> PrimExpr:
    """Load contiguous elements from one on, with the operand's conversions."""
    first = load_under_casts(element)
    assert first is not None
    made: PrimExpr = BufferLoad(first.buffer, (*first.indices[:-1], ramp(first.indices[-1], lanes)))
    for dtype in conversions(factor):
        made = cast(made, dtype.with_lanes(lanes))
    return made


def bind_values(
    left: list[tuple[Var, PrimExpr]],
    body: Callable[[dict[Var, PrimExpr]], Stmt],
    done: AxisValues | None = None,
) -> Stmt:
    """Bind the values of axes to variables, around ``body``."""
    known = dict(done or {})
    if not left:
        return body(known)
    (var, value), *rest = left
    return let(var.name_hint, value, lambda v: bind_values(rest, body, {**known, var: v}))


def bind_tile(
    rows: tuple[Side, PrimExpr],
    columns: tuple[Side, PrimExpr],
    body: Callable[[PrimExpr, PrimExpr, AxesAtOffset, AxesAtOffset], Stmt],
) -> Stmt:
    """Bind the origin of a tile; call ``body`` with it and the addressing of both operands."""
    (left, row_tile), (right, column_tile) = rows, columns

    def hoist_places(row: PrimExpr, column: PrimExpr) -> Stmt:
        return left.hoist_indices(
            row, lambda r: right.hoist_indices(column, lambda c: body(row, column, r, c))
        )

    return let(
        "row",
        left.compute_first_row(row_tile),
        lambda row: let(
            "column", right.compute_first_row(column_tile), lambda c: hoist_places(row, c)
        ),
    )
