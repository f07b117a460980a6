"""The two factors of a product: how each is cut into tiles, and where its elements are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    conversions,
    extent_of,
    lesser,
    let,
    plain_load,
    size_of,
    span,
    split,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.ir.substitution import substitute
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Eq, FloorDiv, IntImm, Max, PrimExpr, Select, Var, cast
from loomir.tir.stmt import Stmt

__all__ = ["Places", "Side", "Source", "Values", "at_tile", "bound", "vector_from"]

Values: TypeAlias = Mapping[Var, PrimExpr]
"""What axes are at some point of the loops."""

Places: TypeAlias = Callable[[PrimExpr], Values]
"""Gives the axes of a side so many rows (or columns) after the first of a tile."""


class Source(Enum):
    """Where the micro kernel finds a factor."""

    DIRECT = "read where it is"
    WHOLE = "packed before, all of it"
    BLOCK = "packed block by block"


class Side:
    """One factor: its rows (or columns) in tiles of ``width``, ``per_block`` tiles to a block."""

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
        """Whether it is constant, and packed before any call."""
        self.packed: Buffer | None = None
        self.even = self.size is not None and self.size % width == 0
        self.overlaps = False
        """Whether the last tile begins early, so as to end in time."""
        many = [axis for axis in axes if axis.size != 1]
        self.last = many[-1] if len(many) > 1 else None
        run = None if self.last is None else self.last.size
        self.aligned = run is not None and run % width == 0
        """Whether a tile of several axes stays within the last one."""

    @property
    def kept(self) -> str:
        """Say where the micro kernel finds the factor."""
        return "constant, packed before all calls" if self.ahead else self.source.value

    def overlap(self) -> None:
        """Let the last tile begin early; it shares a block with the one before it.

        So what two tiles have in common is stored by one thread: the last block has up to two
        blocks' tiles.
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
        """Count the tiles of a block; the last one may have fewer, or more where tiles overlap."""
        each = imm64(self.per_block)
        rest = sub(self.tiles, mul(block, each))
        if self.overlaps and self.most > self.per_block:
            return Select(Eq(block, sub(self.blocks, imm64(1))), rest, each)
        if isinstance(self.tiles, IntImm):
            if self.tiles.value % self.per_block == 0:
                return each
            if self.tiles.value < self.per_block:
                return self.tiles
        return lesser(each, rest)

    def first(self, tile: PrimExpr) -> PrimExpr:
        """Give the first row of a tile."""
        start = mul(tile, imm64(self.width))
        if self.overlaps:
            return lesser(start, sub(self.extent, imm64(self.width)))
        return start

    def placed(self, first: PrimExpr, body: Callable[[Places], Stmt]) -> Stmt:
        """Find once for a tile what its rows have in common."""
        if not self.aligned or self.last is None:
            return body(lambda i: split(self.axes, add(first, i)))
        table = split(self.axes, first)
        last = self.last.var
        return bound(list(table.items()), lambda t: body(lambda i: {**t, last: add(t[last], i)}))

    def element(self, *tables: Values) -> PrimExpr:
        """Give the factor where the axes are as the tables say."""
        joined: dict[Var, PrimExpr] = {}
        for table in tables:
            joined.update(table)
        return substitute(self.factor, joined)

    def vector(self, index: PrimExpr, *tables: Values) -> PrimExpr:
        """Load a vector of columns from where it is, converted as the factor says."""
        first = plain_load(self.element(*tables, split(self.axes, imm64(0))))
        assert first is not None
        indices = (*first.indices[:-1], add(first.indices[-1], index))
        made: PrimExpr = BufferLoad(first.buffer, indices)
        for dtype in conversions(self.factor):
            made = cast(made, dtype.with_lanes(index.dtype.lanes))
        return made

    def along(self, lanes: int, *tables: Values) -> PrimExpr:
        """Load a vector of steps along the reduced axis, converted as the factor says."""
        return vector_from(self.factor, self.element(*tables), lanes)

    def clamped(self, places: Places, first: PrimExpr) -> Places:
        """Read the last row in place of those beyond it, which are never stored."""
        if self.even:
            return places
        most = sub(self.extent, imm64(1))
        return lambda i: split(self.axes, lesser(add(first, i), most))


def vector_from(factor: PrimExpr, element: PrimExpr, lanes: int) -> PrimExpr:
    """Load neighbours of an element, converted as the factor says."""
    first = plain_load(element)
    assert first is not None
    made: PrimExpr = BufferLoad(first.buffer, (*first.indices[:-1], span(first.indices[-1], lanes)))
    for dtype in conversions(factor):
        made = cast(made, dtype.with_lanes(lanes))
    return made


def bound(
    left: list[tuple[Var, PrimExpr]],
    body: Callable[[dict[Var, PrimExpr]], Stmt],
    done: Values | None = None,
) -> Stmt:
    """Give names to the values of axes."""
    known = dict(done or {})
    if not left:
        return body(known)
    (var, value), *rest = left
    return let(var.name_hint, value, lambda v: bound(rest, body, {**known, var: v}))


def at_tile(
    rows: tuple[Side, PrimExpr],
    columns: tuple[Side, PrimExpr],
    body: Callable[[PrimExpr, PrimExpr, Places, Places], Stmt],
) -> Stmt:
    """Run ``body`` with the first row and column of a tile, and the places of all of them."""
    (left, row_tile), (right, column_tile) = rows, columns

    def placed(row: PrimExpr, column: PrimExpr) -> Stmt:
        return left.placed(row, lambda r: right.placed(column, lambda c: body(row, column, r, c)))

    return let(
        "row",
        left.first(row_tile),
        lambda row: let("column", right.first(column_tile), lambda c: placed(row, c)),
    )
