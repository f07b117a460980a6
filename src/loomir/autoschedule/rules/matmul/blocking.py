"""Choose how a product is blocked: tiles, and where each operand is read from."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from loomir.arith.fold import imm64, mul
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    conversions,
    extent_of,
    load_under_casts,
    size_of,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import WORD, Groups, find_dot_groups
from loomir.autoschedule.rules.matmul.operands import (
    Side,
    Source,
)
from loomir.autoschedule.rules.matmul.prepack import (
    FEW_ROWS,
    is_constant,
    keeps_narrow_panels,
)
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import (
    FEW_STEPS,
    FEW_TILES,
    MOST_STREAMED,
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
from loomir.loops.conditions import conjunction
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import (
    LE,
    Eq,
    IntImm,
    PrimExpr,
    Var,
)

__all__ = ["BlockingParameters"]


class BlockingParameters:
    """The choices for a product."""

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
        return conjunction(asked)

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


def _inner_size(axes: tuple[Axis, ...]) -> int | None:
    """Return the size of the innermost of several axes."""
    many = [axis for axis in axes if axis.size != 1]
    return many[-1].size if len(many) > 1 else None
