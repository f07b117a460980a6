"""Implicit-GEMM convolution: broadcast kernels, read in place, times im2col panels of the image.

Vectors are pixels that are contiguous in the result. For a tile of pixels, a panel holds the
elements of the image that each step along the reduced axes multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.loops import (
    INDEX,
    allocate,
    loop,
    scratch,
    unroll,
    vectorize,
)
from loomir.autoschedule.builders.operand_access import (
    let,
    minimum,
    ramp,
    ravel,
    size_of,
    unravel,
)
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.rules.convolution.channel_vectors import plan_channel_vectors
from loomir.autoschedule.rules.convolution.image_panels import (
    copy_image,
    copy_pieces,
    find_pieces,
    parts_of,
)
from loomir.autoschedule.rules.convolution.panel_packing import AT_ONCE, PackedConvolution
from loomir.autoschedule.rules.convolution.recognise import read_image
from loomir.autoschedule.rules.convolution.remainder_pixels import (
    gains_by_remainder,
)
from loomir.autoschedule.rules.matmul.accumulator_init import init_accumulators
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import find_dot_groups
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import (
    choose_multiply,
    copy_tile,
    load_tile,
    multiply_then_add,
    run_tile,
)
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, AxisValues, count_tiles
from loomir.autoschedule.rules.matmul.prepack import loop_over_steps
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import div_up
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
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
    PrimExpr,
    Ramp,
    Var,
)
from loomir.tir.stmt import TRUE, IfThenElse, Stmt, seq

__all__ = ["convolution"]

_WRITTEN_OUT: Final = 6000
"""Nodes up to which the epilogue of a tile is unrolled from registers."""


def convolution(
    found: Contraction,
    target: Target,
    inner: Callable[[Contraction], Set[Buffer]],
    views: Views,
    pad: Stage | None,
    constants: Set[Var] = frozenset(),
) -> Plan | None:
    """Plan a product whose right operand is an image; None for others."""
    if find_dot_groups(found, target) is not None:
        return None
    image = read_image(found, views, pad)
    if image is None or not (image.slides or gains_by_remainder(image, found, target, constants)):
        return None
    plan = plan_channel_vectors(image, target, inner(image.product), constants)
    if plan is not None:
        return plan
    pixels = size_of(image.product.columns) or 0
    if pixels < target.lanes(found.dtype.bits) // 2 or not pixels:
        return None
    return _Convolution(image, target, inner(image.product), constants).plan()


class _Convolution(PackedConvolution):
    """The loop nest of a convolution."""

    def plan(self) -> Plan:
        """Emit the loop nest."""
        copying, how = copy_image(self.image, self.copy, self.tiles.lanes)
        parts, local = [copying], [self.copy]
        if not self.own_panels:
            local.append(self.panel)
            local += [self.columns] if self.left_over else []
            parts.append(self._pack_all())
        blocks = product((self.batch, self.right.blocks, self.left.blocks))
        parts.append(self._loop_over_tasks("block", blocks, self._block))
        flops = None if self.work is None else 2 * self.work
        ahead = (
            () if (own := self.kernels) is None else (Prepack(self._prepack_kernels(own), (own,)),)
        )
        return Plan("convolution", allocate(local, *parts), self._choices(how), flops, ahead=ahead)

    # -- loops -------------------------------------------------------------------------------------
    def _block(self, number: PrimExpr) -> Stmt:
        left, right, tiles = self.left, self.right, self.tiles
        down = FloorMod(number, left.blocks)
        rest = FloorDiv(number, left.blocks)
        across, batch = FloorMod(rest, right.blocks), FloorDiv(rest, right.blocks)
        mine = [self.panel] if self.own_panels else []
        part = None
        if self.panels > 1:
            strips = 1 if self.meanwhile else right.per_block
            shape = (strips, left.per_block, tiles.rows, tiles.columns)
            part = scratch("part", shape, self.found.dtype)
            mine.append(part)
        sums = None
        if self.left_over is not None:
            sums = self.left_over.sums()
            mine.append(sums)
            mine += [self.columns] if self.own_panels else []

        def inside(batch: PrimExpr, across: PrimExpr, down: PrimExpr) -> Stmt:
            if self.meanwhile:
                return allocate(mine, self._strips(batch, across, down, part))

            def panel(p: PrimExpr) -> Stmt:
                strips = self._panel(batch, across, down, p, part)
                if sums is None:
                    return strips
                rest = self._rests(batch, down, p, sums)
                if self.column_tiles > 1 and self.own_panels:
                    rest = IfThenElse(Eq(across, sub(self.right.blocks, imm64(1))), rest)
                return seq([strips, rest])

            body = loop("panel", self.panels, panel)
            return allocate(mine, body) if mine else body

        return let(
            "batch",
            batch,
            lambda b: let("across", across, lambda a: let("down", down, lambda d: inside(b, a, d))),
        )

    def _strips(
        self, batch: PrimExpr, across: PrimExpr, down: PrimExpr, part: Buffer | None
    ) -> Stmt:
        """Loop over strips, and over panels of each, packing the next panel meanwhile."""
        tiles, panels, zero = self.tiles, imm64(self.panels), imm64(0)
        fixed = unravel(self.found.batch, batch)

        def compute_strip(s: PrimExpr, p: PrimExpr) -> Stmt:
            tile, number = ravel(across, self.right.per_block, s), ravel(s, panels, p)
            sources = scratch("sources", (self.pieces,), INDEX, scope="local")
            targets = scratch("targets", (self.pieces,), INDEX, scope="local")
            later = FloorMod(add(p, imm64(1)), panels) if self.panels > 1 else zero
            after = add(tile, FloorDiv(add(p, imm64(1)), panels))
            first = mul(minimum(after, imm64(self.column_tiles - 1)), imm64(tiles.columns))
            slot = FloorMod(add(number, imm64(1)), imm64(2))

            def row(k: PrimExpr) -> Stmt:
                whole = minimum(ravel(later, tiles.depth, k), imm64(self.k - 1))
                base = substitute(self.image.base, {**fixed, **unravel(self.image.steps, whole)})
                target = mul(k, imm64(tiles.columns))
                return copy_pieces(
                    self.copy, base, self.panel, slot, target, tiles.lanes, (sources, targets)
                )

            def copy_rows(t: PrimExpr, turn: PrimExpr, turns: PrimExpr) -> Stmt:
                first = mul(ravel(t, turns, turn), imm64(self.meanwhile))
                last = imm64(tiles.depth - 1)
                rows = loop("row", self.meanwhile, lambda i: row(minimum(add(first, i), last)))
                return IfThenElse(LE(first, last), rows)

            walk = loop(
                "tile",
                count_tiles(self.left, down),
                lambda t: self._tile(
                    batch,
                    tile,
                    (down, t),
                    p,
                    FloorMod(number, imm64(2)),
                    part,
                    zero,
                    lambda turn, turns: copy_rows(t, turn, turns),
                ),
            )
            found = find_pieces(self.image, first, tiles.columns, tiles.lanes, sources, targets)
            return allocate([sources, targets], found, walk)

        begin = [self._pack(batch, ravel(across, self.right.per_block, zero), zero, zero)]
        if self.n % tiles.columns:
            begin.insert(0, self._clear(imm64(1), imm64(self.units)))
        strips = count_tiles(self.right, across)
        walk = loop("strip", strips, lambda s: loop("panel", panels, lambda p: compute_strip(s, p)))
        return seq([*begin, walk])

    def _panel(
        self,
        batch: PrimExpr,
        across: PrimExpr,
        down: PrimExpr,
        panel: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        def strip(s: PrimExpr) -> Stmt:
            tile = ravel(across, self.right.per_block, s)
            slot: PrimExpr = s
            parts: list[Stmt] = []
            if self.own_panels:
                parts.append(self._pack(batch, tile, panel, slot))
            else:
                whole = ravel(batch, self.column_tiles, tile)
                slot = ravel(whole, self.panels, panel)
            parts.append(
                let(
                    "slot",
                    slot,
                    lambda x: loop(
                        "tile",
                        count_tiles(self.left, down),
                        lambda t: self._tile(batch, tile, (down, t), panel, x, part, s),
                    ),
                )
            )
            return seq(parts)

        return loop("strip", count_tiles(self.right, across), strip)

    def _tile(
        self,
        batch: PrimExpr,
        column_tile: PrimExpr,
        tile: tuple[PrimExpr, PrimExpr],
        panel: PrimExpr,
        slot: PrimExpr,
        part: Buffer | None,
        strip: PrimExpr,
        meanwhile: Callable[[PrimExpr, PrimExpr], Stmt] | None = None,
    ) -> Stmt:
        left, tiles = self.left, self.tiles
        sums = scratch("sums", (tiles.rows, tiles.columns), self.found.dtype, scope="local")
        step = self.found.reduced[0].var
        fixed = unravel(self.found.batch, batch)
        start = mul(panel, imm64(tiles.depth))

        def inside(row: PrimExpr, column: PrimExpr, rows: AxesAtOffset) -> Stmt:
            source = left.clamp(rows, row)
            number: PrimExpr = imm64(0)
            for axis in self.groups:
                number = ravel(number, axis.extent, fixed[axis.var])
            tile_number = ravel(tile[0], left.per_block, tile[1])
            number = ravel(number, div_up(self.m, left.width), tile_number)

            def kernel(r: PrimExpr, k: PrimExpr) -> PrimExpr:
                if self.kernels is not None:
                    return BufferLoad(self.kernels, (number, k, r))
                return left.element(fixed, {step: k}, source(r))

            def run_step(k: PrimExpr) -> Stmt:
                first = mul(k, imm64(tiles.columns))

                def pixels(c: PrimExpr) -> PrimExpr:
                    base = c.base if isinstance(c, Ramp) else c
                    return BufferLoad(self.panel, (slot, ramp(add(first, base), tiles.lanes)))

                return run_tile(
                    sums,
                    lambda r: kernel(r, add(start, k)),
                    pixels,
                    tiles,
                    multiply_then_add if self.found.ordered else choose_multiply(self.target),
                )

            between = meanwhile
            if self.left_over is not None:
                between = self.left_over.prefetch(self.target, fixed, source)
            steps = self._steps(mul(self._depth(panel), imm64(self.unit)), run_step, between)
            end = self._end(batch, row, column, rows, sums)
            fill = self._begin(fixed, row, column, (rows, source), sums)
            if part is None:
                return allocate([sums], fill, steps, end)
            place = (strip, tile[1])
            begin = IfThenElse(Eq(panel, imm64(0)), fill, load_tile(sums, part, place, tiles))
            last = Eq(panel, imm64(self.panels - 1))
            return allocate(
                [sums], begin, steps, IfThenElse(last, end, copy_tile(part, place, sums, tiles))
            )

        return let(
            "row",
            left.compute_first_row(ravel(tile[0], left.per_block, tile[1])),
            lambda row: let(
                "column",
                self.right.compute_first_row(column_tile),
                lambda column: left.hoist_indices(row, lambda rows: inside(row, column, rows)),
            ),
        )

    def _steps(
        self,
        depth: PrimExpr,
        step: Callable[[PrimExpr], Stmt],
        meanwhile: Callable[[PrimExpr, PrimExpr], Stmt] | None,
    ) -> Stmt:
        """Loop over the steps of a panel; ``meanwhile`` is emitted between groups of them."""
        if meanwhile is None:
            return loop_over_steps(depth, self.target, step)
        turns = FloorDiv(depth, imm64(AT_ONCE))
        if isinstance(depth, IntImm):
            turns = imm64(depth.value // AT_ONCE)
        size = imm64(AT_ONCE)

        def run_turn(turn: PrimExpr) -> Stmt:
            first = mul(turn, size)
            steps = loop_over_steps(size, self.target, lambda k: step(add(first, k)))
            return seq([meanwhile(turn, turns), steps])

        done = mul(turns, size)
        made = [loop("turn", turns, run_turn)]
        if not isinstance(depth, IntImm) or depth.value % AT_ONCE:
            made.append(loop("k", sub(depth, done), lambda k: step(add(done, k))))
        return seq(made)

    def _rests(self, batch: PrimExpr, down: PrimExpr, panel: PrimExpr, sums: Buffer) -> Stmt:
        tiles = count_tiles(self.left, down)
        made = loop("tile", tiles, lambda t: self._rest(batch, (down, t), panel, sums))
        if not self.own_panels or self.left_over is None:
            return made
        columns = [
            self.left_over.pack(self.columns, batch, imm64(j), imm64(self.whole + j))
            for j in range(self.rest)
        ]
        return seq([IfThenElse(Eq(panel, imm64(0)), seq(columns)), made])

    def _rest(
        self,
        batch: PrimExpr,
        tile: tuple[PrimExpr, PrimExpr],
        panel: PrimExpr,
        sums: Buffer,
    ) -> Stmt:
        """Accumulate the remainder pixels, for a tile of rows."""
        left, found, left_over = self.left, self.found, self.left_over
        assert left_over is not None
        table = unravel(found.batch, batch)
        (pixels,) = found.columns

        def inside(row: PrimExpr, rows: AxesAtOffset) -> Stmt:
            def finish(r: PrimExpr, j: PrimExpr, total: PrimExpr) -> Stmt:
                place = {**table, **rows(r), pixels.var: add(imm64(self.whole), j)}
                return self._guard_row(row, r, store_element(found, self.inner, place, total))

            source = left.clamp(rows, row)
            return left_over.tile(self.columns, sums, batch, tile[1], panel, source, finish)

        return let(
            "row",
            left.compute_first_row(ravel(tile[0], left.per_block, tile[1])),
            lambda row: left.hoist_indices(row, lambda rows: inside(row, rows)),
        )

    def _guard_row(self, row: PrimExpr, r: PrimExpr, stmt: Stmt) -> Stmt:
        """Guard a store against rows beyond the last one."""
        return stmt if self.left.even else IfThenElse(LT(add(row, r), imm64(self.m)), stmt)

    # -- prologue and epilogue of a tile -----------------------------------------------------------
    def _begin(
        self,
        table: AxisValues,
        row: PrimExpr,
        column: PrimExpr,
        rows: tuple[AxesAtOffset, AxesAtOffset],
        sums: Buffer,
    ) -> Stmt:
        """Initialise the accumulators; ``rows`` are those of the tile, and clamped ones."""
        tiles, left = self.tiles, self.left
        (pixels,) = self.found.columns
        last = imm64(self.whole - 1)
        inside: PrimExpr = TRUE if left.even else LE(add(row, imm64(tiles.rows)), left.extent)
        if self.whole % tiles.columns:
            fits = LE(add(column, imm64(tiles.columns)), imm64(self.whole))
            inside = fits if left.even else And(inside, fits)
        return init_accumulators(
            self.found,
            tiles,
            sums,
            table,
            (rows[0], lambda c: {pixels.var: add(column, c)}),
            (rows[1], lambda c: {pixels.var: minimum(add(column, c), last)}),
            inside,
            by_vectors=True,
        )

    def _end(
        self, batch: PrimExpr, row: PrimExpr, column: PrimExpr, rows: AxesAtOffset, sums: Buffer
    ) -> Stmt:
        """Store a complete tile, but for what lies beyond the result."""
        tiles, found = self.tiles, self.found
        table = unravel(found.batch, batch)
        (pixels,) = found.columns

        def end(r: PrimExpr, c: PrimExpr, tile: Buffer) -> Stmt:
            place = {**table, **rows(r), pixels.var: add(column, c)}
            return store_element(found, self.inner, place, BufferLoad(tile, (r, c)))

        def line(r: PrimExpr, tile: Buffer, size: int) -> Stmt:
            made: list[Stmt] = []
            for first, n in parts_of(size, tiles.lanes):
                f = imm64(first)
                made.append(
                    end(r, f, tile)
                    if n == 1
                    else vectorize("c", n, lambda c, f=f: end(r, add(f, c), tile))
                )
            return self._guard_row(row, r, seq(made))

        light = sum(1 for _ in pre_order(end(imm64(0), imm64(0), sums)))
        tile, many, before = sums, unroll, list[Stmt]()
        if light * tiles.rows * tiles.vectors > _WRITTEN_OUT:
            tile, many = scratch("edge", (tiles.rows, tiles.columns), found.dtype), loop
            before.append(copy_tile(tile, (), sums, tiles))
        whole = many("r", tiles.rows, lambda r: line(r, tile, tiles.columns))
        rest = self.whole % tiles.columns
        made = whole
        if rest:
            some = many("r", tiles.rows, lambda r: line(r, tile, rest))
            full = LE(add(column, imm64(tiles.columns)), imm64(self.whole))
            made = IfThenElse(full, whole, some) if self.whole > rest else some
        return allocate([tile], *before, made) if before else made

    def _choices(self, how: str) -> tuple[str, ...]:
        left, right, tiles = self.left, self.right, self.tiles
        sums, registers = tiles.rows * tiles.vectors, self.target.registers
        kept = "constant, packed before all calls" if self.kernels else "read where they are"
        order = ("terms of an element in the order of the program, products rounded",)
        return (
            *(order if self.found.ordered else ()),
            f"tile of {tiles.rows} x {tiles.columns}: {sums} of {registers} registers hold sums",
            f"kernels are {kept}, vectors lie along pixels",
            f"panels of {tiles.depth} steps, in {self.pieces} pieces each",
            f"blocks of {left.per_block} x {right.per_block} tiles",
            *([f"dot products for pixels that fill no vector: {self.rest}"] if self.rest else []),
            f"the image is copied with its padding: {how}",
        )
