"""Direct convolution with constant kernels: vectors along output channels.

Kernels are prepacked, and nothing is copied at run time except the image with its padding. A tile
is some neighbouring pixels by some vectors of channels; each step loads the vectors and broadcasts
an element of the image for each pixel. This leaves no remainder pixels if lines divide evenly into
tiles, and threads can share the channels if there are few pixels. Taps that read only padding are
skipped if kernels are finite, which is checked during prepacking: 256 channels of 14 x 14 pixels
then take 0.91 of the time (on a Xeon, Emerald Rapids).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import (
    allocate,
    loop,
    loop_rolled,
    parallel,
    scratch,
    vectorize,
)
from loomir.autoschedule.builders.operand_access import (
    extent_of,
    let,
    minimum,
    ramp,
    ravel,
    size_of,
    unravel,
)
from loomir.autoschedule.builders.register_transpose import transpose_in_registers
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.convolution.channel_tiles import (
    choose_shape,
    compute_stride,
    count_lines,
    estimate_pixel_vectors,
    is_near,
    sort_by_stride,
    tiles_of_block,
)
from loomir.autoschedule.rules.convolution.image_panels import copy_image, parts_of
from loomir.autoschedule.rules.convolution.recognise import Image
from loomir.autoschedule.rules.convolution.valid_taps import TapBounds
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import (
    choose_multiply,
    copy_tile,
    fill_tile,
    load_tile,
    run_tile,
)
from loomir.autoschedule.rules.matmul.operands import AxisValues
from loomir.autoschedule.rules.matmul.prepack import is_constant
from loomir.autoschedule.rules.matmul.tile_sizes import WORTH_THREADS, Tiles, div_up
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    Add,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, Evaluate, IfThenElse, Stmt, seq

__all__ = ["plan_channel_vectors"]

Range: TypeAlias = tuple[PrimExpr, PrimExpr]
"""The first of some steps, and how many there are."""
_AT_ONCE: Final = 4
"""Unroll factor along input channels; 1 where the ends of lines are peeled.

Steps along a line are not unrolled: they read the same elements again, which LLVM would then keep
in registers, of which none are free.
"""
_PANEL: Final = 2
"""Thirds of L1 for a panel of kernels, which all tiles use one after the other.

