"""GEMM strip by strip, for a right operand that outgrows the caches, as in 1 x 1 convolutions.

A strip is the columns of one tile. Its panel of few steps stays in L1 while all rows use it.
Meanwhile the next panel is prefetched and packed into a second buffer, evenly between the steps of
the tiles (software pipelining). Without this, the first tile to read a panel would wait for memory,
and rows whose stride is a power of two would conflict in the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Final

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.loops import allocate, loop, scratch
from loomir.autoschedule.builders.operand_access import (
    conversions,
    let,
    load_under_casts,
    minimum,
    ramp,
    ravel,
    size_of,
    unravel,
)
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.rules.matmul.blocked_product import BlockedProduct
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import find_dot_groups
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, AxisValues, Side, Source
from loomir.autoschedule.rules.matmul.prepack import loop_over_steps
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import Tiles, choose_tiles, div_up
from loomir.ir.visit import pre_order
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import LE, Eq, FloorDiv, FloorMod, IntImm, PrimExpr, Var, const
from loomir.tir.stmt import BufferStore, Evaluate, IfThenElse, Stmt, seq

__all__ = ["plan_strips"]

_STEPS: Final = 64
"""Steps of a panel: 64 x 48 floats, with the lines at their ends, are a third of L1.

64 rows by 256 steps by 3136 columns take 0.64 ms; with 128 steps 0.65 ms, with 32 steps 0.67 ms (on
a Xeon, Emerald Rapids).
"""
_AT_ONCE: Final = 8
"""Unroll factor of steps; lines are prefetched between groups of them (turns)."""
_AHEAD: Final = 8
"""Turns between the prefetch of a row of a panel and its copy: 250 ns.

Images of 64 x 64 pixels, whose rows conflict in the caches, take 0.9 of the time of 64 turns (on a
Xeon, Emerald Rapids).
"""
_INT32: Final = DataType("int32")
_KEEP, _DATA = 3, 1
_WASTED: Final = 0.1
"""The share of columns that may be computed twice: the last strip is shifted back to be full."""
_STRIPS: Final = 4
_BLOCKS: Final = 16
"""At most ``_STRIPS`` strips form a block, and fewer where less than ``_BLOCKS`` blocks would be
left for threads: both were not tuned.
"""
_FAR: Final = 8
"""Size of the right operand in multiples of L2 at most: from memory, longer rows are better.

32 x 4096 x 4096, with 64 MB from memory, take 1.5 times as long in strips (on a Xeon, Emerald
Rapids).
"""
_FEWEST_ROWS: Final = 48
"""Rows from which a panel is reused often enough.

