"""GEMM of narrow types by the matrix unit (AMX), which accumulates tiles of 16 x 16 sums.

Both operands are packed in words of 32 bits, as ``T.dot_tiles`` reads them: the right one as for
vectors, the left one with 16 words of each row contiguous. A step takes 64 bytes of each row; rows
are padded with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.loops import allocate, loop, scratch, unroll, vectorize
from loomir.autoschedule.builders.operand_access import let, minimum, ramp, ravel, size_of, unravel
from loomir.autoschedule.builders.register_transpose import transpose_in_registers
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.rules.matmul.blocked_product import BlockedProduct
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.dot_groups import WORD, Groups, strip_widening
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, Side, Source, bind_tile
from loomir.autoschedule.rules.matmul.packing import Packing
from loomir.autoschedule.rules.matmul.prepack import is_constant
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import Tiles, div_up
from loomir.support.dtype import BOOL
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.builtins.tiles import TILE, TILE_BYTES, sum_dtype
from loomir.tir.expr import (
    LE,
    And,
    Broadcast,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    PrimExpr,
    Var,
    const,
)
from loomir.tir.stmt import TRUE, BufferStore, Evaluate, IfThenElse, Stmt, seq

__all__ = ["has_matrix_unit", "plan_amx"]

_WordStore: TypeAlias = Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]
"""Stores words of a step and a row."""

_WORDS: Final = TILE_BYTES // 4
"""Words of a row that a step takes."""

_FEWEST: Final = TILE
"""Rows, columns and steps from which tiles are full enough."""

_LEAST_WORK: Final = 1 << 17
"""Multiply-adds of bytes from which AMX is faster than vectors of bytes.

On a Xeon (Emerald Rapids), the time with AMX divided by that with VNNI is 1.4 for 32 x 32 x 32, 1.0
for 64 x 64 x 64, and 0.6 for 128 x 128 x 128. No vector instruction is as fast for bfloat16.
"""

_LEAST_DEPTH: Final = 2 * TILE_BYTES
"""Steps from which AMX is faster for bytes.

