"""Compute remainder pixels, which fill no vector, as dot products along the reduced axis.

49 pixels in vectors of 16 lanes would waste a quarter of the work. Instead, 48 pixels are vectors,
and the last one is a column of its own, which is multiplied with rows of the kernels while they are
in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.loops import allocate, loop, scratch, unroll
from loomir.autoschedule.builders.operand_access import (
    is_contiguous_along,
    let,
    ramp,
    ravel,
    size_of,
    unravel,
)
from loomir.autoschedule.builders.reduction_ops import reduce_lanes
from loomir.autoschedule.ir.stage import Combine
from loomir.autoschedule.rules.convolution.recognise import Image
from loomir.autoschedule.rules.matmul.micro_kernel import multiply_add
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, AxisValues, Side, load_vector
from loomir.autoschedule.rules.matmul.prefetch import prefetch_rows
from loomir.autoschedule.rules.matmul.prepack import is_constant
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.ir.substitution import substitute
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Add, Broadcast, Eq, FloorDiv, IntImm, PrimExpr, Var, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["RemainderPixels", "count_remainder_pixels", "gains_by_remainder"]

_MOST: Final = 4
"""Remainder pixels up to which dot products are cheaper than another vector."""
_FEWEST_STEPS: Final = 2
"""Vectors of steps from which summing their lanes costs little."""
_FEW_VECTORS: Final = 16
"""Vectors of pixels up to which another one would add much work."""
_FEWEST_ROWS: Final = 48
"""Rows from which a plain matrix product gains by dot products for its last columns.

