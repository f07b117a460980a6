"""GEMM of few rows, with both operands contiguous along the reduced axis: vector dot products.

Nothing is packed: both operands are read along the reduced axis, the larger one only once. A tile
keeps one vector accumulator for each pair of a row and a column, and reduces its lanes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, cast

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import allocate, loop, parallel, scratch, unroll
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    extent_of,
    is_contiguous_along,
    let,
    minimum,
    ramp,
    ravel,
    size_of,
    stride_along,
    unravel,
)
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, has_zero_trip_case
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import choose_multiply
from loomir.autoschedule.rules.matmul.operands import load_vector
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import WORTH_THREADS, div_up
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    LT,
    Add,
    Broadcast,
    Eq,
    FloorDiv,
    IntImm,
    Let,
    Max,
    PrimExpr,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq

__all__ = ["fewest_steps", "plan_dot_products", "plan_few_rows"]

_MOST_ROWS: Final = 12
"""Rows up to which dot products are as fast as tiles whose columns are transposed in registers.

With 32 registers of 16 floats, tiles take 0.8 of the time for 16 rows, and half of it for 32 (on a
Xeon, Emerald Rapids). With 16 registers of 8 floats, transposes cost more, and the limit is twice
as many rows.
"""

_ROWS: Final = 4
"""Rows of a tile where their number is dynamic."""

_FEWEST_COLUMNS: Final = 256
"""Columns below which threads share a matrix-vector product better by the rules for reductions."""

_USUAL: Final = 4096
"""Columns that are assumed where their number is dynamic."""

_TileUnroller: TypeAlias = Callable[[Callable[[PrimExpr, int], Stmt]], Stmt]
"""Unrolls a body over the rows and columns of a tile."""

_CHUNK: Final = 512
"""Steps that a tile runs before the next tile does, if several tiles read the same columns."""


def plan_few_rows(found: Contraction, target: Target, inner: Set[Buffer]) -> list[tuple[int, Plan]]:
    """List plans for at most so many rows, where the number of rows is dynamic.

    The first of them is for exactly one row.
    """
    many = [axis for axis in found.rows if axis.size != 1]
    if len(many) != 1 or many[0].size is not None:
        return []
    one = tuple([axis if axis.size == 1 else Axis(axis.var, imm64(1)) for axis in found.rows])
    made: list[tuple[int, Plan]] = []
    for most in (1, _MOST_ROWS):
        rows = one if most == 1 else found.rows
        plan = plan_dot_products(replace(found, rows=rows), target, inner, most)
        made += [] if plan is None else [(most, plan)]
    return made


def fewest_steps(found: Contraction, target: Target) -> int:
    """Return the number of steps below which dot products do not pay."""
    return 4 * target.lanes(found.dtype.bits)


def plan_dot_products(
    found: Contraction, target: Target, inner: Set[Buffer], most: int | None = None
) -> Plan | None:
    """Plan a product with few rows as dot products; None if it has another form or size.

    ``most``: the upper bound of the number of rows, where it is dynamic.
    """
    m, n, k = size_of(found.rows) or most, size_of(found.columns), size_of(found.reduced)
    lanes = target.lanes(found.dtype.bits)
    if (
        m is None
        or (k is not None and k < fewest_steps(found, target))
        or (n is not None and n < 2)
    ):
        return None
    if found.by_vector and (n is None or k is None or n < _FEWEST_COLUMNS):
        return None
    unknown = most is not None or n is None or k is None
    if m > (_MOST_ROWS if unknown or target.registers >= 32 else 2 * _MOST_ROWS):
        return None
    if lanes < 2 or not all(
        is_contiguous_along(factor, found.reduced) for factor in (found.left, found.right)
    ):
        return None
    if stride_along(found.right, found.columns) == 1:
        return None
    return _DotProducts(found, target, inner, m, n, k).plan()


class _Tile(NamedTuple):
    """The origin of a tile, and the row and column indices that it reads."""

    batch: PrimExpr
    row: PrimExpr
    column: PrimExpr
    rows: Sequence[PrimExpr]
    columns: Sequence[PrimExpr]


class _DotProducts:
    def __init__(
        self,
        found: Contraction,
        target: Target,
        inner: Set[Buffer],
        m: int,
        n: int | None,
        k: int | None,
    ) -> None:
        self.found = found
        self.inner = inner
        self.multiply = choose_multiply(target)
        self.m, self.n, self.k = m, n, k
        self.registers = target.registers
        self.lanes = target.lanes(found.dtype.bits)
        self.batch, self.extent = extent_of(found.batch), extent_of(found.rows)
        self.width, self.depth = extent_of(found.columns), extent_of(found.reduced)
        most = 24 if target.registers >= 32 else 12
        pieces = div_up(m, min(m, most // 3, 8))
        known = isinstance(self.extent, IntImm)
        # Tiles of 4 rows suit any number: they load 10 vectors for 24 products, as 6 x 4 do.
        self.rows = div_up(m, pieces) if known else min(m, _ROWS)
        # Memory is read fastest in several streams: 6 take 0.85 of the time of one (on a Xeon).
        far = n is None or k is None or n * k * found.dtype.itemsize > target.caches[1]
        wide = _USUAL if n is None else n
        fit = range(1, max(1, min(6 if far else 8, most // self.rows, wide)) + 1)
        self.columns = max(fit, key=lambda c: wide / div_up(wide, c) / (self.rows + c))
        self.tiles = div_up(m, self.rows)
        self.complete = isinstance(self.extent, IntImm) and m % self.rows == 0
        """Whether each tile has all its rows."""
        self.strips = ceil_div(self.width, self.columns)
        self.whole = _floor_div(self.depth, self.lanes)
        """The full vectors of a row."""
        self.chunk = self._chunk(target)
        chunks: PrimExpr = imm64(1)
        if self.chunk is not None:
            chunks = ceil_div(self.whole, self.chunk // self.lanes)
        # With no step at all one chunk still runs, to store the results.
        self.chunks = chunks if isinstance(chunks, IntImm) else Max(chunks, imm64(1))
        self.per_block = max(1, 32 // self.columns)

    def _chunk(self, target: Target) -> int | None:
        """Choose how many steps a tile runs before the next one, None for all."""
        whole = None if self.k is None else self.k - self.k % self.lanes
        near, row = target.caches[0], self.rows * self.found.dtype.itemsize
        chunk: int | None = None
        if self.tiles > 1:
            chunk = max(self.lanes, _CHUNK - _CHUNK % self.lanes)
        elif near >= 2 * _CHUNK * row and (whole is None or whole * row > near):
            # The rows stay in L1 while columns stream by: 8 rows take 0.87 of the time that they
            # take from L2 (on a Xeon, Emerald Rapids).
            chunk = 1 << (near // 2 // row).bit_length() - 1
        return None if chunk is None or (whole is not None and whole <= chunk) else chunk

    def plan(self) -> Plan:
        """Emit the loop nest."""
        blocks = ceil_div(self.strips, self.per_block)
        count, known = size_of(self.found.batch), isinstance(self.extent, IntImm)
        work: int | None = None
        if known and count is not None and self.n is not None and self.k is not None:
            work = self.m * self.n * self.k * count
        worth = work is None or work >= WORTH_THREADS
        stmt = loop(
            "batch",
            self.batch,
            lambda b: (parallel if worth else loop)("block", blocks, lambda j: self._block(b, j)),
        )
        if has_zero_trip_case(self.found.stage):
            stmt = IfThenElse(LT(imm64(0), extent_of(self.found.reduced)), stmt)
        registers = self.rows * self.columns
        return Plan(
            "matrix product of few rows",
            stmt,
            (
                f"dot products of vectors of {self.lanes}, nothing packed",
                f"tile of {self.rows} x {self.columns}: {registers} vectors of sums",
                *([f"{self.chunk} steps of all rows at a time"] if self.chunk else []),
            ),
            None if work is None else 2 * work,
        )

    def _block(self, batch: PrimExpr, block: PrimExpr) -> Stmt:
        """Compute some columns of all rows, chunk by chunk."""
        first = mul(block, imm64(self.per_block))
        strips = minimum(imm64(self.per_block), sub(self.strips, first))
        if isinstance(self.strips, IntImm) and self.strips.value % self.per_block == 0:
            strips = imm64(self.per_block)
        tiles = ceil_div(self.extent, self.rows)
        part = None
        if self.chunk is not None:
            shape = (self.per_block, self.tiles, self.rows, self.columns * self.lanes)
            part = scratch("part", shape, self.found.dtype)

        def chunk(c: PrimExpr) -> Stmt:
            return loop(
                "strip",
                strips,
                lambda s: loop(
                    "tile", tiles, lambda t: self._tile(batch, add(first, s), s, t, c, part)
                ),
            )

        body = loop("chunk", self.chunks, chunk)
        return body if part is None else allocate([part], body)

    def _tile(
        self,
        batch: PrimExpr,
        strip: PrimExpr,
        slot: PrimExpr,
        tile: PrimExpr,
        chunk: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        """Bind the rows and columns of a tile, and compute it."""
        row, column = mul(tile, imm64(self.rows)), mul(strip, imm64(self.columns))
        places = [self._row(row, r) for r in range(self.rows)]
        places += [self._column(column, c) for c in range(self.columns)]

        def body(named: Sequence[PrimExpr]) -> Stmt:
            sides = named[: self.rows], named[self.rows :]
            return self._compute(_Tile(batch, row, column, *sides), (slot, tile), chunk, part)

        return _bind("ravel", places, body)

    def _compute(
        self, tile: _Tile, place: tuple[PrimExpr, PrimExpr], chunk: PrimExpr, part: Buffer | None
    ) -> Stmt:
        found, lanes = self.found, self.lanes
        sums = scratch("sums", (self.rows, self.columns * lanes), found.dtype, scope="local")

        def unroll_tile(body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
            return unroll("r", self.rows, lambda r: seq(body(r, c) for c in range(self.columns)))

        def lanes_of(c: int) -> PrimExpr:
            return ramp(imm64(c * lanes), lanes)

        def step(place: PrimExpr) -> Stmt:
            k = ravel(chunk, self.chunk or 0, mul(place, imm64(lanes)))

            return self._products(tile, k, lanes, lambda r, c: (sums, (imm64(r), lanes_of(c))))

        zero = Broadcast(const(0, found.dtype), lanes)
        begin = unroll_tile(lambda r, c: BufferStore(sums, zero, (r, lanes_of(c))))
        steps = self.whole
        if self.chunk is not None:
            steps = imm64(self.chunk // lanes)
            if self.k is None or self.k // lanes % steps.value:
                steps = minimum(steps, sub(self.whole, mul(chunk, steps)))
        run = loop("k", steps, step)
        end = self._end(tile, sums, unroll_tile)
        if part is None:
            return allocate([sums], begin, run, end)
        again = unroll_tile(
            lambda r, c: BufferStore(
                sums, BufferLoad(part, (*place, r, lanes_of(c))), (r, lanes_of(c))
            )
        )
        keep = unroll_tile(
            lambda r, c: BufferStore(
                part, BufferLoad(sums, (r, lanes_of(c))), (*place, r, lanes_of(c))
            )
        )
        return allocate(
            [sums],
            IfThenElse(Eq(chunk, imm64(0)), begin, again),
            run,
            IfThenElse(Eq(chunk, sub(self.chunks, imm64(1))), end, keep),
        )

    def _end(self, tile: _Tile, sums: Buffer, each: _TileUnroller) -> Stmt:
        """Reduce the lanes, add the remainder steps that fill no vector, and store."""
        row, column = tile.row, tile.column
        if self.complete and self.even and self.k is not None:
            rest = range(self.k - self.k % self.lanes, self.k)

            def complete_sum(r: PrimExpr, c: int) -> Stmt:
                places, total = (add(row, r), add(column, imm64(c))), self._sum_lanes(sums, r, c)
                for k in rest:
                    total = self._term(tile.batch, places, imm64(k), total)
                return self._store(tile, r, imm64(c), total)

            return each(complete_sum)
        # Store in a loop, from memory: unrolled stores, each with its bounds guard, were a third of
        # the compile time.
        tile_sums = scratch("acc", (self.rows, self.columns), self.found.dtype)

        def put(r: PrimExpr, c: int, value: PrimExpr) -> Stmt:
            return BufferStore(tile_sums, value, (r, imm64(c)))

        def step(k: PrimExpr) -> Stmt:
            return self._products(tile, k, 1, lambda r, c: (tile_sums, (imm64(r), imm64(c))))

        begin = each(lambda r, c: put(r, c, self._sum_lanes(sums, r, c)))
        done = mul(self.whole, imm64(self.lanes))
        steps = sub(self.depth, done)
        more = [loop("k", steps, lambda k: step(add(done, k)))]
        rows = minimum(imm64(self.rows), sub(self.extent, row))
        columns = imm64(self.columns)
        if not self.even:
            columns = minimum(columns, sub(self.width, column))

        def store_total(r: PrimExpr, c: PrimExpr) -> Stmt:
            return self._store(tile, r, c, BufferLoad(tile_sums, (r, c)))

        stored = loop("r", rows, lambda r: loop("c", columns, lambda c: store_total(r, c)))
        return allocate(
            [tile_sums], begin, *more[: self.k is None or self.k % self.lanes > 0], stored
        )

    def _term(
        self, batch: PrimExpr, places: tuple[PrimExpr, PrimExpr], k: PrimExpr, total: PrimExpr
    ) -> PrimExpr:
        """Add the product of one step."""
        found = self.found
        x = self._element(found.left, found.rows, batch, places[0], k)
        y = self._element(found.right, found.columns, batch, places[1], k)
        return self.multiply(x, y, total)

    def _row(self, first: PrimExpr, r: int) -> PrimExpr:
        """Return a row to read, clamped to the last one; results beyond it are not stored."""
        index = add(first, imm64(r))
        return index if self.complete else minimum(index, sub(self.extent, imm64(1)))

    def _column(self, first: PrimExpr, c: int) -> PrimExpr:
        index = add(first, imm64(c))
        return index if self.even else minimum(index, sub(self.width, imm64(1)))

    @property
    def even(self) -> bool:
        """Whether each strip has all its columns."""
        return self.n is not None and self.n % self.columns == 0

    def _element(
        self,
        factor: PrimExpr,
        axes: tuple[Axis, ...],
        batch: PrimExpr,
        index: PrimExpr,
        k: PrimExpr,
    ) -> PrimExpr:
        found = self.found
        table: dict[Var, PrimExpr] = {}
        for of, place in ((found.batch, batch), (axes, index), (found.reduced, k)):
            table.update(unravel(of, place))
        return value_at(factor, table)

    def _products(
        self,
        tile: _Tile,
        k: PrimExpr,
        lanes: int,
        accumulator: Callable[[int, int], tuple[Buffer, tuple[PrimExpr, PrimExpr]]],
    ) -> Stmt:
        """Add the products of a step to the accumulators; each element is loaded once.

        Those of the shorter side stay in registers.
        """
        found = self.found

        def load(factor: PrimExpr, axes: tuple[Axis, ...], index: PrimExpr) -> PrimExpr:
            element = self._element(factor, axes, tile.batch, index, k)
            return element if lanes == 1 else load_vector(factor, element, lanes)

        xs = [load(found.left, found.rows, index) for index in tile.rows]
        ys = [load(found.right, found.columns, index) for index in tile.columns]
        swapped = len(xs) > len(ys)
        few, many = (ys, xs) if swapped else (xs, ys)

        def multiply_pair(a: PrimExpr, b: PrimExpr, i: int, j: int) -> Stmt:
            x, y, r, c = (b, a, j, i) if swapped else (a, b, i, j)
            buffer, place = accumulator(r, c)
            return BufferStore(buffer, self.multiply(x, y, BufferLoad(buffer, place)), place)

        def all_with(given: Sequence[PrimExpr], j: int) -> Stmt:
            return let(
                "y", many[j], lambda b: seq(multiply_pair(a, b, i, j) for i, a in enumerate(given))
            )

        return _bind("x", few, lambda given: seq(all_with(given, j) for j in range(len(many))))

    def _sum_lanes(self, sums: Buffer, r: PrimExpr, c: int) -> PrimExpr:
        """Reduce the lanes of an element of a tile."""
        total: PrimExpr = BufferLoad(sums, (r, ramp(imm64(c * self.lanes), self.lanes)))
        while total.dtype.lanes > 1:
            var = Var("half", total.dtype)
            low, high = call_builtin("vectorlow", var), call_builtin("vectorhigh", var)
            total = Let(var, total, Add(low, high))
        return total

    def _store(self, tile: _Tile, r: PrimExpr, c: PrimExpr, total: PrimExpr) -> Stmt:
        """Store an element of a tile, with the epilogue."""
        found = self.found
        place = {
            **unravel(found.batch, tile.batch),
            **unravel(found.rows, add(tile.row, r)),
            **unravel(found.columns, add(tile.column, c)),
        }
        return store_element(found, self.inner, place, total)


def _bind(
    name: str, values: Sequence[PrimExpr], body: Callable[[Sequence[PrimExpr]], Stmt]
) -> Stmt:
    """Bind values to variables, but for constants and variables."""
    simple = [isinstance(value, (IntImm, Var)) for value in values]
    names = [v if s else Var(name, v.dtype) for v, s in zip(values, simple)]
    made = body(names)
    for var, value in zip(reversed(names), reversed(values)):
        made = made if var is value else LetStmt(cast("Var", var), value, made)
    return made


def _floor_div(value: PrimExpr, by: int) -> PrimExpr:
    """Divide a non-negative number, rounding down."""
    return imm64(value.value // by) if isinstance(value, IntImm) else FloorDiv(value, imm64(by))
