"""Matrix products in blocks: packed panels, tiles of sums, blocks shared between threads."""

from __future__ import annotations

from collections.abc import Callable, Set
from enum import Enum
from typing import Final

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.contraction.epilogue import finished
from loomir.autoschedule.contraction.micro_kernel import (
    copy_tile,
    fill_tile,
    load_tile,
    run_tile,
)
from loomir.autoschedule.contraction.operand import (
    at,
    ceil_div,
    conversions,
    extent_of,
    lesser,
    let,
    plain_load,
    size_of,
    split,
    stride_along,
)
from loomir.autoschedule.contraction.packing import Packing, pack_tile
from loomir.autoschedule.contraction.recognise import Contraction, may_do_nothing
from loomir.autoschedule.contraction.tiles import MOST_STREAMED, WORTH_THREADS, choose_tiles, up
from loomir.autoschedule.nest import allocated, loop, parallel, scratch, unrolled, vectorized
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.stage import Axis
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import LE, LT, And, Eq, FloorDiv, FloorMod, IntImm, Max, PrimExpr, Var, cast
from loomir.tir.stmt import TRUE, IfThenElse, Stmt, seq

__all__ = ["blocked"]

_WRITTEN_OUT: Final = 6000
"""Nodes up to which the end of a tile is written out from registers."""


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
        self.source = Source.WHOLE
        self.packed: Buffer | None = None
        self.even = self.size is not None and self.size % width == 0

    def first(self, tile: PrimExpr) -> PrimExpr:
        """Give the first row of a tile; where they are read in place the last tile ends in time."""
        start = mul(tile, imm64(self.width))
        if self.source is Source.DIRECT and not self.even:
            return lesser(start, sub(self.extent, imm64(self.width)))
        return start


def blocked(found: Contraction, target: Target, inner: Set[Buffer]) -> Plan | None:
    """Plan a product in blocks."""
    return _Blocked(found, target, inner).plan()


