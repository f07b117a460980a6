"""Choose the tiles of an implicit GEMM, and pack its kernels and the im2col panels of the image."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from math import prod
from typing import Final

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.loops import (
    INDEX,
    allocate,
    loop,
    parallel,
    scratch,
)
from loomir.autoschedule.builders.operand_access import (
    extent_of,
    let,
    minimum,
    ramp,
    size_of,
    unravel,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.convolution.image_panels import (
    copy_pieces,
    count_pieces,
    find_pieces,
)
from loomir.autoschedule.rules.convolution.recognise import Image
from loomir.autoschedule.rules.convolution.remainder_pixels import (
    RemainderPixels,
    count_remainder_pixels,
)
from loomir.autoschedule.rules.matmul.operands import AxisValues, Side
from loomir.autoschedule.rules.matmul.prepack import is_constant
from loomir.autoschedule.rules.matmul.tile_sizes import WORTH_THREADS, Tiles, choose_tiles, div_up
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import (
    LE,
    LT,
    Broadcast,
    FloorDiv,
    FloorMod,
    PrimExpr,
    Sub,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["AT_ONCE", "PackedConvolution"]

_SHARES: Final = 4
"""Tiles of pixels from which threads do not share panels.

Panels then stay in their core's cache: on two threads of a Xeon, 256 channels of 14 x 14 take 5/6.
"""
_STEPS: Final = 64
"""Steps of a panel if the next one is packed meanwhile (software pipelining), or few rows use it.

L1 holds both panels. 64 channels of 112 x 112 pixels take 0.95 of the time of a single panel for
each strip, packed before its use (on a Xeon, Emerald Rapids).
"""
_FEW_TILES: Final = 2
"""Tiles of rows up to which panels are packed before their use, without software pipelining.

