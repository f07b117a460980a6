"""Few rows times a matrix that lies with the reduced axis innermost: dot products of vectors.

Nothing is packed: both factors are read along the reduced axis, the large one once. A tile keeps
one vector of sums for each pair of a row and a column, and adds up its lanes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.contraction.epilogue import finished
from loomir.autoschedule.contraction.micro_kernel import summing
from loomir.autoschedule.contraction.operand import (
    at,
    ceil_div,
    extent_of,
    lesser,
    reads_along,
    size_of,
    span,
    split,
    stride_along,
)
from loomir.autoschedule.contraction.recognise import Contraction
from loomir.autoschedule.contraction.sides import vector_from
from loomir.autoschedule.contraction.tiles import WORTH_THREADS, up
from loomir.autoschedule.nest import allocated, loop, parallel, scratch, unrolled
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.stage import Axis, may_do_nothing
from loomir.ir.substitution import substitute
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    LE,
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
from loomir.tir.op import call_builtin
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["dot_products", "few_as_dot_products"]

_MOST_ROWS: Final = 12
"""Rows up to which dot products are no slower than turning columns in registers for tiles of sums.

With 32 registers of 16 numbers 16 rows take 0.8 of the time in tiles, and 32 rows half of it. With
16 registers of 8 the turning costs more: up to twice as many rows.
"""

_UNKNOWN_ROWS: Final = 8
"""Rows up to which that is so where columns or steps are not known: there may be few."""

_FEWEST_COLUMNS: Final = 256
"""Columns below which threads share a product with a vector better by rules for rows."""

_USUAL: Final = 4096
"""Columns that are assumed where their number is not known."""

_Each: TypeAlias = Callable[[Callable[[PrimExpr, int], Stmt]], Stmt]
"""Writes out something for each row and column of a tile."""

_CHUNK: Final = 512
"""Steps that a tile takes before the next one, where several tiles read the same columns."""


def few_as_dot_products(
    found: Contraction, target: Target, inner: Set[Buffer]
) -> list[tuple[int, Plan]]:
    """List plans for at most so many rows, where their number is known at run time only.

    The first of them is for exactly one row.
    """
    many = [axis for axis in found.rows if axis.size != 1]
    if len(many) != 1 or many[0].size is not None:
        return []
    one = tuple([axis if axis.size == 1 else Axis(axis.var, imm64(1)) for axis in found.rows])
    made: list[tuple[int, Plan]] = []
    for most in (1, 4, 8):
        rows = one if most == 1 else found.rows
        plan = dot_products(replace(found, rows=rows), target, inner, most)
        made += [] if plan is None else [(most, plan)]
    return made


def dot_products(
    found: Contraction, target: Target, inner: Set[Buffer], most: int | None = None
) -> Plan | None:
    """Plan a product with few rows as dot products; None where that does not fit.

    ``most``: what is known of the number of rows, where it is not.
    """
    m, n, k = size_of(found.rows) or most, size_of(found.columns), size_of(found.reduced)
    lanes = target.lanes(found.dtype.bits)
    if m is None or (k is not None and k < 4 * lanes) or (n is not None and n < 2):
        return None
    if found.by_vector and (n is None or k is None or n < _FEWEST_COLUMNS):
        return None
    most_rows = _MOST_ROWS if target.registers >= 32 else 2 * _MOST_ROWS
    if m > (most_rows if n is not None and k is not None else _UNKNOWN_ROWS):
        return None
    if lanes < 2 or not all(
        reads_along(factor, found.reduced) for factor in (found.left, found.right)
    ):
        return None
    if stride_along(found.right, found.columns) == 1:
        return None
    return _DotProducts(found, target, inner, m, n, k).plan()


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
        self.multiply = summing(target)
        self.m, self.n, self.k = m, n, k
        self.registers = target.registers
        self.lanes = target.lanes(found.dtype.bits)
        self.batch, self.extent = extent_of(found.batch), extent_of(found.rows)
        self.width, self.depth = extent_of(found.columns), extent_of(found.reduced)
        most = 24 if target.registers >= 32 else 12
        pieces = up(m, min(m, most // 3, 8))
        self.rows = up(m, pieces)
        # What comes from memory comes fastest as some streams: 6 take 0.85 of the time of one.
        far = n is None or k is None or n * k * found.dtype.itemsize > target.caches[1]
        wide = _USUAL if n is None else n
        fit = range(1, max(1, min(6 if far else 8, most // self.rows, wide)) + 1)
        self.columns = max(fit, key=lambda c: wide / up(wide, c) / (self.rows + c))
        self.tiles = up(m, self.rows)
        self.complete = isinstance(self.extent, IntImm) and m % self.rows == 0
        """Whether each tile has all its rows."""
        self.strips = ceil_div(self.width, self.columns)
        self.whole = _divided(self.depth, self.lanes)
        """The vectors of a row that are complete."""
        self.chunk = self._chunk(target)
        chunks: PrimExpr = imm64(1)
        if self.chunk is not None:
            chunks = ceil_div(self.whole, self.chunk // self.lanes)
        # Without a step there is a chunk all the same, in which the results are stored.
        self.chunks = chunks if isinstance(chunks, IntImm) else Max(chunks, imm64(1))
        self.per_block = max(1, 32 // self.columns)

    def _chunk(self, target: Target) -> int | None:
        """Choose how many steps a tile takes before the next one, None for all."""
        whole = None if self.k is None else self.k - self.k % self.lanes
        near, row = target.caches[0], self.rows * self.found.dtype.itemsize
        chunk: int | None = None
        if self.tiles > 1:
            chunk = _CHUNK - _CHUNK % self.lanes
        elif near >= 2 * _CHUNK * row and (whole is None or whole * row > near):
            # The rows stay in the nearest cache while columns go by: 8 of them take 0.87 of the
            # time that they take from the second one.
            chunk = 1 << (near // 2 // row).bit_length() - 1
        return None if chunk is None or (whole is not None and whole <= chunk) else chunk

    def plan(self) -> Plan:
        """Write the loops."""
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
        if may_do_nothing(self.found.stage):
            stmt = IfThenElse(LT(imm64(0), extent_of(self.found.reduced)), stmt)
        held = self.rows * self.columns
        return Plan(
            "matrix product of few rows",
            stmt,
            (
                f"dot products of vectors of {self.lanes}, nothing packed",
                f"tile of {self.rows} x {self.columns}: {held} vectors of sums",
                *([f"{self.chunk} steps of all rows at a time"] if self.chunk else []),
            ),
            None if work is None else 2 * work,
        )

    def _block(self, batch: PrimExpr, block: PrimExpr) -> Stmt:
        """Compute some columns of all rows, chunk by chunk."""
        first = mul(block, imm64(self.per_block))
        strips = lesser(imm64(self.per_block), sub(self.strips, first))
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
        return body if part is None else allocated([part], body)

    def _tile(
        self,
        batch: PrimExpr,
        strip: PrimExpr,
        slot: PrimExpr,
        tile: PrimExpr,
        chunk: PrimExpr,
        part: Buffer | None,
    ) -> Stmt:
        found, lanes = self.found, self.lanes
        sums = scratch("sums", (self.rows, self.columns * lanes), found.dtype, scope="local")
        row, column = mul(tile, imm64(self.rows)), mul(strip, imm64(self.columns))

        def each(body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
            return unrolled("r", self.rows, lambda r: seq(body(r, c) for c in range(self.columns)))

        def held(c: int) -> PrimExpr:
            return span(imm64(c * lanes), lanes)

        def step(place: PrimExpr) -> Stmt:
            k = at(chunk, self.chunk or 0, mul(place, imm64(lanes)))

            def one(r: PrimExpr, c: int) -> Stmt:
                x = self._vector(found.left, found.rows, batch, self._row(row, r), k)
                y = self._vector(found.right, found.columns, batch, self._column(column, c), k)
                total = self.multiply(x, y, BufferLoad(sums, (r, held(c))))
                return BufferStore(sums, total, (r, held(c)))

            return each(one)

        zero = Broadcast(const(0, found.dtype), lanes)
        begin = each(lambda r, c: BufferStore(sums, zero, (r, held(c))))
        steps = self.whole
        if self.chunk is not None:
            steps = imm64(self.chunk // lanes)
            if self.k is None or self.k // lanes % steps.value:
                steps = lesser(steps, sub(self.whole, mul(chunk, steps)))
        run = loop("k", steps, step)
        end = self._end(batch, row, column, sums, each)
        if part is None:
            return allocated([sums], begin, run, end)
        place = (slot, tile)
        again = each(
            lambda r, c: BufferStore(sums, BufferLoad(part, (*place, r, held(c))), (r, held(c)))
        )
        keep = each(
            lambda r, c: BufferStore(part, BufferLoad(sums, (r, held(c))), (*place, r, held(c)))
        )
        return allocated(
            [sums],
            IfThenElse(Eq(chunk, imm64(0)), begin, again),
            run,
            IfThenElse(Eq(chunk, sub(self.chunks, imm64(1))), end, keep),
        )

    def _end(
        self, batch: PrimExpr, row: PrimExpr, column: PrimExpr, sums: Buffer, each: _Each
    ) -> Stmt:
        """Add up what the lanes hold and the steps that fill no vector, and store."""
        found, lanes = self.found, self.lanes
        rest = None
        if self.k is None:
            rest = scratch("rest", (self.rows, self.columns), found.dtype, scope="local")
        end = unrolled(
            "r", self.rows, lambda r: self._row_stored(batch, row, column, r, sums, rest)
        )
        if not self.even:
            fits = LE(add(column, imm64(self.columns)), self.width)
            end = IfThenElse(fits, end, self._partly(batch, row, column, sums, rest, each))
        if rest is None:
            return end
        held = rest
        done = mul(self.whole, imm64(lanes))

        def put(r: PrimExpr, c: int, value: PrimExpr) -> Stmt:
            return BufferStore(held, value, (r, imm64(c)))

        def step(r: PrimExpr, c: int, k: PrimExpr) -> Stmt:
            places = self._row(row, r), self._column(column, c)
            return put(r, c, self._term(batch, places, k, BufferLoad(held, (r, imm64(c)))))

        zero = const(0, found.dtype)
        begin = each(lambda r, c: put(r, c, zero))
        steps = sub(self.depth, done)
        more = loop("k", steps, lambda k: each(lambda r, c: step(r, c, add(done, k))))
        return allocated([held], begin, more, end)

    def _row_stored(
        self,
        batch: PrimExpr,
        row: PrimExpr,
        column: PrimExpr,
        r: PrimExpr,
        sums: Buffer,
        rest: Buffer | None,
    ) -> Stmt:
        """Store the columns of a row, unless there is no such row."""
        stored = seq(
            self._stored(batch, (row, r), (column, imm64(c)), sums, rest)
            for c in range(self.columns)
        )
        if self.complete:
            return stored
        return IfThenElse(LE(add(add(row, r), imm64(1)), self.extent), stored)

    def _partly(
        self,
        batch: PrimExpr,
        row: PrimExpr,
        column: PrimExpr,
        sums: Buffer,
        rest: Buffer | None,
        each: _Each,
    ) -> Stmt:
        """Store what lies inside the result of a tile, element by element."""
        dtype, lanes = self.found.dtype, self.lanes
        edges = [scratch("edge", (self.rows, self.columns * lanes), dtype)]
        copies = [each(lambda r, c: _copied(edges[0], sums, (r, span(imm64(c * lanes), lanes))))]
        if rest is not None:
            edges.append(scratch("rest_edge", (self.rows, self.columns), dtype))
            copies.append(each(lambda r, c: _copied(edges[1], rest, (r, imm64(c)))))
        rows = lesser(imm64(self.rows), sub(self.extent, row))
        columns = lesser(imm64(self.columns), sub(self.width, column))

        def one(r: PrimExpr, c: PrimExpr) -> Stmt:
            return self._stored(batch, (row, r), (column, c), *edges)

        some = loop("r", rows, lambda r: loop("c", columns, lambda c: one(r, c)))
        return allocated(edges, *copies, some)

    def _term(
        self, batch: PrimExpr, places: tuple[PrimExpr, PrimExpr], k: PrimExpr, total: PrimExpr
    ) -> PrimExpr:
        """Add the product of one step."""
        found = self.found
        x = self._element(found.left, found.rows, batch, places[0], k)
        y = self._element(found.right, found.columns, batch, places[1], k)
        return self.multiply(x, y, total)

    def _row(self, first: PrimExpr, r: PrimExpr) -> PrimExpr:
        """Give a row to read; what is beyond the last is read there, and not stored."""
        index = add(first, r)
        return index if self.complete else lesser(index, sub(self.extent, imm64(1)))

    def _column(self, first: PrimExpr, c: int) -> PrimExpr:
        index = add(first, imm64(c))
        return index if self.even else lesser(index, sub(self.width, imm64(1)))

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
            table.update(split(of, place))
        return substitute(factor, table)

    def _vector(
        self,
        factor: PrimExpr,
        axes: tuple[Axis, ...],
        batch: PrimExpr,
        index: PrimExpr,
        k: PrimExpr,
    ) -> PrimExpr:
        """Load neighbours along the reduced axis."""
        return vector_from(factor, self._element(factor, axes, batch, index, k), self.lanes)

    def _stored(
        self,
        batch: PrimExpr,
        row: tuple[PrimExpr, PrimExpr],
        column: tuple[PrimExpr, PrimExpr],
        sums: Buffer,
        rest: Buffer | None = None,
    ) -> Stmt:
        """Store an element of a tile: rows and columns are the first ones and the number there."""
        found, lanes = self.found, self.lanes
        (first, r), (left, c) = row, column
        places = add(first, r), add(left, c)
        total: PrimExpr = BufferLoad(sums, (r, span(mul(c, imm64(lanes)), lanes)))
        while total.dtype.lanes > 1:
            var = Var("half", total.dtype)
            low, high = call_builtin("vectorlow", var), call_builtin("vectorhigh", var)
            total = Let(var, total, Add(low, high))
        if rest is not None:
            total = Add(total, BufferLoad(rest, (r, c)))
        elif self.k is not None:
            for k in range(self.k - self.k % lanes, self.k):
                total = self._term(batch, places, imm64(k), total)
        place = {
            **split(found.batch, batch),
            **split(found.rows, places[0]),
            **split(found.columns, places[1]),
        }
        return finished(found, self.inner, place, total)


def _copied(to: Buffer, source: Buffer, place: tuple[PrimExpr, PrimExpr]) -> Stmt:
    return BufferStore(to, BufferLoad(source, place), place)


def _divided(value: PrimExpr, by: int) -> PrimExpr:
    """Divide what is not negative."""
    return imm64(value.value // by) if isinstance(value, IntImm) else FloorDiv(value, imm64(by))
