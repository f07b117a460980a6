"""Blocked GEMM: packed panels, register tiles of accumulators, and blocks that threads share."""

from __future__ import annotations

from collections.abc import Callable
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
from loomir.autoschedule.builders.strip_mine import partial_vector_widths, strip_mine
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Axis, has_zero_trip_case
from loomir.autoschedule.rules.matmul.accumulator_init import init_accumulators
from loomir.autoschedule.rules.matmul.blocking import BlockingParameters
from loomir.autoschedule.rules.matmul.dot_groups import WORD
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
    AxesAtOffset,
    AxisValues,
    Side,
    Source,
    bind_tile,
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
    loop_over_steps,
)
from loomir.autoschedule.rules.matmul.tile_sizes import (
    WORTH_THREADS,
)
from loomir.autoschedule.rules.matmul.unpacked_operands import (
    is_1d_sum,
)
from loomir.ir.visit import pre_order
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

__all__ = ["BlockedProduct"]

AccumulatorInit: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""Returns a vector of the initial accumulators of columns."""
_TRANSPOSED: Final = 16
"""The most rows of a block transposed in registers; more would add code for little gain."""
_WRITTEN_OUT: Final = 6000
"""Nodes up to which the epilogue of a tile is unrolled from registers."""


class BlockedProduct(BlockingParameters):
    """The loop nest that follows from the choices for a product."""

    # -- packing -----------------------------------------------------------------------------------
    def _plan_panels(self, side: Side, batch: PrimExpr) -> Packing:
        found = self.found
        table = unravel(found.batch, batch)
        factor, depth = self._collapse_reduced(side)

        def value(place: AxisValues, k: PrimExpr) -> PrimExpr:
            return value_at(factor, {**table, **place, **unravel(depth, k)})

        if self.groups is not None:
            return self.groups.plan_packing(side, value, factor, depth, self.tiles.lanes)

        size = min(self.tiles.lanes, _TRANSPOSED)

        def load_along(place: AxisValues, k: PrimExpr) -> PrimExpr:
            return load_vector(factor, value(place, k), size)

        # Prepacking runs once and should compile fast: transposes in registers are much code.
        turns = self.tiles.lanes > 1 and not side.ahead
        return Packing(
            side,
            value,
            self.tiles.lanes,
            stride_along(side.factor, side.axes) == 1,
            load_along if turns and is_contiguous_along(factor, depth) else None,
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

        def pack_tile_of(number: PrimExpr) -> Stmt:
            batch, tile = FloorDiv(number, side.tiles), FloorMod(number, side.tiles)
            if self.count == 1:
                batch, tile = imm64(0), number
            return self._pack_tile(side, batch, (number,), tile, imm64(0), self.depth)

        return self._loop_over_tasks("tile", mul(self.batch, side.tiles), pack_tile_of)

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
    def _loop_over_tasks(self, name: str, extent: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
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
            self._loop_over_tasks(
                "block", product((self.batch, right.blocks, left.blocks)), self._block
            )
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
            body = self._loop_over_panels(batch, across, down, part)
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

    def _loop_over_panels(
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

            def compute_tile(s: PrimExpr, t: PrimExpr) -> Stmt:
                return self._tile(batch, (across, s), (down, t), panel, start, depth, part)

            strips, rows = right.tiles_of(across), left.tiles_of(down)
            if tiles.by_rows:
                each = loop(
                    "tile", rows, lambda t: loop("strip", strips, lambda s: compute_tile(s, t))
                )
            else:
                each = loop(
                    "strip", strips, lambda s: loop("tile", rows, lambda t: compute_tile(s, t))
                )
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

        def inside(
            row: PrimExpr, column: PrimExpr, rows: AxesAtOffset, columns: AxesAtOffset
        ) -> Stmt:
            source = left.clamp(rows, row)
            read_left = self._reader(left, batch, (row_tile, tile[1]), source)
            read_right = self._reader(right, batch, (column_tile, strip[1]), lambda i: {}, column)
            fetches = self._fetches(batch, strip, tile, (panel, self.panels, start, depth))

            def step(k: PrimExpr, at_k: AxisValues) -> Stmt:
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

        return bind_tile((left, row_tile), (right, column_tile), inside)

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

    def _starts(
        self, whole: PrimExpr, slot: PrimExpr
    ) -> tuple[AccumulatorInit | None, AccumulatorInit | None]:
        """Return the initial accumulators of the first panel, and what each later one adds."""
        starts = self.starts
        if starts is None:
            return None, None
        if self.right.source is Source.WHOLE:  # summed over all panels when packed
            return (lambda c: BufferLoad(starts, (whole, c))), None
        each: AccumulatorInit = lambda c: BufferLoad(starts, (slot, c))  # noqa: E731
        return each, each

    def _steps(
        self,
        start: PrimExpr,
        depth: PrimExpr,
        body: Callable[[PrimExpr, AxisValues], Stmt],
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
        places: AxesAtOffset,
        first: PrimExpr | None = None,
    ) -> Callable[[PrimExpr, PrimExpr, AxisValues, PrimExpr], PrimExpr]:
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
        places: tuple[AxesAtOffset, AxesAtOffset],
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
        places: tuple[AxesAtOffset, AxesAtOffset],
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
            some = loop(
                "r", rows, lambda r: self._store_by_vectors(columns, lambda c: end(r, c, edge))
            )
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

    def _store_by_vectors(self, columns: PrimExpr, end: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Store some columns of a row: full vectors, then narrower ones, then a scalar loop."""
        lanes, size = self.tiles.lanes, self.right.size

        def store_strip(first: PrimExpr, width: int) -> Stmt:
            return end(first) if width == 1 else vectorize("c", width, lambda c: end(add(first, c)))

        widths = [lanes]
        if not (self.right.even or self.right.overlaps):
            if size is not None:
                widths += [w for w in partial_vector_widths(lanes, size) if size % lanes & w]
            widths.append(1)
        return seq(strip_mine(imm64(0), columns, widths, store_strip))

    def _has_contiguous_columns(self) -> bool:
        """Whether neighbouring columns are contiguous in the result."""
        many = [axis.var for axis in self.found.columns if axis.size != 1]
        last = self.found.stage.indices[-1]
        return len(many) == 1 and any(part is many[0] for part in pre_order(last))


def _div_exact(value: PrimExpr, by: int) -> PrimExpr:
    """Divide a multiple of ``by`` exactly."""
    if isinstance(value, IntImm):
        return imm64(value.value // by)
    return FloorDiv(value, imm64(by))
