"""Blocked GEMM: packed panels, register tiles of accumulators, and blocks that threads share."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import reduce
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import (
    INDEX,
    allocate,
    loop,
    parallel,
    scratch,
    unroll,
    vectorize,
)
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    conversions,
    convert,
    extent_of,
    is_contiguous_along,
    let,
    load_under_casts,
    minimum,
    ravel,
    size_of,
    stride_along,
    unravel,
)
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Axis, has_zero_trip_case
from loomir.autoschedule.rules.matmul.accumulator_init import init_accumulators
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import WORD, Groups, find_dot_groups
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import (
    Multiply,
    choose_multiply,
    copy_tile,
    fill_tile,
    load_tile,
    multiply_then_add,
    run_tile,
)
from loomir.autoschedule.rules.matmul.operands import (
    Places,
    Side,
    Source,
    Values,
    at_tile,
    bind_values,
    load_vector,
)
from loomir.autoschedule.rules.matmul.packing import Packing, pack_tile
from loomir.autoschedule.rules.matmul.prefetch import (
    Fetch,
    prefetch_columns,
    prefetch_result,
    prefetch_stream,
    run_in_groups,
)
from loomir.autoschedule.rules.matmul.prepack import (
    FEW_ROWS,
    is_constant,
    keeps_narrow_panels,
    loop_over_steps,
)
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import (
    FEW_STEPS,
    FEW_TILES,
    MOST_STREAMED,
    WORTH_THREADS,
    Tiles,
    choose_row_tiles,
    choose_tiles,
    div_up,
)
from loomir.autoschedule.rules.matmul.unpacked_operands import (
    can_load_columns,
    count_leading_axes,
    is_1d_sum,
    is_left_unpacked,
)
from loomir.ir.visit import pre_order
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    LE,
    LT,
    And,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    PrimExpr,
    Var,
    cast,
)
from loomir.tir.stmt import TRUE, IfThenElse, Stmt, seq

__all__ = ["Blocked"]

Start: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""Gives a vector of the initial accumulators of columns."""

_TRANSPOSED: Final = 16
"""The most rows of a block transposed in registers; more would add code for little gain."""

_WRITTEN_OUT: Final = 6000
"""Nodes up to which the epilogue of a tile is unrolled from registers."""