1024 channels of 14 x 14 take 0.65 of the time with panels (on a Xeon, Emerald Rapids).
"""
_LINE: Final = 64
"""Bytes of a cache line."""
_SECOND, _DATA = 2, 1
_INT32: Final = DataType("int32")
_WHOLE: Final = 0.98
"""The share of valid taps from which the ends of lines are not peeled."""
_LEAST_STEPS: Final = 256
"""Steps from which storing a tile takes little time compared with its products."""


def plan_channel_vectors(
    image: Image, target: Target, inner: Set[Buffer], constants: Set[Var]
) -> Plan | None:
    """Plan a convolution in vectors of channels; None if vectors of pixels are better."""
    found = image.product
    used: set[Var] = set(by_class(found.left).get(Var, ()))
    groups = tuple(axis for axis in found.batch if axis.var in used)
    constant = is_constant(replace(found, batch=groups), found.left, constants)
    steps = size_of(found.reduced) or 0
    if not constant or found.ordered or found.starts_from_init or steps < _LEAST_STEPS:
        return None
    if not target.fma or target.registers < 32 or target.vector_bits < 256:
        return None
    worth, shape = choose_shape(image, target)
    if worth <= estimate_pixel_vectors(image, target) or not is_near(image, shape, target):
        return None
    order = sort_by_stride(image)
    if order is None or (
        shape[0] > 1 and compute_stride(image, image.shift, image.places[-2]) is None
    ):
        return None
    return _ChannelVectors(image, target, inner, groups, order, shape).plan()


class _ChannelVectors:
    def __init__(
        self,
        image: Image,
        target: Target,
        inner: Set[Buffer],
        groups: tuple[Axis, ...],
        steps: list[Axis],
        shape: tuple[int, int, int],
    ) -> None:
        found = image.product
        self.image, self.found, self.inner, self.target = image, found, inner, target
        self.groups = groups
        self.m, self.k = size_of(found.rows) or 0, size_of(found.reduced) or 0
        self.n, self.count = size_of(found.columns) or 0, size_of(found.batch)
        self.lines, self.line, vectors = shape
        lanes = target.lanes(found.dtype.bits)
        rows = self.lines * self.line
        self.tiles = Tiles(rows, vectors, lanes, self.k, 1, 1)
        self.sets = div_up(self.m, self.tiles.columns)
        *outer, last = image.places
        self.width, self.height = last.size or 1, count_lines(image)
        self.down, self.across = div_up(self.height, self.lines), div_up(self.width, self.line)
        self.pieces = (size_of(outer[:-1]) or 1) * self.down * self.across
        blocks = self.sets * (self.count or 1)
        self.per_part = tiles_of_block(self.pieces, blocks, target.cores)
        self.parts = div_up(self.pieces, self.per_part)
        self.channel, *self.near = steps
        near = {axis.var for axis in self.near}
        seen = [s for s in image.tap_bounds if s.step.var in near]
        self.seen = {s.step.var: s for s in seen if s.pixel.var is not last.var}
        """The valid taps along other axes than a line of pixels."""
        self.ends = next((s for s in seen if s.step.var not in self.seen), None)
        if self.across > 1 or (self.ends is not None and self.ends.share > _WHOLE):
            self.ends = None
        """The valid taps along a line: the ends are peeled, where tiles hold whole lines."""
        if self.ends is not None:
            first = self.ends.step.var
            self.near.sort(key=lambda axis: axis.var is not first)
        size = self.channel.size or 1
        most = _AT_ONCE if self.ends is None else 1
        self.at_once = next(u for u in range(most, 0, -1) if size % u == 0)
        turns, taps = size // self.at_once, self.k // size
        step = self.tiles.columns * found.dtype.itemsize
        first = target.caches[0]
        most = first * _PANEL // 3 // (self.at_once * taps * step)
        most = max(1, most)
        self.turns = div_up(turns, div_up(turns, most))
        self.panels = div_up(turns, self.turns)
        self.copy = scratch(
            "image",
            (add(mul(product(image.lines), imm64(image.pitch)), imm64(lanes)),),
            found.dtype,
        )
        count = mul(extent_of(groups), imm64(self.sets))
        self.kernels = scratch("kernels", (count, self.k, self.tiles.columns), found.dtype)
        second = target.caches[1] or target.caches[0] * 4
        self.finite = scratch("finite", (count, self.tiles.columns), found.dtype)
        """0 for each set of kernels that are all finite, so that padding needs no products."""
        self.far = self.m * self.k * found.dtype.itemsize > second // 2
        """Whether kernels fill more than half of L2, and are prefetched."""

    def plan(self) -> Plan:
        """Emit the loop nest."""
        copying, how = copy_image(self.image, self.copy, self.tiles.lanes)
        batch = extent_of(self.found.batch)
        work = None if self.count is None else self.m * self.n * self.k * self.count
        worth = work is None or work >= WORTH_THREADS
        blocks = mul(batch, imm64(self.sets * self.parts))
        body = (parallel if worth else loop)("block", blocks, lambda b: self._block(b, batch))
        made = (self.kernels, self.finite) if self.clips else (self.kernels,)
        ahead = (Prepack(self._prepack_kernels(), made),)
        flops = None if work is None else 2 * work
        stmt = allocate([self.copy], copying, body)
        return Plan("convolution", stmt, self._choices(how), flops, ahead=ahead)

    @property
    def clips(self) -> bool:
        """Whether taps that read only padding are skipped."""
        return bool(self.seen) or self.ends is not None

    # -- kernels -----------------------------------------------------------------------------------
    def _step(self, k: PrimExpr) -> AxisValues:
        """Map a step to the axes of the kernel, in the order in which steps are run."""
        some = Axis(Var("some", self.channel.var.dtype), imm64(self.at_once))
        turn = Axis(
            Var("turn", self.channel.var.dtype), imm64((self.channel.size or 1) // self.at_once)
        )
        table = unravel((turn, *self.near, some), k)
        channel = ravel(table.pop(turn.var), self.at_once, table.pop(some.var))
        return {**table, self.channel.var: channel}

    def _prepack_kernels(self) -> Stmt:
        """Prepack kernels by vectors of channels; channels beyond the last repeat it."""
        (reduced,) = self.found.reduced
        width = self.tiles.columns

        def pack_element(number: PrimExpr, k: PrimExpr, r: PrimExpr) -> Stmt:
            group = unravel(self.groups, FloorDiv(number, imm64(self.sets)))
            row = add(mul(FloorMod(number, imm64(self.sets)), imm64(width)), r)
            rows = unravel(self.found.rows, minimum(row, imm64(self.m - 1)))
            table, step = self._step(k), imm64(0)
            for axis in self.image.steps:
                step = ravel(step, axis.extent, table[axis.var])
            value = value_at(self.found.left, {**group, **rows, reduced.var: step})
            return BufferStore(self.kernels, value, (number, k, r))

        def pack(n: PrimExpr) -> Stmt:
            return loop("k", self.k, lambda k: loop("r", width, lambda r: pack_element(n, k, r)))

        def pack_set(n: PrimExpr) -> Stmt:
            return seq([pack(n), self._check_finite(n)]) if self.clips else pack(n)

        return loop("set", self.kernels.shape[0], pack_set)

    def _check_finite(self, number: PrimExpr) -> Stmt:
        """Sum zero times each weight of a set of kernels, which is NaN if one is not finite."""
        finite, width, first = self.finite, self.tiles.columns, (number, imm64(0))
        zero = const(0, finite.dtype)

        def add_to(place: tuple[PrimExpr, ...], more: PrimExpr) -> Stmt:
            return BufferStore(finite, Add(BufferLoad(finite, place), more), place)

        def add_product_with_zero(k: PrimExpr, r: PrimExpr) -> Stmt:
            return add_to((number, r), Mul(BufferLoad(self.kernels, (number, k, r)), zero))

        return seq(
            [
                loop_rolled("r", width, lambda r: BufferStore(finite, zero, (number, r))),
                loop_rolled(
                    "k",
                    self.k,
                    lambda k: loop_rolled("r", width, lambda r: add_product_with_zero(k, r)),
                ),
                loop_rolled(
                    "r",
                    width - 1,
                    lambda r: add_to(first, BufferLoad(finite, (number, add(r, imm64(1))))),
                ),
            ]
        )

    # -- loops -------------------------------------------------------------------------------------
    def _block(self, number: PrimExpr, batch: PrimExpr) -> Stmt:
        """Loop over the tiles of a part of the pixels, for a set of kernels."""
        part, rest = FloorMod(number, imm64(self.parts)), FloorDiv(number, imm64(self.parts))
        if self.far:
            which, kernel = FloorMod(rest, batch), FloorDiv(rest, batch)
        else:
            which, kernel = FloorDiv(rest, imm64(self.sets)), FloorMod(rest, imm64(self.sets))
        first = mul(part, imm64(self.per_part))
        count = imm64(self.per_part)
        if self.pieces % self.per_part:
            count = minimum(count, sub(imm64(self.pieces), first))

        tiles = self.tiles
        part = None
        if self.panels > 1:
            shape = (self.per_part, tiles.rows, tiles.columns)
            part = scratch("part", shape, self.found.dtype)

        def inside(which: PrimExpr, kernel: PrimExpr, first: PrimExpr) -> Stmt:
            fixed = unravel(self.found.batch, which)
            number: PrimExpr = imm64(0)
            for axis in self.groups:
                number = ravel(number, axis.extent, fixed[axis.var])
            number = ravel(number, self.sets, kernel)

            def walk(s: PrimExpr, panel: PrimExpr) -> Stmt:
                return loop(
                    "tile",
                    count,
                    lambda t: self._tile(fixed, (kernel, s), (t, add(first, t)), panel, part),
                )

            def compute_set(s: PrimExpr) -> Stmt:
                if part is None:
                    return walk(s, imm64(0))
                return allocate([part], loop("panel", self.panels, lambda p: walk(s, p)))

            return let("set", number, compute_set)

        return let(
            "which",
            which,
            lambda w: let(
                "kernel", kernel, lambda o: let("first", first, lambda f: inside(w, o, f))
            ),
        )

    def _locate_tile(self, tile: PrimExpr) -> tuple[PrimExpr, PrimExpr, AxisValues]:
        """Return the first pixel of a tile, its address in the copy without steps, and its axes."""
        *outer, last = self.image.places
        x = mul(FloorMod(tile, imm64(self.across)), imm64(self.line))
        if self.width % self.line:
            x = minimum(x, imm64(self.width - self.line))
        rest = FloorDiv(tile, imm64(self.across))
        table: dict[Var, PrimExpr] = {last.var: x}
        if outer:
            y = mul(FloorMod(rest, imm64(self.down)), imm64(self.lines))
            if self.height % self.lines:
                y = minimum(y, imm64(self.height - self.lines))
            table[outer[-1].var] = y
            table.update(unravel(outer[:-1], FloorDiv(rest, imm64(self.down))))
        pixel: PrimExpr = imm64(0)
        for axis in self.image.places:
            pixel = ravel(pixel, axis.extent, table[axis.var])
        return pixel, substitute(self.image.shift, table), table

    def _tile(
        self,
        fixed: AxisValues,
        kernels: tuple[PrimExpr, PrimExpr],
        tile: tuple[PrimExpr, PrimExpr],
        panel: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        """Accumulate a panel into a tile; ``tile`` is its number in the block, and of all."""
        tiles, image = self.tiles, self.image
        kernel, number = kernels
        sums = scratch("sums", (tiles.rows, tiles.columns), self.found.dtype, scope="local")
        pitch = 0 if self.lines == 1 else compute_stride(image, image.shift, image.places[-2]) or 0

        def place(r: PrimExpr) -> PrimExpr:
            if self.lines == 1:
                return r
            down, along = FloorDiv(r, imm64(self.line)), FloorMod(r, imm64(self.line))
            return add(mul(down, imm64(pitch)), along)

        def step(shift: PrimExpr, table: AxisValues, k: PrimExpr, rows: Sequence[int]) -> Stmt:
            base = add(shift, substitute(image.base, {**fixed, **table}))

            def weights(c: PrimExpr) -> PrimExpr:
                first = c.base if isinstance(c, Ramp) else c
                return BufferLoad(self.kernels, (number, k, ramp(first, tiles.lanes)))

            return let(
                "base",
                base,
                lambda b: run_tile(
                    sums,
                    lambda r: BufferLoad(self.copy, (add(b, place(r)),)),
                    weights,
                    tiles,
                    choose_multiply(self.target),
                    rows,
                ),
            )

        def inside(pixel: PrimExpr, shift: PrimExpr) -> Stmt:
            steps = self._steps(
                number, tile[0], places, panel, lambda table, k, rows: step(shift, table, k, rows)
            )
            end, fill = self._end(fixed, kernel, pixel, sums), fill_tile(sums, tiles)
            if part is None:
                return allocate([sums], fill, steps, end)
            begin = IfThenElse(Eq(panel, imm64(0)), fill, load_tile(sums, part, (tile[0],), tiles))
            last = Eq(panel, imm64(self.panels - 1))
            finish = IfThenElse(last, end, copy_tile(part, (tile[0],), sums, tiles))
            return allocate([sums], begin, steps, finish)

        pixel, shift, places = self._locate_tile(tile[1])
        return let("pixel", pixel, lambda p: let("shift", shift, lambda s: inside(p, s)))

    def _steps(
        self,
        number: PrimExpr,
        tile: PrimExpr,
        places: AxisValues,
        panel: PrimExpr,
        body: Callable[[AxisValues, PrimExpr, Sequence[int]], Stmt],
    ) -> Stmt:
        """Loop over the steps of a panel; each tile prefetches its share of the next one."""
        u = self.at_once
        turns = (self.channel.size or 1) // u
        count = imm64(self.turns)
        if turns % self.turns:
            count = minimum(count, sub(imm64(turns), mul(panel, count)))
        finite = Eq(BufferLoad(self.finite, (number, imm64(0))), const(0, self.finite.dtype))

        def walk(
            ranges: Mapping[Var, Range], rows: Sequence[int], *, fetching: bool, fast: bool = True
        ) -> Stmt:
            def inside(i: int, table: AxisValues, k: PrimExpr) -> Stmt:
                if i == len(self.near):
                    channel = mul(table[self.channel.var], imm64(u))

                    def run_step(j: PrimExpr) -> Stmt:
                        there = {**table, self.channel.var: add(channel, j)}
                        return body(there, ravel(k, u, j), rows)

                    if not fast:
                        return loop_rolled("some", u, run_step)
                    return seq(run_step(imm64(j)) for j in range(u))
                axis = self.near[i]
                first, size = ranges.get(axis.var, (imm64(0), axis.extent))

                def step(x: PrimExpr) -> Stmt:
                    place = add(first, x)
                    return inside(i + 1, {**table, axis.var: place}, ravel(k, axis.extent, place))

                return loop_rolled(axis.var.name_hint, size, step)

            def turn(i: PrimExpr) -> Stmt:
                t = ravel(panel, self.turns, i)
                steps = inside(0, {self.channel.var: t}, t)
                return seq([self._prefetch(number, tile, panel, i), steps]) if fetching else steps

            return loop_rolled("turn", count, turn)

        every = range(self.tiles.rows)

        def limit_range(ranges: Mapping[Var, Range]) -> Stmt:
            if self.ends is None:
                return walk(ranges, every, fetching=self.far)
            plain = walk(ranges, every, fetching=False, fast=False)
            var, made = self.ends.step.var, list[Stmt]()
            for first, size, rows in self._split_line(self.ends):
                some = {**ranges, var: (imm64(first), imm64(size))}
                made.append(walk(some, rows, fetching=self.far and not made))
            return IfThenElse(finite, seq(made), plain)

        def bind_range(left: Sequence[TapBounds], ranges: Mapping[Var, Range]) -> Stmt:
            if not left:
                return limit_range(ranges)
            taps, *rest = left
            begin = places[taps.pixel.var]
            end = begin
            if self.lines > 1 and taps.pixel.var is self.image.places[-2].var:
                end = add(begin, imm64(self.lines - 1))
            first, size = taps.span(begin, end)
            return let(
                "first",
                Select(finite, first, imm64(0)),
                lambda f: let(
                    "size",
                    Select(finite, size, taps.step.extent),
                    lambda s: bind_range(rest, {**ranges, taps.step.var: (f, s)}),
                ),
            )

        return bind_range(list(self.seen.values()), {})

    def _split_line(self, taps: TapBounds) -> list[tuple[int, int, tuple[int, ...]]]:
        """Group the taps along a line by their valid pixels: first tap, count, and pixels."""
        made: list[tuple[int, int, tuple[int, ...]]] = []
        for x in range(taps.step.size or 0):
            rows = tuple([r for r in range(self.tiles.rows) if taps.is_valid(r % self.line, x)])
            if made and made[-1][2] == rows:
                first, count, _ = made.pop()
                made.append((first, count + 1, rows))
            else:
                made.append((x, 1, rows))
        return [part for part in made if part[2]]

    def _prefetch(self, number: PrimExpr, tile: PrimExpr, panel: PrimExpr, turn: PrimExpr) -> Stmt:
        """Prefetch some lines of the panel of kernels that comes next, in this set or another."""
        depth = self.turns * self.at_once * (self.k // (self.channel.size or 1))
        size = depth * self.tiles.columns * self.found.dtype.itemsize
        lines = div_up(size, _LINE * self.per_part * self.turns)
        begin = (number, mul(panel, imm64(depth)), imm64(0))
        pointer = call_builtin("address_of", BufferLoad(self.kernels, begin))
        first = add(imm64(size), mul(ravel(tile, self.turns, turn), imm64(lines * _LINE)))
        how = [IntImm(value, _INT32) for value in (0, _SECOND, _DATA)]

        def prefetch_line(i: int) -> Stmt:
            place = add(first, imm64(i * _LINE))
            there = call_builtin("handle_add_byte_offset", pointer, place)
            return Evaluate(call_builtin("prefetch", there, *how))

        return seq(prefetch_line(i) for i in range(lines))

    # -- epilogue of a tile ------------------------------------------------------------------------
    def _end(self, fixed: AxisValues, kernel: PrimExpr, pixel: PrimExpr, sums: Buffer) -> Stmt:
        """Transpose the accumulators, so that pixels are contiguous, and store them by channel."""
        tiles, found = self.tiles, self.found
        lanes, (pixels,) = tiles.lanes, found.columns
        squares = div_up(tiles.rows, lanes)
        acc = scratch("acc", (tiles.rows, tiles.columns), found.dtype)
        edge = scratch("edge", (tiles.columns, squares * lanes), found.dtype)

        def square(v: PrimExpr, q: int) -> Stmt:
            rows = [min(q * lanes + i, tiles.rows - 1) for i in range(lanes)]
            first = mul(v, imm64(lanes))
            loads = [BufferLoad(acc, (imm64(r), ramp(first, lanes))) for r in rows]
            return transpose_in_registers(
                loads,
                lambda made: seq(
                    BufferStore(edge, one, (add(first, imm64(i)), ramp(imm64(q * lanes), lanes)))
                    for i, one in enumerate(made)
                ),
            )

        turning = loop("v", tiles.vectors, lambda v: seq(square(v, q) for q in range(squares)))
        row = mul(kernel, imm64(tiles.columns))

        def end(c: PrimExpr, i: PrimExpr) -> Stmt:
            place = {**fixed, **unravel(found.rows, add(row, c)), pixels.var: add(pixel, i)}
            return store_element(found, self.inner, place, BufferLoad(edge, (c, i)))

        def channel(c: PrimExpr) -> Stmt:
            made: list[Stmt] = []
            for first, n in parts_of(tiles.rows, lanes):
                f = imm64(first)
                made.append(
                    end(c, f) if n == 1 else vectorize("c", n, lambda i, f=f: end(c, add(f, i)))
                )
            return seq(made)

        count = imm64(tiles.columns)
        if self.m % tiles.columns:
            count = minimum(count, sub(imm64(self.m), row))
        storing = loop("channel", count, channel)
        return allocate([acc, edge], copy_tile(acc, (), sums, tiles), turning, storing)

    def _choices(self, how: str) -> tuple[str, ...]:
        tiles = self.tiles
        sums, registers = tiles.rows * tiles.vectors, self.target.registers
        shape = f"{self.lines} x {self.line} pixels by {tiles.columns} channels"
        return (
            f"tile of {shape}: {sums} of {registers} registers hold sums",
            "kernels are constant, packed before all calls; vectors lie along output channels",
            f"{self.sets} sets of kernels, {self.parts} parts of {self.per_part} tiles for each",
            f"the image is copied with its padding: {how}",
            *self._describe_skipped(),
        )

    def _describe_skipped(self) -> list[str]:
        """Say which products are not computed."""
        lines = ["lines"] if self.seen else []
        ends = ["their ends"] if self.ends is not None else []
        zeros = "steps that see only zeros are left out"
        return [f"{zeros}, of {' and '.join(lines + ends)}"] if self.clips else []