On a Xeon (Emerald Rapids), 16 channels of 112 x 112 pixels then take 0.95 of the time, and
transposed convolutions of few channels compile in two thirds of the time.
"""
AT_ONCE: Final = 8
"""Unroll factor of steps; a part of the next panel is packed after each group of them."""
_BLOCKS: Final = 16
"""Blocks from which a block has more than one strip, since enough are left for all threads."""
_ROWS: Final = 64
"""Rows of a block if threads share panels, all of which each thread reads."""


class PackedConvolution:
    """The choices for a convolution, and the packing of both operands."""

    def __init__(
        self, image: Image, target: Target, inner: Set[Buffer], constants: Set[Var]
    ) -> None:
        found = image.product
        self.image, self.found, self.inner, self.target = image, found, inner, target
        self.m, self.n = size_of(found.rows) or 0, size_of(found.columns) or 0
        self.k = size_of(found.reduced) or 0
        self.batch, self.count = extent_of(found.batch), size_of(found.batch)
        lanes = target.lanes(found.dtype.bits)
        self.rest = count_remainder_pixels(image, lanes)
        self.whole = self.n - self.rest
        self.tiles = tiles = self._choose_tiles()
        row_tiles, column_tiles = self.row_tiles, self.column_tiles
        if self.own_panels:
            across = min(4, max(1, column_tiles // _SHARES)) if self.far else 1
            if self.meanwhile:
                across = min(4, max(1, column_tiles // _BLOCKS))
            down = row_tiles
        else:
            down, across = div_up(row_tiles, 2 * max(1, self.m // (2 * _ROWS))), column_tiles
        self.left = Side("left", found.left, found.rows, tiles.rows, down)
        (pixels,) = found.columns
        vectors = (Axis(pixels.var, imm64(self.whole)),)
        self.right = Side("right", found.right, vectors, tiles.columns, across)
        self.copy = scratch(
            "image",
            (add(mul(product(image.lines), imm64(image.pitch)), imm64(tiles.lanes)),),
            found.dtype,
        )
        slots: PrimExpr = mul(self.batch, imm64(column_tiles * self.panels))
        if self.own_panels:
            slots = imm64(2 if self.meanwhile else across)
        row = (tiles.depth + 1) * tiles.columns
        self.panel = scratch("panel", (slots, row), found.dtype)
        self.pieces = count_pieces(image, tiles.columns, tiles.lanes)
        used: set[Var] = set(by_class(found.left).get(Var, ()))
        self.groups = tuple(axis for axis in found.batch if axis.var in used)
        self.left_over: RemainderPixels | None = None
        if self.rest:
            self.left_over = RemainderPixels(
                image, self.left, self.rest, self.copy, self.panels, lanes, target.registers
            )
            images = imm64(1) if self.own_panels else self.batch
            self.columns = self.left_over.columns(images)
        self.kernels: Buffer | None = None
        """Constant kernels, prepacked before any call."""
        constant = is_constant(replace(found, batch=self.groups), found.left, constants)
        if constant and not self.rest:  # the remainder pixels read them in place
            sets = (size_of(self.groups) or 0) * row_tiles
            self.kernels = scratch("kernels", (sets, self.k, tiles.rows), found.dtype)

    def _choose_tiles(self) -> Tiles:
        """Choose tiles, and panels of whole units: the iterations of the innermost reduced axes."""
        tiles = choose_tiles(self.m, self.whole, self.k, self.found.dtype, self.target)
        sizes = [axis.size or 1 for axis in self.image.steps]
        self.column_tiles = div_up(self.whole, tiles.columns)
        self.own_panels = self.column_tiles * (self.count or _SHARES) >= _SHARES
        """Whether each block packs its own panels, for all rows."""
        second = self.target.caches[1] or self.target.caches[0] * 4
        self.far = self.m * self.k * self.found.dtype.itemsize > second
        """Whether kernels exceed L2, and are better read once for several strips."""
        near = self.own_panels and not self.far and not self.rest
        depth = min(tiles.depth, _STEPS) if near else tiles.depth
        most = depth + depth // 4
        self.lead = next(i for i in range(len(sizes) + 1) if prod(sizes[i:]) <= most)
        self.unit, self.total = prod(sizes[self.lead :]), prod(sizes[: self.lead])
        self.units = div_up(self.total, div_up(self.total, max(1, most // self.unit)))
        self.panels = div_up(self.total, self.units)
        rows = tiles.rows
        if tiles.columns * _SHARES > self.whole:  # blocks of equal size
            even = [r for r in range(max(1, rows - 2), rows + 1) if self.m % r == 0]
            rows = max(even, default=rows)
        depth = self.units * self.unit
        self.row_tiles = div_up(self.m, rows)
        fewest = (self.k - (self.panels - 1) * depth) // AT_ONCE
        often = near and self.row_tiles > _FEW_TILES
        self.meanwhile = div_up(depth, self.row_tiles * fewest) if often and fewest else 0
        """Steps of the next panel that are packed between unrolled steps of a tile."""
        return replace(tiles, rows=rows, depth=depth)

    @property
    def work(self) -> int | None:
        """Count the multiply-adds of one call, None if the batch is dynamic."""
        return None if self.count is None else self.m * self.n * self.k * self.count

    def _loop_over_tasks(
        self, name: str, extent: PrimExpr, body: Callable[[PrimExpr], Stmt]
    ) -> Stmt:
        """Loop over tasks, in parallel where there is work enough."""
        worth = self.work is None or self.work >= WORTH_THREADS
        return (parallel if worth else loop)(name, extent, body)

    def _prepack_kernels(self, kernels: Buffer) -> Stmt:
        """Prepack kernels by tiles; rows beyond the last repeat it."""
        left = self.left
        count = div_up(self.m, left.width)

        def pack_element(number: PrimExpr, k: PrimExpr, r: PrimExpr) -> Stmt:
            group = unravel(self.groups, FloorDiv(number, imm64(count)))
            row = add(mul(FloorMod(number, imm64(count)), imm64(left.width)), r)
            rows = unravel(self.found.rows, minimum(row, imm64(self.m - 1)))
            value = left.element(group, {self.found.reduced[0].var: k}, rows)
            return BufferStore(kernels, value, (number, k, r))

        return loop(
            "set",
            kernels.shape[0],
            lambda n: loop(
                "k", self.k, lambda k: loop("r", left.width, lambda r: pack_element(n, k, r))
            ),
        )

    # -- panels ------------------------------------------------------------------------------------
    def _depth(self, panel: PrimExpr) -> PrimExpr:
        """Count the units of a panel; the last one may have fewer."""
        if self.total % self.units == 0:
            return imm64(self.units)
        return minimum(imm64(self.units), sub(imm64(self.total), mul(panel, imm64(self.units))))

    def _pack_all(self) -> Stmt:
        """Pack all panels, and the columns of the remainder pixels."""
        count = mul(self.batch, imm64(self.column_tiles * self.panels))

        def pack_panel(number: PrimExpr) -> Stmt:
            panel, rest = FloorMod(number, imm64(self.panels)), FloorDiv(number, imm64(self.panels))
            tile = FloorMod(rest, imm64(self.column_tiles))
            batch = FloorDiv(rest, imm64(self.column_tiles))
            return self._pack(batch, tile, panel, number)

        left_over = self.left_over
        if left_over is None:
            return self._loop_over_tasks("panel", count, pack_panel)

        def column(number: PrimExpr) -> Stmt:
            batch, pixel = FloorDiv(number, imm64(self.rest)), FloorMod(number, imm64(self.rest))
            place = add(imm64(self.whole), pixel)
            return left_over.pack(self.columns, batch, number, place)

        return self._loop_over_tasks(
            "panel",
            add(count, mul(self.batch, imm64(self.rest))),
            lambda number: IfThenElse(
                LT(number, count), pack_panel(number), column(Sub(number, count))
            ),
        )

    def _pack(self, batch: PrimExpr, tile: PrimExpr, panel: PrimExpr, slot: PrimExpr) -> Stmt:
        """Pack a panel for a tile of pixels."""
        tiles, image = self.tiles, self.image
        width, lanes = tiles.columns, tiles.lanes
        sources = scratch("sources", (self.pieces,), INDEX, scope="local")
        targets = scratch("targets", (self.pieces,), INDEX, scope="local")
        lead, near = image.steps[: self.lead], image.steps[self.lead :]
        fixed = unravel(self.found.batch, batch)

        def rows(units: PrimExpr, first: PrimExpr) -> Stmt:
            def unit(u: PrimExpr) -> Stmt:
                table = unravel(lead, add(mul(panel, imm64(self.units)), u))
                return inside(0, {**fixed, **table}, u)

            def inside(i: int, table: AxisValues, k: PrimExpr) -> Stmt:
                if i == len(near):
                    base = substitute(image.base, table)
                    row = mul(k, imm64(width))
                    return copy_pieces(
                        self.copy, base, self.panel, slot, row, lanes, (sources, targets)
                    )
                axis = near[i]
                return loop(
                    axis.var.name_hint,
                    axis.extent,
                    lambda x: inside(i + 1, {**table, axis.var: x}, add(mul(k, axis.extent), x)),
                )

            return loop("unit", units, unit)

        def pack_from(first: PrimExpr) -> Stmt:
            units = self._depth(panel)
            parts = [find_pieces(image, first, width, lanes, sources, targets), rows(units, first)]
            if self.n % width:
                full = LE(add(first, imm64(width)), imm64(self.n))
                parts.insert(0, IfThenElse(full, seq([]), self._clear(slot, units)))
            return allocate([sources, targets], *parts)

        return let("first", mul(tile, imm64(width)), pack_from)

    def _clear(self, slot: PrimExpr, units: PrimExpr) -> Stmt:
        """Zero so many units of a panel."""
        lanes, zero = self.tiles.lanes, const(0, self.found.dtype)
        value = zero if lanes == 1 else Broadcast(zero, lanes)
        return loop(
            "v",
            mul(units, imm64(self.unit * self.tiles.vectors)),
            lambda v: BufferStore(self.panel, value, (slot, ramp(mul(v, imm64(lanes)), lanes))),
        )