class Blocked:
    """The choices for a product, and the loop nest that follows from them."""

    def __init__(
        self,
        found: Contraction,
        target: Target,
        inner: Set[Buffer],
        views: Views,
        constants: Set[Var],
        most: int | None = None,
        long: Sequence[Axis] = (),
    ) -> None:
        """Choose for a product, of at most ``most`` rows where that is given.

        Then ``long`` are the axes of rows whose extent is dynamic, and there are at least as many
        columns as a tile has.
        """
        self.most, self.long = most, long
        self.views = views
        self.found = found
        self.target = target
        self.inner = inner
        self.constants = constants
        self.m, self.n = most or size_of(found.rows), size_of(found.columns)
        self.k, self.count = size_of(found.reduced), size_of(found.batch)
        self.depth = extent_of(found.reduced)
        self.batch = extent_of(found.batch)
        near = target.caches[1] or target.caches[0] * 4
        size = found.dtype.itemsize
        self.groups = self._dot_groups()
        self.steps = self.k
        if self.groups is not None:
            size, pad = self.groups.size, self.groups.pad
            self.depth = mul(ceil_div(self.depth, size * pad), imm64(pad))
            self.steps = None if self.k is None else div_up(self.k, size * pad) * pad
        self.packed_dtype = found.dtype if self.groups is None else WORD
        self.lead = count_leading_axes(self.found) if self.groups is None else 0
        factors = self.groups.factors if self.groups is not None else (found.left, found.right)
        ahead = [is_constant(found, factor, constants) for factor in factors]
        self.later: list[DataType] = []
        """The dtypes to which panels of the right operand are converted when they are read."""
        narrow = load_under_casts(found.right)
        if self.groups is None and narrow is not None and keeps_narrow_panels(found, constants):
            self.later = conversions(found.right)
            factors, ahead[1] = (found.left, narrow), True
        self.streamed = (
            self.groups is None
            and not ahead[1]
            and self._vectors_in_place()
            and self.m is not None
            and self.m <= MOST_STREAMED
            and self._right_exceeds(near // 8, size, most is not None)
        )
        tiles = self.tiles = self._tiles()
        self.left = Side("left", factors[0], found.rows, tiles.rows, tiles.down)
        self.right = Side("right", factors[1], found.columns, tiles.columns, tiles.across)
        self.left.ahead, self.right.ahead = ahead
        if most is not None and tiles.down * tiles.rows >= most:
            self.left.blocks = imm64(1)
        self.starts: Buffer | None = None
        """The initial accumulators of each column, where they are not 0."""
        if self.lead:
            unit = size_of(found.reduced[self.lead :]) or 1
            units = size_of(found.reduced[: self.lead]) or 1
            pieces = div_up(units, max(1, tiles.depth // unit))
            tiles = self.tiles = replace(tiles, depth=unit * div_up(units, pieces))
        few = self.m is None or self.m <= FEW_ROWS
        far = self.n is not None and self.k is not None and self.n * self.k * size > near // 8
        self.streams_right = ahead[1] and few and far and not self.lead
        """Whether the prepacked columns are streamed from memory, in their order there."""
        self.panels = ceil_div(self.depth, tiles.depth)
        self.one_panel = self.steps is not None and self.steps <= tiles.depth
        self._choose_sources()

    @property
    def fetches(self) -> bool:
        """Whether the next tile's columns are prefetched.

        Vectors of 128 bits are too slow to wait for memory, and need their registers.
        """
        plain = self.groups is None and not self.lead and not self.later and is_1d_sum(self.found)
        deep = not self.tiles.by_rows and not self.streamed and not self.streams_right
        wide = self.target.fma and self.target.vector_bits >= 256
        return plain and deep and wide and self.exceeds_cache

    @property
    def exceeds_cache(self) -> bool:
        """Whether the operands fill more than a quarter of L2, or may."""
        if self.m is None or self.n is None or self.k is None:
            return True
        first, second, _ = self.target.caches
        size = self.found.dtype.itemsize
        return (self.m + self.n) * self.k * size > (second or first * 8) // 4

    @property
    def work(self) -> int | None:
        """Count the multiply-adds of one call, None if sizes are dynamic."""
        if None in (self.m, self.n, self.k, self.count, size_of(self.found.rows)):
            return None
        return self.m * self.n * self.k * self.count  # type: ignore[operator]

    # -- choices -----------------------------------------------------------------------------------
    def _right_exceeds(self, near: int, size: int, unknown: bool) -> bool:
        """Whether the right operand exceeds a cache; return ``unknown`` for dynamic sizes."""
        if self.n is None or self.k is None:
            return unknown and self.found.stage.init is not None
        return self.n * self.k * size > near

    def guard(self) -> PrimExpr:
        """Return the guard of a variant for few rows; a constant where it always holds."""
        asked: list[PrimExpr] = []
        if any(axis.size is None for axis in self.long):
            rows, most = extent_of(self.long), imm64(self.most or 0)
            asked.append(Eq(rows, most) if self.left.size == 1 else LE(rows, most))
        if self.n is None:
            asked.append(LE(imm64(self.right.width), self.right.extent))
        return reduce(And, asked) if asked else TRUE

    def describe_guard(self) -> str:
        """Describe the guard of ``fits`` in words."""
        rows = f"rows are at most {self.most}"
        return rows if self.n is not None else f"{rows} and columns at least {self.right.width}"

    def _dot_groups(self) -> Groups | None:
        return find_dot_groups(self.found, self.target)

    def _tiles(self) -> Tiles:
        found = self.found
        few = self.steps is not None and self.steps <= FEW_STEPS and self.groups is None
        rows = choose_row_tiles(self.m, self.n, found.dtype, self.target) if few else None
        return rows or choose_tiles(
            self.m,
            self.n,
            self.steps,
            found.dtype,
            self.target,
            streamed=self.streamed,
            within=self._is_unpacked(),
            run=_inner_size(found.rows),
        )

    def _is_unpacked(self) -> bool:
        """Whether there are so few rows that packing the columns would cost more than it gains."""
        few = self.m is not None and self.m <= MOST_STREAMED and self.found.stage.init is not None
        ahead = is_constant(self.found, self.found.right, self.constants) or bool(self.later)
        return few and self.groups is None and not ahead and self._vectors_in_place()

    def _choose_sources(self) -> None:
        left, right = self.left, self.right
        size = self.found.dtype.itemsize
        near = self.target.caches[1] or self.target.caches[0] * 4
        whole = None if self.n is None or self.k is None else self.n * self.k * size
        if self.streamed and whole is None:
            right.source = Source.DIRECT
        elif self.groups is None and whole is not None and self._vectors_in_place():
            seldom = self.lead > 0 and right.even and div_up(self.m or 0, left.width) <= FEW_TILES
            near_enough = self.streamed or seldom or whole <= near // 8
            right.source = Source.DIRECT if near_enough and not right.ahead else Source.WHOLE
        if self.groups is None and not left.ahead and self._rows_in_place():
            left.source = Source.DIRECT
        if right.source is Source.DIRECT and not right.even:
            # Where the result is accumulated into, overlapping tiles would add twice.
            wide = self.n is None or self.n >= right.width
            if wide and self.found.stage.init is not None:
                right.overlap()
            else:
                right.source = Source.WHOLE
        for side, other in ((left, right), (right, left)):
            once = isinstance(other.blocks, IntImm) and other.blocks.value <= 1
            if side.source is Source.WHOLE and once and not side.ahead:
                side.source = Source.BLOCK

    def _vectors_in_place(self) -> bool:
        return can_load_columns(self.found, self.lead)

    def _rows_in_place(self) -> bool:
        sizes = self.n, self.k
        return is_left_unpacked(self.found, self.tiles, sizes, self.target, self.lead, self.later)

    # -- packing -----------------------------------------------------------------------------------
    def _plan_panels(self, side: Side, batch: PrimExpr) -> Packing:
        found = self.found
        table = unravel(found.batch, batch)
        factor, depth = self._collapse_reduced(side)

        def value(place: Values, k: PrimExpr) -> PrimExpr:
            return value_at(factor, {**table, **place, **unravel(depth, k)})

        if self.groups is not None:
            return self.groups.plan_packing(side, value, factor, depth, self.tiles.lanes)

        size = min(self.tiles.lanes, _TRANSPOSED)

        def along(place: Values, k: PrimExpr) -> PrimExpr:
            return load_vector(factor, value(place, k), size)

        # Prepacking runs once and should compile fast: transposes in registers are much code.
        turns = self.tiles.lanes > 1 and not side.ahead
        return Packing(
            side,
            value,
            self.tiles.lanes,
            stride_along(side.factor, side.axes) == 1,
            along if turns and is_contiguous_along(factor, depth) else None,
            steps=size,
        )

    def _collapse_reduced(self, side: Side) -> tuple[PrimExpr, tuple[Axis, ...]]:
        """Rewrite an operand by one collapsed reduced axis, where several are contiguous."""
        reduced = self.found.reduced
        load = load_under_casts(side.factor)
        if load is None or is_1d_sum(self.found):
            return side.factor, reduced
        var = Var("k", INDEX)
        flat = self.views.flatten(load, reduced, var)
        if flat is None:
            return side.factor, reduced
        made: PrimExpr = flat
        for dtype in conversions(side.factor):
            made = cast(made, dtype)
        return made, (Axis(var, extent_of(reduced)),)

    def _count_packed_steps(self) -> PrimExpr:
        """Return the steps for which a packed copy of a whole operand has room."""
        return self.depth

    def _pack_whole(self, side: Side) -> Stmt:
        """Pack a whole operand, tile by tile."""
        packed = scratch(
            f"{side.name}_packed",
            (mul(self.batch, side.tiles), self._count_packed_steps(), side.width),
            side.factor.dtype if side is self.right and self.later else self.packed_dtype,
        )
        side.packed = packed
        self._add_starts(side, mul(self.batch, side.tiles))

        def one(number: PrimExpr) -> Stmt:
            batch, tile = FloorDiv(number, side.tiles), FloorMod(number, side.tiles)
            if self.count == 1:
                batch, tile = imm64(0), number
            return self._pack_tile(side, batch, (number,), tile, imm64(0), self.depth)

        return self._for_tasks("tile", mul(self.batch, side.tiles), one)

    def _pack_block(
        self, side: Side, batch: PrimExpr, block: PrimExpr, start: PrimExpr, depth: PrimExpr
    ) -> Stmt:
        """Pack the part of an operand that a block needs for one panel."""
        return loop(
            "tile",
            side.tiles_of(block),
            lambda tile: self._pack_tile(
                side, batch, (tile,), ravel(block, side.per_block, tile), start, depth
            ),
        )

    def _pack_tile(
        self,
        side: Side,
        batch: PrimExpr,
        slot: tuple[PrimExpr, ...],
        tile: PrimExpr,
        start: PrimExpr,
        depth: PrimExpr,
    ) -> Stmt:
        """Pack a tile into its slot, and compute its initial accumulators."""
        packed = side.packed
        assert packed is not None
        made = pack_tile(
            self._plan_panels(side, batch), lambda k, r: (packed, (*slot, k, r)), tile, start, depth
        )
        if self.starts is None or self.groups is None or side is self.left:
            return made
        return seq(
            [made, self.groups.correct_flips(packed, slot, depth, self.starts, self.tiles.lanes)]
        )

    def _add_starts(self, side: Side, tiles: PrimExpr | int) -> None:
        if self.groups is not None and self.groups.flips and side is self.right:
            self.starts = scratch("starts", (tiles, side.width), WORD)

    # -- loops -------------------------------------------------------------------------------------
    def _for_tasks(self, name: str, extent: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
        """Loop over tasks, in parallel where there is work enough."""
        work = self.work
        worth = work is None or work >= WORTH_THREADS
        return (parallel if worth else loop)(name, extent, body)

    def plan(self) -> Plan:
        """Emit the loop nest."""
        left, right = self.left, self.right
        parts: list[Stmt] = []
        packed: list[Buffer] = []
        ahead: list[Prepack] = []
        for side in (right, left):
            if side.source is Source.WHOLE:
                stmt = self._pack_whole(side)
                starts = self.starts if side is right else None
                made = tuple([b for b in (side.packed, starts) if b is not None])
                if side.ahead:
                    ahead.append(Prepack(stmt, made))
                else:
                    parts.append(stmt)
                    packed += made
        parts.append(
            self._for_tasks("block", product((self.batch, right.blocks, left.blocks)), self._block)
        )
        stmt = allocate(packed, *parts) if packed else seq(parts)
        if has_zero_trip_case(self.found.stage):
            stmt = IfThenElse(LT(imm64(0), self.depth), stmt)
        work = self.work
        flops = None if work is None else 2 * work
        at_once = 1 if self.groups is None else self.groups.size
        return Plan(
            "matrix product", stmt, self._choices(), flops, ahead=tuple(ahead), at_once=at_once
        )

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
                shape = (side.most, tiles.depth, side.width)
                side.packed = scratch(f"{side.name}_block", shape, self.packed_dtype)
                self._add_starts(side, side.most)
                mine.append(side.packed)
                if side is right and self.starts is not None:
                    mine.append(self.starts)
        part = None
        if not self.one_panel:
            shape = (self.strips, left.most, tiles.rows, tiles.columns)
            part = scratch("part", shape, self.found.dtype)
            mine.append(part)

        def inside(batch: PrimExpr, across: PrimExpr, down: PrimExpr) -> Stmt:
            body = self._in_block(batch, across, down, part)
            return allocate(mine, body) if mine else body

        return let(
            "batch",
            batch,
            lambda b: let("across", across, lambda a: let("down", down, lambda d: inside(b, a, d))),
        )

    @property
    def strips(self) -> int:
        """Count the strips of a block whose accumulators are spilled between panels."""
        return self.right.most

    def _in_block(
        self, batch: PrimExpr, across: PrimExpr, down: PrimExpr, part: Buffer | None
    ) -> Stmt:
        if self.one_panel:
            return self._panel(batch, across, down, imm64(0), part)
        most = self.panels
        if not isinstance(most, IntImm):  # with no panel at all nothing would be stored
            most = Max(most, imm64(1))
        return loop("panel", most, lambda p: self._panel(batch, across, down, p, part))

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
        elif self.steps is None or self.steps % tiles.depth:
            depth = minimum(depth, sub(self.depth, start))

        def inside(depth: PrimExpr) -> Stmt:
            packs = [
                self._pack_block(side, batch, block, start, depth)
                for side, block in ((right, across), (left, down))
                if side.source is Source.BLOCK
            ]

            def one(s: PrimExpr, t: PrimExpr) -> Stmt:
                return self._tile(batch, (across, s), (down, t), panel, start, depth, part)

            strips, rows = right.tiles_of(across), left.tiles_of(down)
            if tiles.by_rows:
                each = loop("tile", rows, lambda t: loop("strip", strips, lambda s: one(s, t)))
            else:
                each = loop("strip", strips, lambda s: loop("tile", rows, lambda t: one(s, t)))
            return seq([*packs, each])

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
        left, right, tiles, found = self.left, self.right, self.tiles, self.found
        sums = scratch("sums", (tiles.rows, tiles.columns), found.dtype, scope="local")
        row_tile = ravel(tile[0], left.per_block, tile[1])
        column_tile = ravel(strip[0], right.per_block, strip[1])

        def inside(row: PrimExpr, column: PrimExpr, rows: Places, columns: Places) -> Stmt:
            source = left.clamp(rows, row)
            read_left = self._reader(left, batch, (row_tile, tile[1]), source)
            read_right = self._reader(right, batch, (column_tile, strip[1]), lambda i: {}, column)
            fetches = self._fetches(batch, strip, tile, (panel, self.panels, start, depth))

            def step(k: PrimExpr, at_k: Values) -> Stmt:
                return run_tile(
                    sums,
                    lambda r: read_left(k, add(start, k), at_k, r),
                    lambda c: read_right(k, add(start, k), at_k, c),
                    tiles,
                    self._multiply(),
                )

            if fetches:
                axes = found.reduced
                steps = run_in_groups(
                    depth, lambda k: step(k, unravel(axes, add(start, k))), fetches
                )
            else:
                steps = self._steps(start, depth, step)
            first, later = self._starts(ravel(batch, right.tiles, column_tile), strip[1])
            finish = self._finish(batch, (row, column), (rows, columns), sums)
            fill = fill_tile(sums, tiles, first)
            if self.found.starts_from_init:
                fill = self._begin(batch, (row, column), (rows, columns), sums)
            result: list[Stmt] = []
            if self.fetches and self._has_contiguous_columns():
                near = source, right.clamp(columns, column)
                result = [prefetch_result(found, self.inner, batch, near, tiles)]
            if part is None:
                return allocate([sums], *result, fill, steps, finish)
            slot = (strip[1] if self.strips > 1 else imm64(0), tile[1])
            begin = IfThenElse(
                Eq(panel, imm64(0)),
                fill,
                load_tile(sums, part, slot, tiles, later),
            )
            last = LE(self.panels, add(panel, imm64(1)))
            end = IfThenElse(last, finish, copy_tile(part, slot, sums, tiles))
            result = [IfThenElse(last, seq(result))] if result else []
            return allocate([sums], *result, begin, steps, end)

        return at_tile((left, row_tile), (right, column_tile), inside)

    def _fetches(
        self,
        batch: PrimExpr,
        strip: tuple[PrimExpr, PrimExpr],
        tile: tuple[PrimExpr, PrimExpr],
        panel: tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr],
    ) -> list[Fetch]:
        """List the prefetches to issue while a tile is computed."""
        if self.streams_right:
            column = ravel(strip[0], self.right.per_block, strip[1])
            return [prefetch_stream(self.right, batch, column, panel[2])]
        if not self.fetches:
            return []
        found = prefetch_columns(self.right, batch, strip, tile, self.left.per_block, panel)
        return [] if found is None else [found]

    def _multiply(self) -> Multiply:
        if self.groups is not None:
            return self.groups.multiply_add
        return multiply_then_add if self.found.ordered else choose_multiply(self.target)

    def _starts(self, whole: PrimExpr, slot: PrimExpr) -> tuple[Start | None, Start | None]:
        """Return the initial accumulators of the first panel, and what each later one adds."""
        starts = self.starts
        if starts is None:
            return None, None
        if self.right.source is Source.WHOLE:  # summed over all panels when packed
            return (lambda c: BufferLoad(starts, (whole, c))), None
        each: Start = lambda c: BufferLoad(starts, (slot, c))  # noqa: E731
        return each, each

    def _steps(
        self,
        start: PrimExpr,
        depth: PrimExpr,
        body: Callable[[PrimExpr, Values], Stmt],
    ) -> Stmt:
        """Loop over the reduced axes; where there are outer ones, the inner ones are collapsed."""
        found = self.found
        if not self.lead:
            return loop_over_steps(
                depth, self.target, lambda k: body(k, unravel(found.reduced, add(start, k)))
            )
        lead = found.reduced[: self.lead]
        near = found.reduced[self.lead :]
        unit = size_of(near)
        assert unit is not None
        count = _div_exact(depth, unit)
        first = _div_exact(start, unit)

        def outer(u: PrimExpr) -> Stmt:
            table = unravel(lead, add(first, u))
            return bind_values(
                list(table.items()),
                lambda t: loop(
                    "k", unit, lambda k: body(ravel(u, unit, k), {**t, **unravel(near, k)})
                ),
            )

        return loop("outer", count, outer)

    def _reader(
        self,
        side: Side,
        batch: PrimExpr,
        tile: tuple[PrimExpr, PrimExpr],
        places: Places,
        first: PrimExpr | None = None,
    ) -> Callable[[PrimExpr, PrimExpr, Values, PrimExpr], PrimExpr]:
        """Return a reader of an operand by the step in the panel, the step of all, and axes."""
        packed = side.packed
        if side.source is Source.WHOLE:
            assert packed is not None
            number = ravel(batch, side.tiles, tile[0])
            later = self.later if side is self.right else []
            return lambda k, whole, at_k, i: convert(BufferLoad(packed, (number, whole, i)), later)
        if side.source is Source.BLOCK:
            assert packed is not None
            return lambda k, whole, at_k, i: BufferLoad(packed, (tile[1], k, i))
        table = unravel(self.found.batch, batch)
        if first is not None:
            return lambda k, whole, at_k, i: side.vector(add(first, i), table, at_k)
        return lambda k, whole, at_k, i: side.element(table, at_k, places(i))

    # -- prologue and epilogue of a tile -----------------------------------------------------------
    def _inside(self, first: tuple[PrimExpr, PrimExpr]) -> PrimExpr:
        """Return the guard that a tile lies inside the result."""
        inside: PrimExpr = TRUE
        for side, begin in ((self.left, first[0]), (self.right, first[1])):
            if not side.even and not side.overlaps:
                fits = LE(add(begin, imm64(side.width)), side.extent)
                inside = fits if inside is TRUE else And(inside, fits)
        return inside

    def _begin(
        self,
        batch: PrimExpr,
        first: tuple[PrimExpr, PrimExpr],
        places: tuple[Places, Places],
        sums: Buffer,
    ) -> Stmt:
        near = [
            side.clamp(*given) for side, given in zip((self.left, self.right), zip(places, first))
        ]
        return init_accumulators(
            self.found,
            self.tiles,
            sums,
            unravel(self.found.batch, batch),
            places,
            (near[0], near[1]),
            self._inside(first),
            by_vectors=self._has_contiguous_columns(),
        )

    def _finish(
        self,
        batch: PrimExpr,
        first: tuple[PrimExpr, PrimExpr],
        places: tuple[Places, Places],
        sums: Buffer,
    ) -> Stmt:
        """Store a complete tile; spill a partial one, and store what lies inside the result."""
        left, right, tiles = self.left, self.right, self.tiles
        found = self.found
        table = unravel(found.batch, batch)

        def end(r: PrimExpr, c: PrimExpr, tile: Buffer) -> Stmt:
            place = {**table, **places[0](r), **places[1](c)}
            return store_element(found, self.inner, place, BufferLoad(tile, (r, c)))

        def vectors(r: PrimExpr, tile: Buffer) -> Stmt:
            return unroll(
                "v",
                tiles.vectors,
                lambda v: vectorize(
                    "c", tiles.lanes, lambda c: end(r, ravel(v, tiles.lanes, c), tile)
                ),
            )

        inside = self._inside(first)
        light = sum(1 for _ in pre_order(end(imm64(0), imm64(0), sums)))
        by_vectors = self._has_contiguous_columns()
        direct = light * tiles.rows * tiles.vectors <= _WRITTEN_OUT and by_vectors
        full = unroll("r", tiles.rows, lambda r: vectors(r, sums))
        if direct and inside is TRUE:
            return full
        edge = scratch("edge", (tiles.rows, tiles.columns), found.dtype)
        rows = minimum(imm64(tiles.rows), sub(left.extent, first[0]))
        columns = minimum(imm64(tiles.columns), sub(right.extent, first[1]))
        some = loop("r", rows, lambda r: loop("c", columns, lambda c: end(r, c, edge)))
        if by_vectors and tiles.lanes > 1:
            some = loop("r", rows, lambda r: self._in_vectors(columns, lambda c: end(r, c, edge)))
        if not direct:
            if by_vectors:
                many = loop("r", imm64(tiles.rows), lambda r: vectors(r, edge))
            else:
                many = loop(
                    "c",
                    tiles.columns,
                    lambda c: unroll("r", tiles.rows, lambda r: end(r, c, edge)),
                )
            some = many if inside is TRUE else IfThenElse(inside, many, some)
            return allocate([edge], copy_tile(edge, (), sums, tiles), some)
        spilled = allocate([edge], copy_tile(edge, (), sums, tiles), some)
        return IfThenElse(inside, full, spilled)

    def _in_vectors(self, columns: PrimExpr, end: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Store some columns of a row: full vectors, then a scalar remainder loop."""
        lanes = self.tiles.lanes
        whole = _div_exact(columns, lanes)
        full = loop("v", whole, lambda v: vectorize("c", lanes, lambda c: end(ravel(v, lanes, c))))
        if self.right.even or self.right.overlaps:
            return full
        done = mul(whole, imm64(lanes))
        return seq([full, loop("c", sub(columns, done), lambda c: end(add(done, c)))])

    def _has_contiguous_columns(self) -> bool:
        """Whether neighbouring columns are contiguous in the result."""
        many = [axis.var for axis in self.found.columns if axis.size != 1]
        last = self.found.stage.indices[-1]
        return len(many) == 1 and any(part is many[0] for part in pre_order(last))

    def _choices(self) -> tuple[str, ...]:
        left, right, tiles = self.left, self.right, self.tiles
        sums, registers = tiles.rows * tiles.vectors, self.target.registers
        shape = f"{tiles.rows} x {tiles.columns}"
        grouping: tuple[str, ...] = ()
        if self.groups is not None:
            a, b = self.groups.packed_dtypes
            grouping = (f"{self.groups.size} steps at once, as {a} and {b} in words",)
        if self.found.ordered:
            grouping = ("terms of an element in the order of the program, products rounded",)
        return (
            *grouping,
            f"tile of {shape}: {sums} of {registers} registers hold sums",
            f"left factor {left.describe_source}, right factor {right.describe_source}",
            *((f"kept as {right.factor.dtype}, converted when read",) if self.later else ()),
            *(("right factor fetched ahead, in one stream",) if self.streams_right else ()),
            f"panels of {tiles.depth} steps; blocks of {left.per_block} x {right.per_block} tiles",
        )


def _div_exact(value: PrimExpr, by: int) -> PrimExpr:
    """Divide a multiple of ``by`` exactly."""
    if isinstance(value, IntImm):
        return imm64(value.value // by)
    return FloorDiv(value, imm64(by))


def _inner_size(axes: tuple[Axis, ...]) -> int | None:
    """Return the size of the innermost of several axes."""
    many = [axis for axis in axes if axis.size != 1]
    return many[-1].size if len(many) > 1 else None