class _Blocked:
    def __init__(self, found: Contraction, target: Target, inner: Set[Buffer]) -> None:
        self.found = found
        self.target = target
        self.inner = inner
        self.m, self.n = size_of(found.rows), size_of(found.columns)
        self.k, self.count = size_of(found.reduced), size_of(found.batch)
        self.depth = extent_of(found.reduced)
        self.batch = extent_of(found.batch)
        near = target.caches[1] or target.caches[0] * 4
        size = found.dtype.itemsize
        self.streamed = (
            self._vectors_in_place()
            and self.m is not None
            and self.m <= MOST_STREAMED
            and self.n is not None
            and self.k is not None
            and self.n * self.k * size > near
        )
        self.tiles = choose_tiles(
            self.m, self.n, self.k, found.dtype, target, streamed=self.streamed
        )
        tiles = self.tiles
        self.left = Side("left", found.left, found.rows, tiles.rows, tiles.down)
        self.right = Side("right", found.right, found.columns, tiles.columns, tiles.across)
        self.panels = ceil_div(self.depth, tiles.depth)
        self.one_panel = self.k is not None and self.k <= tiles.depth
        self._choose_sources()

    @property
    def work(self) -> int | None:
        """The products of one call."""
        if None in (self.m, self.n, self.k, self.count):
            return None
        return self.m * self.n * self.k * self.count  # type: ignore[operator]

    # -- choices -----------------------------------------------------------------------------------
    def _choose_sources(self) -> None:
        left, right, tiles = self.left, self.right, self.tiles
        size = self.found.dtype.itemsize
        near = self.target.caches[1] or self.target.caches[0] * 4
        whole = None if self.n is None or self.k is None else self.n * self.k * size
        if whole is not None and self._vectors_in_place():
            near_enough = self.streamed or whole <= near // 8
            right.source = Source.DIRECT if near_enough else Source.WHOLE
        if plain_load(left.factor) is not None and self.m is not None and self._one_depth():
            small = self.k is not None and self.m * self.k * size <= near // 4
            if small and self.n is not None and self.n <= 4 * tiles.columns:
                left.source = Source.DIRECT
        for side, all_tiles in ((left, self.m), (right, self.n)):
            if side.source is Source.DIRECT and not side.even:
                # Tiles that share rows belong to one block; what is added to must be added once.
                whole = up(all_tiles or 0, side.width)
                if (all_tiles or 0) < side.width or self.found.stage.init is None or whole > 16:
                    side.source = Source.WHOLE
                else:
                    side.per_block = whole
                    side.blocks = imm64(1)
        for side, other in ((left, right), (right, left)):
            once = isinstance(other.blocks, IntImm) and other.blocks.value <= 1
            if side.source is Source.WHOLE and once:
                side.source = Source.BLOCK

    def _one_depth(self) -> bool:
        return sum(axis.size != 1 for axis in self.found.reduced) <= 1

    def _vectors_in_place(self) -> bool:
        """Whether the columns of the right factor can be loaded as vectors from where they are."""
        found = self.found
        one = sum(axis.size != 1 for axis in found.columns) == 1
        load = plain_load(found.right)
        if load is None or not one or not self._one_depth():
            return False
        last = next(axis.var for axis in found.columns if axis.size != 1)
        if any(part is last for index in load.indices[:-1] for part in pre_order(index)):
            return False
        return stride_along(found.right, found.columns) == 1

    # -- elements ----------------------------------------------------------------------------------
    def _element(self, side: Side, batch: PrimExpr, index: PrimExpr, k: PrimExpr) -> PrimExpr:
        found = self.found
        table: dict[Var, PrimExpr] = {}
        for axes, place in ((found.batch, batch), (side.axes, index), (found.reduced, k)):
            table.update(split(axes, place))
        return substitute(side.factor, table)

    def _vector(self, side: Side, batch: PrimExpr, index: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Load a vector of columns from where it is, converted as the factor says."""
        load = plain_load(side.factor)
        assert load is not None
        first = plain_load(self._element(side, batch, imm64(0), k))
        assert first is not None
        indices = (*first.indices[:-1], add(first.indices[-1], index))
        made: PrimExpr = BufferLoad(first.buffer, indices)
        for dtype in conversions(side.factor):
            made = cast(made, dtype.with_lanes(index.dtype.lanes))
        return made

    # -- packing -----------------------------------------------------------------------------------
    def _packing(self, side: Side, batch: PrimExpr) -> Packing:
        return Packing(
            lambda index, k: self._element(side, batch, index, k),
            side.extent,
            side.width,
            self.tiles.lanes,
            stride_along(side.factor, side.axes) == 1,
            stride_along(side.factor, self.found.reduced) == 1,
        )

    def _pack_whole(self, side: Side) -> Stmt:
        """Copy all of a factor, tile by tile."""
        packed = scratch(
            f"{side.name}_packed",
            (mul(self.batch, side.tiles), self.depth, side.width),
            self.found.dtype,
        )
        side.packed = packed

        def one(number: PrimExpr) -> Stmt:
            batch, tile = FloorDiv(number, side.tiles), FloorMod(number, side.tiles)
            if self.count == 1:
                batch, tile = imm64(0), number
            return pack_tile(
                self._packing(side, batch),
                lambda k, r: (packed, (number, k, r)),
                mul(tile, imm64(side.width)),
                imm64(0),
                self.depth,
            )

        return self._shared("tile", mul(self.batch, side.tiles), one)

    def _pack_block(
        self, side: Side, batch: PrimExpr, block: PrimExpr, start: PrimExpr, depth: PrimExpr
    ) -> Stmt:
        """Copy the part of a factor that a block needs for one panel."""
        packed = side.packed
        assert packed is not None
        return loop(
            "tile",
            self._tiles_of(side, block),
            lambda tile: pack_tile(
                self._packing(side, batch),
                lambda k, r: (packed, (tile, k, r)),
                mul(at(block, side.per_block, tile), imm64(side.width)),
                start,
                depth,
            ),
        )

    def _tiles_of(self, side: Side, block: PrimExpr) -> PrimExpr:
        """Count the tiles of a block; the last may have fewer."""
        each = imm64(side.per_block)
        if isinstance(side.tiles, IntImm):
            if side.tiles.value % side.per_block == 0:
                return each
            if side.tiles.value < side.per_block:
                return side.tiles
        return lesser(each, sub(side.tiles, mul(block, each)))

    # -- loops -------------------------------------------------------------------------------------
    def _shared(self, name: str, extent: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
        work = self.work
        worth = work is None or work >= WORTH_THREADS
        return (parallel if worth else loop)(name, extent, body)

    def plan(self) -> Plan:
        """Write the loops."""
        left, right = self.left, self.right
        parts: list[Stmt] = [
            self._pack_whole(side) for side in (right, left) if side.source is Source.WHOLE
        ]
        held = [s.packed for s in (left, right) if s.packed is not None]
        parts.append(
            self._shared("block", product((self.batch, right.blocks, left.blocks)), self._block)
        )
        stmt = allocated(held, *parts) if held else seq(parts)
        if may_do_nothing(self.found.stage):
            stmt = IfThenElse(LT(imm64(0), self.depth), stmt)
        work = self.work
        return Plan("matrix product", stmt, self._choices(), None if work is None else 2 * work)

    def _block(self, number: PrimExpr) -> Stmt:
        left, right, tiles = self.left, self.right, self.tiles
        down = FloorMod(number, left.blocks)
        rest: PrimExpr = FloorDiv(number, left.blocks)
        if isinstance(left.blocks, IntImm) and left.blocks.value <= 1:
            down, rest = imm64(0), number
        across: PrimExpr = FloorMod(rest, right.blocks)
        batch: PrimExpr = FloorDiv(rest, right.blocks)
        if isinstance(right.blocks, IntImm) and right.blocks.value <= 1:
            across, batch = imm64(0), rest
        if self.count == 1:
            across, batch = rest, imm64(0)
        mine: list[Buffer] = []
        for side in (left, right):
            if side.source is Source.BLOCK:
                shape = (side.per_block, tiles.depth, side.width)
                side.packed = scratch(f"{side.name}_block", shape, self.found.dtype)
                mine.append(side.packed)
        part = None
        if not self.one_panel:
            shape = (right.per_block, left.per_block, tiles.rows, tiles.columns)
            part = scratch("part", shape, self.found.dtype)
            mine.append(part)

        def inside(batch: PrimExpr, across: PrimExpr, down: PrimExpr) -> Stmt:
            if self.one_panel:
                body = self._panel(batch, across, down, imm64(0), part)
            else:
                most = self.panels
                if not isinstance(most, IntImm):  # without a panel nothing would be stored
                    most = Max(most, imm64(1))
                body = loop("panel", most, lambda p: self._panel(batch, across, down, p, part))
            return allocated(mine, body) if mine else body

        return let(
            "batch",
            batch,
            lambda b: let("across", across, lambda a: let("down", down, lambda d: inside(b, a, d))),
        )

    def _panel(
        self,
        batch: PrimExpr,
        across: PrimExpr,
        down: PrimExpr,
        panel: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        left, right, tiles = self.left, self.right, self.tiles
        start = mul(panel, imm64(tiles.depth))
        depth: PrimExpr = imm64(tiles.depth)
        if self.one_panel:
            depth = self.depth
        elif self.k is None or self.k % tiles.depth:
            depth = lesser(depth, sub(self.depth, start))

        def inside(depth: PrimExpr) -> Stmt:
            packs = [
                self._pack_block(side, batch, block, start, depth)
                for side, block in ((right, across), (left, down))
                if side.source is Source.BLOCK
            ]
            tile = loop(
                "strip",
                self._tiles_of(right, across),
                lambda s: loop(
                    "tile",
                    self._tiles_of(left, down),
                    lambda t: self._tile(batch, (across, s), (down, t), panel, start, depth, part),
                ),
            )
            return seq([*packs, tile])

        return let("depth", depth, inside)

    def _tile(
        self,
        batch: PrimExpr,
        strip: tuple[PrimExpr, PrimExpr],
        tile: tuple[PrimExpr, PrimExpr],
        panel: PrimExpr,
        start: PrimExpr,
        depth: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        left, right, tiles = self.left, self.right, self.tiles
        sums = scratch("sums", (tiles.rows, tiles.columns), self.found.dtype, scope="local")
        row_tile = at(tile[0], left.per_block, tile[1])
        column_tile = at(strip[0], right.per_block, strip[1])

        def inside(row: PrimExpr, column: PrimExpr) -> Stmt:
            steps = run_tile(
                sums,
                self._reader(left, batch, row_tile, tile[1], row, start),
                self._reader(right, batch, column_tile, strip[1], column, start),
                depth,
                tiles,
            )
            finish = self._finish(batch, row, column, sums)
            if part is None:
                return allocated([sums], fill_tile(sums, tiles), steps, finish)
            slot = (strip[1], tile[1])
            begin = IfThenElse(
                Eq(panel, imm64(0)),
                fill_tile(sums, tiles),
                load_tile(sums, part, slot, tiles),
            )
            last = LE(self.panels, add(panel, imm64(1)))
            end = IfThenElse(last, finish, copy_tile(part, slot, sums, tiles))
            return allocated([sums], begin, steps, end)

        return let(
            "row",
            left.first(row_tile),
            lambda row: let("column", right.first(column_tile), lambda c: inside(row, c)),
        )

    def _reader(
        self,
        side: Side,
        batch: PrimExpr,
        tile: PrimExpr,
        in_block: PrimExpr,
        first: PrimExpr,
        start: PrimExpr,
    ) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
        packed = side.packed
        if side.source is Source.WHOLE:
            assert packed is not None
            number = at(batch, side.tiles, tile)
            return lambda k, i: BufferLoad(packed, (number, add(start, k), i))
        if side.source is Source.BLOCK:
            assert packed is not None
            return lambda k, i: BufferLoad(packed, (in_block, k, i))
        if side is self.right:
            return lambda k, i: self._vector(side, batch, add(first, i), add(start, k))
        return lambda k, i: self._element(side, batch, add(first, i), add(start, k))

    # -- the end of a tile -------------------------------------------------------------------------
    def _finish(self, batch: PrimExpr, row: PrimExpr, column: PrimExpr, sums: Buffer) -> Stmt:
        """Store a complete tile, but for what lies beyond the result."""
        left, right, tiles = self.left, self.right, self.tiles
        found = self.found

        def end(r: PrimExpr, c: PrimExpr, held: Buffer) -> Stmt:
            place = (batch, add(row, r), add(column, c))
            return finished(found, self.inner, place, BufferLoad(held, (r, c)))

        def vectors(r: PrimExpr, held: Buffer) -> Stmt:
            return unrolled(
                "v",
                tiles.vectors,
                lambda v: vectorized(
                    "c", tiles.lanes, lambda c: end(r, at(v, tiles.lanes, c), held)
                ),
            )

        inside: PrimExpr = TRUE
        for side, first in ((left, row), (right, column)):
            if not side.even and side.source is not Source.DIRECT:
                fits = LE(add(first, imm64(side.width)), side.extent)
                inside = fits if inside is TRUE else And(inside, fits)
        light = sum(1 for _ in pre_order(end(imm64(0), imm64(0), sums)))
        direct = light * tiles.rows * tiles.vectors <= _WRITTEN_OUT and self._one_column()
        full = unrolled("r", tiles.rows, lambda r: vectors(r, sums))
        if direct and inside is TRUE:
            return full
        edge = scratch("edge", (tiles.rows, tiles.columns), found.dtype)
        rows = lesser(imm64(tiles.rows), sub(left.extent, row))
        columns = lesser(imm64(tiles.columns), sub(right.extent, column))
        some = loop("r", rows, lambda r: loop("c", columns, lambda c: end(r, c, edge)))
        if not direct:
            many = loop("r", imm64(tiles.rows), lambda r: vectors(r, edge))
            some = many if inside is TRUE else IfThenElse(inside, many, some)
            return allocated([edge], copy_tile(edge, (), sums, tiles), some)
        spilled = allocated([edge], copy_tile(edge, (), sums, tiles), some)
        return IfThenElse(inside, full, spilled)

    def _one_column(self) -> bool:
        return sum(axis.size != 1 for axis in self.found.columns) == 1

    def _choices(self) -> tuple[str, ...]:
        left, right, tiles = self.left, self.right, self.tiles
        sums, registers = tiles.rows * tiles.vectors, self.target.registers
        shape = f"{tiles.rows} x {tiles.columns}"
        return (
            f"tile of {shape}: {sums} of {registers} registers hold sums",
            f"left factor {left.source.value}, right factor {right.source.value}",
            f"panels of {tiles.depth} steps; blocks of {left.per_block} x {right.per_block} tiles",
        )