Relative to padding to whole vectors, 196 columns take 0.9 of the time and 49 columns 0.8. With 32
rows they take as long, with 16 rows 1.2 to 1.4 times as long, since the columns must be copied (CPU
not recorded).
"""
_SUMS: Final = 24
"""Vector accumulators for which a machine with 32 registers has room."""


def count_remainder_pixels(image: Image, lanes: int) -> int:
    """Count the remainder pixels to compute by dot products; 0 where a vector is better."""
    found = image.product
    pixels, steps = size_of(found.columns) or 0, size_of(found.reduced) or 0
    rest = pixels % lanes
    if found.ordered or not lanes <= pixels <= _FEW_VECTORS * lanes:
        return 0
    if not 0 < rest <= min(_MOST, lanes // 4) or steps < _FEWEST_STEPS * lanes:
        return 0
    return rest if is_contiguous_along(found.left, found.reduced) else 0


def gains_by_remainder(
    image: Image, found: Contraction, target: Target, constants: Set[Var]
) -> bool:
    """Whether a plain matrix product gains by dot products for its last columns."""
    if found.starts_from_init or is_constant(found, found.right, constants):
        return False
    many = (size_of(found.rows) or 0) >= _FEWEST_ROWS
    return many and count_remainder_pixels(image, target.lanes(found.dtype.bits)) > 0


class RemainderPixels:
    """The last ``count`` pixels of each image of a product."""

    def __init__(
        self,
        image: Image,
        left: Side,
        count: int,
        copy: Buffer,
        panels: int,
        lanes: int,
        registers: int,
    ) -> None:
        found = image.product
        self.image, self.left, self.count, self.copy = image, left, count, copy
        self.found, self.lanes, self.panels = found, lanes, panels
        self.steps = found.reduced[0].size or 0
        self.vectors = self.steps // lanes
        """The full vectors along the reduced axis."""
        self.shared = True
        """Whether the buffer holds the columns of all images, and not of one."""
        self.group = max(1, min(count, (_SUMS if registers >= 32 else _SUMS // 2) // left.width))

    def columns(self, images: PrimExpr) -> Buffer:
        """Create the buffer of remainder pixels, each with its steps contiguous (im2col)."""
        self.shared = not (isinstance(images, IntImm) and images.value == 1)
        return scratch("columns", (mul(images, imm64(self.count)), self.steps), self.found.dtype)

    def _column(self, batch: PrimExpr, j: int) -> PrimExpr:
        return ravel(batch, self.count, imm64(j)) if self.shared else imm64(j)

    def sums(self) -> Buffer:
        """Create the buffer of the sums of a block."""
        shape = (self.left.per_block, self.left.width, self.count)
        return scratch("left_over", shape, self.found.dtype)

    def pack(self, columns: Buffer, batch: PrimExpr, number: PrimExpr, pixel: PrimExpr) -> Stmt:
        """Copy what the steps read of the image for a pixel."""
        image = self.image
        shift = substitute(image.shift, dict(unravel(image.places, pixel)))
        fixed = unravel(self.found.batch, batch)

        def step(i: int, table: AxisValues, k: PrimExpr) -> Stmt:
            if i == len(image.steps):
                place = add(substitute(image.base, table), shift)
                return BufferStore(columns, BufferLoad(self.copy, (place,)), (number, k))
            axis = image.steps[i]
            return loop(
                axis.var.name_hint,
                axis.extent,
                lambda x: step(i + 1, {**table, axis.var: x}, add(mul(k, axis.extent), x)),
            )

        return step(0, fixed, imm64(0))

    def prefetch(
        self, target: Target, fixed: AxisValues, rows: AxesAtOffset
    ) -> Callable[[PrimExpr, PrimExpr], Stmt] | None:
        """Return what prefetches the next tile of rows between steps; None for kernels in L1.

        A graph has read other kernels since the last call: 160 to 960 channels of 7 x 7 take 0.74
        of the time in MobileNetV2, 96 to 576 of 14 x 14 0.91 (on an AMD Zen 4, one core).
        """
        found = self.found
        first = self.left.element(fixed, {found.reduced[0].var: imm64(0)}, rows(imm64(0)))
        size = (size_of(found.rows) or 0) * self.steps * found.dtype.itemsize
        if size <= target.caches[0] or not isinstance(first, BufferLoad):
            return None
        fetch = prefetch_rows(first, self.left.width, self.steps)
        return lambda turn, _: fetch(turn)

    def tile(
        self,
        columns: Buffer,
        sums: Buffer,
        batch: PrimExpr,
        tile: PrimExpr,
        panel: PrimExpr,
        rows: AxesAtOffset,
        finish: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt],
    ) -> Stmt:
        """Add the products of a panel for a tile of rows; ``finish`` stores complete sums."""
        made: list[Stmt] = []
        for first in range(0, self.count, self.group):
            some = range(first, min(self.count, first + self.group))
            made.append(self._products(columns, sums, batch, tile, panel, rows, some))
        last = imm64(self.panels - 1)

        def end(r: PrimExpr) -> Stmt:
            return seq(
                finish(r, imm64(j), BufferLoad(sums, (tile, r, imm64(j))))
                for j in range(self.count)
            )

        made.append(IfThenElse(Eq(panel, last), loop("r", self.left.width, end)))
        return seq(made)

    def _products(
        self,
        columns: Buffer,
        sums: Buffer,
        batch: PrimExpr,
        tile: PrimExpr,
        panel: PrimExpr,
        rows: AxesAtOffset,
        some: range,
    ) -> Stmt:
        found, lanes, height = self.found, self.lanes, self.left.width
        fixed = unravel(found.batch, batch)
        step = found.reduced[0].var
        acc = scratch("acc", (height, len(some), lanes), found.dtype, scope="local")
        zero, all_lanes = const(0, found.dtype), ramp(imm64(0), lanes)
        begin, end = self._share(panel), self._share(add(panel, imm64(1)))
        whole = self.vectors % self.panels == 0
        count = imm64(self.vectors // self.panels) if whole else sub(end, begin)

        def column(j: int, k: PrimExpr) -> BufferLoad:
            return BufferLoad(columns, (self._column(batch, j), k))

        def multiply_vector(v: PrimExpr) -> Stmt:
            k = mul(add(begin, v), imm64(lanes))

            def row(r: PrimExpr) -> Stmt:
                weights = load_vector(
                    found.left, self.left.element(fixed, {step: k}, rows(r)), lanes
                )
                stores: list[Stmt] = []
                for i, j in enumerate(some):
                    place = (r, imm64(i), all_lanes)
                    other = column(j, ramp(k, lanes))
                    total = multiply_add(weights, other, BufferLoad(acc, place))
                    stores.append(BufferStore(acc, total, place))
                return seq(stores)

            return unroll("r", height, row)

        def clear(r: PrimExpr) -> Stmt:
            return seq(
                BufferStore(acc, Broadcast(zero, lanes), (r, imm64(i), all_lanes))
                for i in range(len(some))
            )

        def add_to(total: PrimExpr, place: tuple[PrimExpr, ...]) -> Stmt:
            begun = BufferStore(sums, total, place)
            if self.panels == 1:
                return begun
            more = BufferStore(sums, Add(BufferLoad(sums, place), total), place)
            return IfThenElse(Eq(panel, imm64(0)), begun, more)

        def add_row(r: PrimExpr) -> Stmt:
            stores: list[Stmt] = []
            for i, j in enumerate(some):
                total = reduce_lanes(Combine.SUM, BufferLoad(acc, (r, imm64(i), all_lanes)))
                place = (tile, r, imm64(j))
                stores.append(let("total", total, lambda t, place=place: add_to(t, place)))
            return seq(stores)

        parts = [
            unroll("r", height, clear),
            loop("v", count, multiply_vector),
            unroll("r", height, add_row),
        ]
        if self.steps % lanes:
            parts.append(
                IfThenElse(
                    Eq(panel, imm64(self.panels - 1)),
                    self._tail(columns, sums, batch, tile, rows, some),
                )
            )
        return allocate([acc], *parts)

    def _share(self, panel: PrimExpr) -> PrimExpr:
        """Return how many vectors come before those of a panel; some panels may have none."""
        if self.vectors % self.panels == 0:
            return mul(panel, imm64(self.vectors // self.panels))
        return FloorDiv(mul(panel, imm64(self.vectors)), imm64(self.panels))

    def _tail(
        self,
        columns: Buffer,
        sums: Buffer,
        batch: PrimExpr,
        tile: PrimExpr,
        rows: AxesAtOffset,
        some: range,
    ) -> Stmt:
        """Add the remainder steps that fill no vector."""
        found = self.found
        fixed = unravel(found.batch, batch)
        step = found.reduced[0].var
        done = self.vectors * self.lanes

        def multiply_element(r: PrimExpr, k: PrimExpr) -> Stmt:
            weight = self.left.element(fixed, {step: k}, rows(r))
            stores: list[Stmt] = []
            for j in some:
                place = (tile, r, imm64(j))
                other = BufferLoad(columns, (self._column(batch, j), k))
                total = multiply_add(weight, other, BufferLoad(sums, place))
                stores.append(BufferStore(sums, total, place))
            return seq(stores)

        return loop(
            "r",
            self.left.width,
            lambda r: loop(
                "k", self.steps - done, lambda k: multiply_element(r, add(imm64(done), k))
            ),
        )