With fewer, stores dominate: 512 x 512 x 64 takes 1.2 times as long (on a Xeon, Emerald Rapids).
"""

_DEEPEST: Final = 1024
"""Words of a panel at most: a block of eight tiles of rows then takes half of L2."""

_BLOCK: Final = 256
"""Rows and columns of a block, which take a thread some tens of microseconds."""


def plan_amx(
    found: Contraction,
    target: Target,
    inner: Set[Buffer],
    views: Views,
    constants: Set[Var] = frozenset(),
) -> Plan | None:
    """Plan a GEMM of narrow types; None if the target has no matrix unit for it."""
    if _amx_groups(found, target, constants) is None:
        return None
    plan = _AmxTiles(found, target, inner, views, constants)
    return plan.plan() if plan.packs_by_vectors else None


def has_matrix_unit(found: Contraction, target: Target) -> bool:
    """Whether the target has a matrix unit for a product of narrow types, of these sizes."""
    return _amx_groups(found, target, frozenset()) is not None


def _amx_groups(found: Contraction, target: Target, constants: Set[Var]) -> Groups | None:
    sizes = [size_of(axes) for axes in (found.rows, found.columns, found.reduced)]
    left, right = strip_widening(found.left), strip_widening(found.right)
    # Where prepacked weights are read once, a partly filled tile of rows costs no more.
    fewest = (1 if is_constant(found, right, constants) else _FEWEST, _FEWEST, _FEWEST)
    few = any(size is not None and size < least for size, least in zip(sizes, fewest))
    if found.ordered or few:
        return None
    if left.dtype.bits == 8 and None not in sizes:
        work = math.prod(size for size in (*sizes, size_of(found.batch)) if size is not None)
        if work < _LEAST_WORK or (sizes[2] or 0) < _LEAST_DEPTH:
            return None
    if sum_dtype(left.dtype, right.dtype) is not found.dtype:
        return None
    if not target.has("amx_bf16" if left.dtype.is_bfloat else "amx_int8"):
        return None
    size = 4 // left.dtype.itemsize
    dtypes = left.dtype, right.dtype
    return Groups(size, "dot_tiles", (left, right), dtypes, flips=False, pad=_WORDS)


class _AmxTiles(BlockedProduct):
    def _dot_groups(self) -> Groups | None:
        return _amx_groups(self.found, self.target, self.constants)

    def _tiles(self) -> Tiles:
        rows, columns = (
            TILE if size is not None and size <= TILE else 2 * TILE for size in (self.m, self.n)
        )
        depth = _DEEPEST
        if self.steps is not None:
            depth = div_up(self.steps // _WORDS, div_up(self.steps, _DEEPEST)) * _WORDS
        down, across = (
            _BLOCK // width if size is None else min(_BLOCK // width, div_up(size, width))
            for size, width in ((self.m, rows), (self.n, columns))
        )
        return Tiles(rows, columns // TILE, TILE, max(_WORDS, depth), down, across)

    def _choose_sources(self) -> None:
        super()._choose_sources()
        for side in (self.left, self.right):
            side.overlaps = not side.even and side.size is not None and side.size >= side.width

    @property
    def packs_by_vectors(self) -> bool:
        """Whether both operands can be packed by vectors."""
        given = [self._plan_panels(side, imm64(0)) for side in (self.left, self.right)]
        return all(what.along is not None or what.across is not None for what in given)

    # -- packing -----------------------------------------------------------------------------------
    def _count_packed_steps(self) -> PrimExpr:
        """Return the steps of a packed copy: at least one, for the unit takes its address."""
        return self.depth if isinstance(self.depth, IntImm) else Max(self.depth, imm64(1))

    def _pack_tile(
        self,
        side: Side,
        batch: PrimExpr,
        slot: tuple[PrimExpr, ...],
        tile: PrimExpr,
        start: PrimExpr,
        depth: PrimExpr,
    ) -> Stmt:
        if side is self.right:
            return super()._pack_tile(side, batch, slot, tile, start, depth)
        what = self._plan_panels(side, batch)
        packed, width = side.packed, imm64(side.width)
        assert packed is not None

        def put(k: PrimExpr, r: PrimExpr, words: PrimExpr) -> Stmt:
            row = mul(r, imm64(_WORDS))
            line = ravel(FloorDiv(k, imm64(_WORDS)), _WORDS, FloorDiv(row, width))
            place = add(FloorMod(row, width), FloorMod(k, imm64(_WORDS)))
            if words.dtype.lanes > 1:
                place = ramp(FloorMod(row, width), words.dtype.lanes)
            return BufferStore(packed, words, (*slot, line, place))

        def copy(first: PrimExpr, places: AxesAtOffset) -> Stmt:
            near = places if side.overlaps else side.clamp(places, first)

            def pack_lines(begin: PrimExpr, count: PrimExpr, last: bool) -> Stmt:
                given = what.last if last and what.last is not None else what.value
                return loop(
                    "r",
                    side.width,
                    lambda r: loop(
                        "k",
                        count,
                        lambda k: put(add(begin, k), r, given(near(r), add(start, add(begin, k)))),
                    ),
                )

            def parts(done: PrimExpr) -> Stmt:
                whole = _div_words(done)
                lines = mul(whole, imm64(_WORDS))
                if what.along is not None:
                    made = self._pack_lines(what, near, start, whole, put)
                else:
                    made = self._pack_transposed(what, places, start, whole, put)
                    if not (side.even or side.overlaps):
                        fits = LE(add(first, width), side.extent)
                        made = IfThenElse(fits, made, pack_lines(imm64(0), lines, False))
                if what.complete is None:
                    return made
                incomplete = minimum(sub(depth, done), imm64(1))
                return seq(
                    [
                        made,
                        loop("line", _div_words(sub(depth, lines)), lambda b: zeros(lines)),
                        pack_lines(lines, sub(done, lines), False),
                        pack_lines(done, incomplete, True),
                    ]
                )

            def zeros(k: PrimExpr) -> Stmt:
                nothing = Broadcast(const(0, WORD), _WORDS)
                return loop("r", side.width, lambda r: put(k, r, nothing))

            if what.complete is None:
                return parts(depth)
            return let("done", minimum(depth, sub(what.complete, start)), parts)

        return let(
            "first",
            side.compute_first_row(tile),
            lambda first: side.hoist_indices(first, lambda places: copy(first, places)),
        )

    def _pack_lines(
        self, what: Packing, places: AxesAtOffset, start: PrimExpr, count: PrimExpr, put: _WordStore
    ) -> Stmt:
        """Pack rows that are contiguous along the steps."""
        along = what.along
        assert along is not None

        def line(r: PrimExpr, b: PrimExpr) -> Stmt:
            k = mul(b, imm64(_WORDS))
            return put(k, r, along(places(r), add(start, k)))

        return loop("r", what.side.width, lambda r: loop("line", count, lambda b: line(r, b)))

    def _pack_transposed(
        self, what: Packing, places: AxesAtOffset, start: PrimExpr, count: PrimExpr, put: _WordStore
    ) -> Stmt:
        """Pack contiguous rows: transpose vectors of rows to vectors of steps in registers."""
        across = what.across
        assert across is not None

        def block(v: PrimExpr, b: PrimExpr) -> Stmt:
            row, k = mul(v, imm64(TILE)), mul(b, imm64(_WORDS))
            steps = [across(places(row), add(start, add(k, imm64(i)))) for i in range(_WORDS)]

            def store(columns: Sequence[PrimExpr]) -> Stmt:
                return seq(put(k, add(row, imm64(j)), c) for j, c in enumerate(columns))

            return transpose_in_registers(steps, store)

        tiles = what.side.width // TILE
        return loop("v", tiles, lambda v: loop("line", count, lambda b: block(v, b)))

    # -- a tile ------------------------------------------------------------------------------------
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
        row_tile = ravel(tile[0], left.per_block, tile[1])
        column_tile = ravel(strip[0], right.per_block, strip[1])
        sums = part or scratch("sums", (tiles.rows, tiles.columns), self.found.dtype, "local")
        where = () if part is None else (strip[1], tile[1])
        place = sums, where
        assert self.groups is not None
        kinds = [
            call_builtin("type_annotation", dtype=dtype) for dtype in self.groups.packed_dtypes
        ]
        zero = imm64(0)

        def address_of_packed(side: Side, number: PrimExpr, slot: PrimExpr) -> PrimExpr:
            assert side.packed is not None
            whole = side.source is Source.WHOLE
            place = (ravel(batch, side.tiles, number), start) if whole else (slot, zero)
            return call_builtin("address_of", BufferLoad(side.packed, (*place, zero)))

        def add_up(fresh: bool) -> Stmt:
            made = call_builtin(
                "dot_tiles",
                call_builtin("address_of", BufferLoad(sums, (*where, zero, zero))),
                address_of_packed(left, row_tile, tile[1]),
                address_of_packed(right, column_tile, strip[1]),
                _div_words(depth),
                imm64(tiles.rows),
                imm64(tiles.columns),
                *kinds,
                IntImm(int(fresh), BOOL),
            )
            return Evaluate(made)

        def inside(
            row: PrimExpr, column: PrimExpr, rows: AxesAtOffset, columns: AxesAtOffset
        ) -> Stmt:
            finish = self._store_tile(
                batch, (row_tile, column_tile), (row, column), (rows, columns), place
            )
            if part is None:
                return allocate([sums], add_up(True), finish)
            last = LE(self.panels, add(panel, imm64(1)))
            begin = IfThenElse(Eq(panel, zero), add_up(True), add_up(False))
            return seq([begin, IfThenElse(last, finish)])

        return bind_tile((left, row_tile), (right, column_tile), inside)

    def _store_tile(
        self,
        batch: PrimExpr,
        tile: tuple[PrimExpr, PrimExpr],
        first: tuple[PrimExpr, PrimExpr],
        places: tuple[AxesAtOffset, AxesAtOffset],
        place: tuple[Buffer, tuple[PrimExpr, ...]],
    ) -> Stmt:
        """Store a complete tile, but for what lies beyond the result or in another tile."""
        tiles, (sums, where) = self.tiles, place
        table = unravel(self.found.batch, batch)

        def end(r: PrimExpr, c: PrimExpr) -> Stmt:
            place = {**table, **places[0](r), **places[1](c)}
            return store_element(self.found, self.inner, place, BufferLoad(sums, (*where, r, c)))

        def vectors(r: PrimExpr) -> Stmt:
            return unroll(
                "v",
                tiles.vectors,
                lambda v: vectorize("c", tiles.lanes, lambda c: end(r, ravel(v, tiles.lanes, c))),
            )

        if self._has_contiguous_columns():
            full = loop("r", tiles.rows, vectors)
        else:
            full = loop("c", tiles.columns, lambda c: loop("r", tiles.rows, lambda r: end(r, c)))
        inside: PrimExpr = TRUE
        spans: list[tuple[PrimExpr, PrimExpr]] = []
        for side, number, begin in zip((self.left, self.right), tile, first):
            start, width = mul(number, imm64(side.width)), imm64(side.width)
            if not side.even:
                fits = LE(add(start, width), side.extent)
                inside = fits if inside is TRUE else And(inside, fits)
            # A tile that is shifted back leaves the rows before its own to the tile before it.
            skipped = sub(start, begin) if side.overlaps else imm64(0)
            spans.append((skipped, minimum(width, sub(side.extent, begin))))
        if inside is TRUE:
            return full
        (top, bottom), (near, far) = spans
        some = loop(
            "r",
            sub(bottom, top),
            lambda r: loop("c", sub(far, near), lambda c: end(add(top, r), add(near, c))),
        )
        return IfThenElse(inside, full, some)

    def _choices(self) -> tuple[str, ...]:
        assert self.groups is not None
        tiles = self.tiles
        shape = f"{tiles.rows} x {tiles.columns}"
        left, right = self.groups.packed_dtypes
        return (
            f"{left} and {right} by the unit for tiles of matrices",
            f"tile of {shape}: {tiles.rows // TILE * tiles.vectors} of 8 tile registers hold sums",
            *super()._choices()[-2:],
        )


def _div_words(words: PrimExpr) -> PrimExpr:
    if isinstance(words, IntImm):
        return imm64(words.value // _WORDS)
    return FloorDiv(words, imm64(_WORDS))