In strips, 8 to 32 rows of 256 steps by 4096 columns take 1.3 to 1.7 times as long, 64 rows as long
as otherwise (on a Xeon, Emerald Rapids).
"""
_ROWS: Final = 256
"""Rows up to which the accumulators of a strip stay in L2, with the rows of a panel."""


def plan_strips(
    found: Contraction,
    target: Target,
    inner: Callable[[Contraction], Set[Buffer]],
    views: Views,
    constants: Set[Var],
) -> Plan | None:
    """Plan a GEMM in strips of columns; None if another order is better or sizes dynamic."""
    many = [axis for axis in found.columns if axis.size != 1]
    if found.ordered or found.starts_from_init or found.stage.init is None or not many:
        return None
    if find_dot_groups(found, target) is not None:
        return None
    if len(many) > 1:  # images of a batch
        batch = (*found.batch, *(axis for axis in found.columns if axis is not many[-1]))
        found = replace(found, batch=batch, columns=(many[-1],))
    sizes = [size_of(axes) for axes in (found.batch, found.rows, found.columns, found.reduced)]
    if None in sizes or load_under_casts(found.left) is None or conversions(found.right):
        return None
    plan = _Strips(found, target, inner(found), views, constants)
    return plan.plan() if plan.is_profitable() else None


class _Strips(BlockedProduct):
    here: _TilePosition
    """The tile whose loops are being emitted."""
    panel: Buffer
    """Two panels: the one that tiles read, and the next one, which is packed meanwhile."""

    @property
    def copies_panels(self) -> bool:
        """Whether panels are packed before they are read: not where no steps are unrolled."""
        return self.fewest_turns > 0

    def _tiles(self) -> Tiles:
        tiles = choose_tiles(
            self.m, self.n, self.steps, self.found.dtype, self.target, streamed=True
        )
        strips = div_up(self.n or 1, tiles.columns)
        across = max(1, min(_STRIPS, strips // _BLOCKS))
        k = self.k or 1
        depth = min(k, div_up(div_up(k, div_up(k, _STEPS + _STEPS // 4)), _AT_ONCE) * _AT_ONCE)
        # Panels of equal size leave time to pack each.
        even = [d for d in range(_STEPS // 2, depth + 1, _AT_ONCE) if k % d == 0]
        depth = max(even, default=depth)
        return replace(tiles, depth=depth, down=div_up(self.m or 1, tiles.rows), across=across)

    def is_profitable(self) -> bool:
        """Whether columns are contiguous, rows many, and the right operand of middling size.

        An operand of at most an eighth of L2 is read in any order; one beyond ``_FAR`` times L2 is
        better read in longer rows.
        """
        tiles, right, size = self.tiles, self.right, self.found.dtype.itemsize
        first, second, _ = self.target.caches
        far = _FAR * (second or first * 8)
        m, n, k = self.m or 0, self.n or 0, self.k or 0
        wasted = div_up(n, tiles.columns) * tiles.columns - n
        return (
            not right.ahead
            and not self.lead
            and self._vectors_in_place()
            and n >= 2 * tiles.columns
            and wasted <= _WASTED * n
            and _FEWEST_ROWS <= m <= _ROWS
            and (second or first * 8) // 8 < n * k * size <= far
            and tiles.lanes > 1
        )

    def _choose_sources(self) -> None:
        left, right = self.left, self.right
        right.source = Source.DIRECT
        if not right.even:
            right.overlap()
        if not left.ahead and (self._rows_in_place() or load_under_casts(left.factor) is not None):
            left.source = Source.DIRECT

    @property
    def strips(self) -> int:
        """Return 1: all panels of a strip are multiplied before the next strip."""
        return 1

    @property
    def fetches(self) -> bool:
        """Return False: ``_steps`` issues prefetches of its own."""
        return False

    def _loop_over_panels(
        self, batch: PrimExpr, across: PrimExpr, down: PrimExpr, part: Buffer | None
    ) -> Stmt:
        def panel(s: PrimExpr, p: PrimExpr) -> Stmt:
            start = mul(p, imm64(self.tiles.depth))
            depth: PrimExpr = imm64(self.tiles.depth)
            if (self.k or 0) % self.tiles.depth:
                depth = minimum(depth, sub(self.depth, start))

            def tile(t: PrimExpr, depth: PrimExpr) -> Stmt:
                self.here = _TilePosition(batch, (across, s), t, p)
                return self._tile(batch, (across, s), (down, t), p, start, depth, part)

            return let(
                "depth",
                depth,
                lambda d: loop("tile", self.left.tiles_of(down), lambda t: tile(t, d)),
            )

        count = self.right.tiles_of(across)
        shape = (2, self.tiles.depth, self.right.width)
        self.panel = scratch("panel", shape, self.found.dtype)
        if self.one_panel:
            made = loop("strip", count, lambda s: panel(s, imm64(0)))
        else:
            made = loop("strip", count, lambda s: loop("panel", self.panels, lambda p: panel(s, p)))
        if not self.copies_panels:
            return made
        here = _TilePosition(batch, (across, imm64(0)), imm64(0), imm64(0))
        rows = min(self.tiles.depth, self.k or 1)
        first = loop("k", rows, lambda k: self._copy_row(here, 0, k))
        return allocate([self.panel], first, made)

    def _choices(self) -> tuple[str, ...]:
        return (*super()._choices(), self._describe_order())

    def _describe_order(self) -> str:
        meanwhile = (
            "the next panel is copied" if self.copies_panels else "caches fetch the next panel"
        )
        return f"strip by strip, while {meanwhile}"

    def _reader(
        self,
        side: Side,
        batch: PrimExpr,
        tile: tuple[PrimExpr, PrimExpr],
        places: AxesAtOffset,
        first: PrimExpr | None = None,
    ) -> Callable[[PrimExpr, PrimExpr, AxisValues, PrimExpr], PrimExpr]:
        if side is not self.right or not self.copies_panels:
            return super()._reader(side, batch, tile, places, first)
        slot = self._slot(self.here, 0)
        return lambda k, whole, at_k, i: BufferLoad(self.panel, (slot, k, i))

    # -- software pipelining of panels -------------------------------------------------------------
    def _steps(
        self, start: PrimExpr, depth: PrimExpr, body: Callable[[PrimExpr, AxisValues], Stmt]
    ) -> Stmt:
        """Loop over the reduced axes in unrolled turns, with prefetches and copies in between."""
        reduced, here = self.found.reduced, self.here

        def step(k: PrimExpr) -> Stmt:
            return body(k, unravel(reduced, add(start, k)))

        def run_turn(turn: PrimExpr) -> Stmt:
            first = mul(turn, imm64(_AT_ONCE))
            steps = loop_over_steps(imm64(_AT_ONCE), self.target, lambda s: step(add(first, s)))
            wanted = [self._prefetch_panel(here, turn), self._prefetch_results(here, turn)]
            if self.copies_panels:
                wanted.append(self._copy_panel(here, turn, turns))
            return seq([*wanted, steps])

        turns = _count_turns(depth)
        done = mul(turns, imm64(_AT_ONCE))
        made = [loop("turn", turns, run_turn)]
        if self.k is not None and (self.k % self.tiles.depth or self.tiles.depth % _AT_ONCE):
            made.append(loop("k", sub(depth, done), lambda k: step(add(done, k))))
        return seq(made)

    def _panel_after(self, here: _TilePosition, panels: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Compute the first step and column of a later panel."""
        right, count = self.right, self.last + 1
        number = add(here.panel, panels)
        strips, panel = FloorDiv(number, imm64(count)), FloorMod(number, imm64(count))
        if count == 1:
            strips, panel = panels, imm64(0)
        column = add(self._column(here), mul(strips, imm64(right.width)))
        most = imm64((self.n or 0) - right.width)
        return mul(panel, imm64(self.tiles.depth)), minimum(column, most)

    def _slot(self, here: _TilePosition, panels: int) -> PrimExpr:
        """Return which of the two buffers a later panel is in."""
        number = add(ravel(here.strip[1], self.last + 1, here.panel), imm64(panels))
        return FloorMod(number, imm64(2))

    def _copy_row(self, here: _TilePosition, panels: int, row: PrimExpr) -> Stmt:
        """Pack one step of a later panel."""
        right, lanes = self.right, self.tiles.lanes
        table = unravel(self.found.batch, here.batch)
        start, column = self._panel_after(here, imm64(panels))
        step = unravel(self.found.reduced, minimum(add(start, row), imm64((self.k or 1) - 1)))

        def vectors(column: PrimExpr) -> Stmt:
            return seq(
                BufferStore(
                    self.panel,
                    right.vector(ramp(add(column, imm64(i)), lanes), table, step),
                    (self._slot(here, panels), row, ramp(imm64(i), lanes)),
                )
                for i in range(0, right.width, lanes)
            )

        return let("column", column, vectors)

    def _copy_panel(self, here: _TilePosition, turn: PrimExpr, turns: PrimExpr) -> Stmt:
        """Pack rows of the next panel: all tiles and turns together pack all of it."""
        depth, rows = self.tiles.depth, div_up(self.m or 1, self.left.width)
        each = div_up(depth, rows * self.fewest_turns)
        first = mul(ravel(here.tile, turns, turn), imm64(each))

        def copy(first: PrimExpr) -> Stmt:
            if self.turns == self.fewest_turns and rows * self.turns * each == depth:
                return seq(self._copy_row(here, 1, add(first, imm64(i))) for i in range(each))
            last = imm64(depth - 1)
            some = [self._copy_row(here, 1, first)]
            some += [
                self._copy_row(here, 1, minimum(add(first, imm64(i)), last)) for i in range(1, each)
            ]
            return IfThenElse(LE(first, last), seq(some))

        return let("row", first, copy)

    def _prefetch_panel(self, here: _TilePosition, turn: PrimExpr) -> Stmt:
        """Prefetch rows of the next panel: all tiles and turns together fetch all of it."""
        right, depth = self.right, self.tiles.depth
        each = div_up(depth, div_up(self.m or 1, self.left.width) * self.turns)
        row = mul(ravel(here.tile, self.turns, turn), imm64(each))
        panels: PrimExpr = imm64(1)
        if self.copies_panels:  # few lines in flight, or they evict each other
            row = add(row, imm64(_AHEAD * each))
            panels = add(panels, FloorDiv(row, imm64(depth)))
            row = FloorMod(row, imm64(depth))
        start, column = self._panel_after(here, panels)
        row = add(start, row)
        table = unravel(self.found.batch, here.batch)

        def line(row: PrimExpr, column: PrimExpr, i: int) -> list[Stmt]:
            step = unravel(
                self.found.reduced, minimum(add(row, imm64(i)), imm64((self.k or 1) - 1))
            )
            made: list[Stmt] = []
            for end in self._ends():
                place = unravel(right.axes, add(column, imm64(end)))
                wanted = load_under_casts(right.element(table, step, place))
                made += [] if wanted is None else [_prefetch(wanted, 0)]
            return made

        return let(
            "row",
            row,
            lambda r: let(
                "column", column, lambda c: seq(s for i in range(each) for s in line(r, c, i))
            ),
        )

    def _prefetch_results(self, here: _TilePosition, turn: PrimExpr) -> Stmt:
        """Prefetch in the last panel the lines to which the tile will be stored."""
        left, right = self.left, self.right
        each = div_up(left.width, self.turns)
        table = unravel(self.found.batch, here.batch)

        def line(column: PrimExpr, i: int) -> Iterator[Stmt]:
            row = add(ravel(here.tile, left.width, mul(turn, imm64(each))), imm64(i))
            rows = unravel(left.axes, minimum(row, imm64((self.m or 1) - 1)))
            for end in (0, *self._ends()):
                place = {**table, **rows, **unravel(right.axes, add(column, imm64(end)))}
                stored = store_element(self.found, self.inner, place, const(0, self.found.dtype))
                for store in pre_order(stored):
                    if isinstance(store, BufferStore):
                        yield _prefetch(BufferLoad(store.buffer, store.indices), 1)

        made = let(
            "column", self._column(here), lambda c: seq(s for i in range(each) for s in line(c, i))
        )
        return made if not self.last else IfThenElse(Eq(here.panel, imm64(self.last)), made)

    @property
    def turns(self) -> int:
        """Count the unrolled turns of a tile and a panel."""
        return max(1, self.tiles.depth // _AT_ONCE)

    @property
    def fewest_turns(self) -> int:
        """Count the same in the last panel, which may be shorter."""
        return ((self.k or 1) - self.last * self.tiles.depth) // _AT_ONCE

    @property
    def last(self) -> int:
        """Return the number of the last panel."""
        return div_up(self.k or 1, self.tiles.depth) - 1

    def _column(self, here: _TilePosition) -> PrimExpr:
        return self.right.compute_first_row(
            ravel(here.strip[0], self.right.per_block, here.strip[1])
        )

    def _ends(self) -> range:
        """Return the last element of each vector, in a cache line of its own."""
        lanes = self.tiles.lanes
        return range(lanes - 1, self.right.width, lanes)


def _count_turns(depth: PrimExpr) -> PrimExpr:
    if isinstance(depth, IntImm):
        return imm64(depth.value // _AT_ONCE)
    return FloorDiv(depth, imm64(_AT_ONCE))


@dataclass(frozen=True, slots=True)
class _TilePosition:
    """The position of a tile in the loop nest."""

    batch: PrimExpr
    strip: tuple[PrimExpr, PrimExpr]
    tile: PrimExpr
    panel: PrimExpr


def _prefetch(wanted: BufferLoad, write: int) -> Stmt:
    """Prefetch the cache line of an element."""
    how = [IntImm(value, _INT32) for value in (write, _KEEP, _DATA)]
    return Evaluate(call_builtin("prefetch", call_builtin("address_of", wanted), *how))
