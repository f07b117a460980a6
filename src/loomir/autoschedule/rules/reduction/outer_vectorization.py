"""Vectorise ordered reductions over an outer axis: each lane of a vector reduces a row of its own.

The terms of an element must be added in order, and each addition waits for the one before it, so
that a single row cannot be vectorised. If rows are contiguous in memory, square blocks of rows and
steps are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.evaluate import number, value_at, widest
from loomir.autoschedule.builders.loops import allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.operand_access import is_contiguous_along, ramp, stride_along
from loomir.autoschedule.builders.reduction_ops import accumulate
from loomir.autoschedule.builders.register_transpose import transpose_in_registers
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import And, Call, Let, Min, Or, PrimExpr, Var
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["RowVectors", "vectorize_rows"]

_FEWEST: Final = 4
"""Rows from which it pays: four in lanes take less time than one as a scalar loop."""
_VECTORS: Final = 2
"""Vectors of rows at once: while additions of one are in flight, the other is transposed."""
_WIDEST: Final = 16
"""Lanes of a vector: a block of 16 x 16 is transposed in 64 steps."""
_WRITTEN_OUT: Final = 24
"""Nodes of a term up to which the steps of a block are unrolled, in registers."""
_BLOCKS: Final = 2
"""Arrays that are transposed at once; registers have room for about so many."""

Place = Mapping[Var, PrimExpr]
Row = Callable[[PrimExpr], Place]
"""Maps the number of a row to the axes of the result."""


def vectorize_rows(
    stage: Stage, rows: Sequence[Axis], target: Target, slot: Var | None = None
) -> RowVectors | None:
    """Choose how lanes reduce elements along ``rows``; None if they cannot.

    ``slot`` indexes buffers that were contracted to some rows, in place of the axes of rows.
    """
    reduced = [axis for axis in stage.reduced if axis.size != 1]
    count = number(product(axis.extent for axis in rows))
    lanes = min(_WIDEST, target.lanes(max(8, widest(stage.value, stage.buffer.dtype))))
    while count is not None and lanes > 1 and lanes // 2 >= count:
        lanes //= 2
    if not reduced or lanes < _FEWEST or stage.buffer.dtype.lanes != 1:
        return None
    run = reduced[-1]
    if (run.size is not None and run.size < lanes) or _has_conditional_loads(stage.value):
        return None
    turns = _find_transposes(stage.value, rows, run, slot)
    if not turns or len(turns) > _BLOCKS:
        return None
    many = (count is None or count > lanes) and len(turns) == 1
    vectors = _VECTORS if many else 1
    return RowVectors(stage, tuple(rows), tuple(reduced[:-1]), run, tuple(turns), lanes, vectors)


def _has_conditional_loads(value: PrimExpr) -> bool:
    """Whether some loads are conditional, which excludes loading whole blocks."""
    found = by_class(value)
    calls: list[Call] = found.get(Call, [])
    return bool(found.keys() & {And, Or, Let}) or any(c.op is IF_THEN_ELSE for c in calls)


def _find_transposes(
    value: PrimExpr, along: Sequence[Axis], run: Axis, slot: Var | None
) -> list[BufferLoad] | None:
    """List the loads that are contiguous along a row; None if others depend on row and step."""
    rows = {*(axis.var for axis in along), *(() if slot is None else (slot,))}
    found: list[BufferLoad] = []
    loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
    for load in loads:
        used = [set(by_class(index).get(Var, ())) for index in load.indices]
        moves = set[Var]().union(*used)
        if any(BufferLoad in by_class(index) for index in load.indices):
            if run.var in moves and rows & moves:
                return None
            continue
        if run.var not in moves or not rows & moves:
            continue
        if stride_along(load, along[-1:]) == 1:
            if not _are_neighbours(load, along):
                return None  # lanes go on in the next row of a short axis
            continue  # neighbouring rows are neighbours in memory
        if load.dtype.lanes != 1 or not is_contiguous_along(load, [run]):
            return None
        if not any(structural_equal(load, other) for other in found):
            found.append(load)
    return found


def _are_neighbours(load: BufferLoad, along: Sequence[Axis]) -> bool:
    """Whether a load is contiguous along all of some axes together."""
    stride: int | None = 1
    for axis in reversed(along):
        if stride_along(load, (axis,)) != stride:
            return False
        stride = None if stride is None or axis.size is None else stride * axis.size
    return True


@dataclass(frozen=True, slots=True, eq=False)
class RowVectors:
    """How elements ``along`` some axes are reduced in lanes; ``turns`` are loads to transpose."""

    stage: Stage
    along: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    run: Axis
    turns: tuple[BufferLoad, ...]
    lanes: int
    vectors: int

    @property
    def rows(self) -> int:
        """Return the rows of a tile."""
        return self.lanes * self.vectors

    @property
    def text(self) -> str:
        """Describe the choice."""
        each = f"{self.vectors} vectors of {self.lanes}" if self.vectors > 1 else "one vector"
        return (
            f"{self.rows} rows at once in {each}, each in order; blocks are transposed in registers"
        )

    def tile(self, first: PrimExpr, extent: PrimExpr, row: Row) -> Stmt:
        """Reduce the rows of a tile from ``first`` on; those beyond ``extent`` are left out."""
        lanes, left = imm64(self.lanes), sub(extent, first)
        whole = self._vectors(self.vectors, lambda i: row(add(first, i)))
        known, rest = number(extent), sub(extent, imm64(1))
        if known is not None and known % self.rows == 0:
            return whole

        def reduce_vector(v: PrimExpr) -> Stmt:
            begin = add(first, mul(v, lanes))
            there = sub(left, mul(v, lanes))
            return self._vectors(1, lambda i: row(Min(add(begin, i), rest)), there)

        count = add(left, imm64(self.lanes - 1)) // lanes
        return IfThenElse(imm64(self.rows) <= left, whole, loop("vector", count, reduce_vector))

    def _vectors(self, vectors: int, row: Row, left: PrimExpr | None = None) -> Stmt:
        """Reduce vectors of rows; only as many rows are stored as are ``left``."""
        stage, lanes = self.stage, self.lanes
        acc = scratch("acc", (vectors, lanes), stage.buffer.dtype, "local")
        step, lane = Var("step", imm64(0).dtype), Var("lane", imm64(0).dtype)
        blocks = [scratch("block", (lanes, lanes), load.dtype, "local") for load in self.turns]

        def read_transposed(load: BufferLoad) -> BufferLoad:
            for block, turn in zip(blocks, self.turns):
                if structural_equal(load, turn):
                    return BufferLoad(block, (step, lane))
            return load

        value = rewrite(stage.value, {BufferLoad: read_transposed})
        long = sum(1 for _ in pre_order(value)) > _WRITTEN_OUT

        def place(v: int, x: PrimExpr) -> Place:
            return row(add(imm64(v * lanes), x))

        def across(body: Callable[[PrimExpr, tuple[PrimExpr, PrimExpr], Place], Stmt]) -> Stmt:
            return seq(
                vectorize("lane", lanes, lambda x, v=v: body(x, (imm64(v), x), place(v, x)))
                for v in range(vectors)
            )

        def start(_: PrimExpr, mine: tuple[PrimExpr, PrimExpr], here: Place) -> Stmt:
            indices = tuple(value_at(i, here) for i in stage.indices)
            init = BufferLoad(stage.buffer, indices)
            return BufferStore(
                acc, init if stage.init is None else value_at(stage.init, here), mine
            )

        def join(v: int, known: Place, of: PrimExpr) -> Stmt:
            def add_term(x: PrimExpr) -> Stmt:
                mine = (imm64(v), x)
                term = value_at(of, {**place(v, x), **known, lane: x})
                return BufferStore(
                    acc, accumulate(stage.combine, BufferLoad(acc, mine), term), mine
                )

            return vectorize("lane", lanes, add_term)

        def block(v: int, known: Place) -> Stmt:
            first = known[self.run.var]

            def load_along(load: BufferLoad, i: int) -> PrimExpr:
                here = {**place(v, imm64(i)), **known}
                indices = [value_at(index, here) for index in load.indices]
                return BufferLoad(load.buffer, (*indices[:-1], ramp(indices[-1], lanes)))

            def turn(k: int, done: Sequence[Sequence[PrimExpr]]) -> Stmt:
                if k < len(blocks):
                    vectors = [load_along(self.turns[k], i) for i in range(lanes)]
                    return transpose_in_registers(
                        vectors, lambda columns: turn(k + 1, [*done, columns])
                    )

                def join_step(j: PrimExpr) -> Stmt:
                    return join(v, {**known, self.run.var: add(first, j), step: j}, value)

                made: list[Stmt] = []
                for j in range(lanes):
                    for into, columns in zip(blocks, done):
                        where = (imm64(j), ramp(imm64(0), lanes))
                        made.append(BufferStore(into, columns[j], where))
                    made += [] if long else [join_step(imm64(j))]
                return seq([*made, loop("step", lanes, join_step)] if long else made)

            return turn(0, ())

        def steps(known: Place) -> Stmt:
            var, extent, size = self.run.var, self.run.extent, imm64(lanes)
            whole = mul(extent // size, size)
            exact = self.run.size is not None and self.run.size % lanes == 0
            blocked = loop(
                "block",
                extent // size,
                lambda b: seq(block(v, {**known, var: mul(b, size)}) for v in range(vectors)),
            )
            if exact:
                return blocked
            rest = loop(
                "k",
                sub(extent, whole),
                lambda k: seq(
                    join(v, {**known, var: add(whole, k)}, stage.value) for v in range(vectors)
                ),
            )
            return seq((blocked, rest))

        def nest(k: int, known: Place) -> Stmt:
            if k == len(self.outer):
                return steps(known)
            axis = self.outer[k]
            name = axis.var.name_hint
            return loop(name, axis.extent, lambda i: nest(k + 1, {**known, axis.var: i}))

        def end(x: PrimExpr, mine: tuple[PrimExpr, PrimExpr], here: Place) -> Stmt:
            indices = tuple(value_at(i, here) for i in stage.indices)
            return BufferStore(stage.buffer, BufferLoad(acc, mine), indices)

        units: Place = {a.var: imm64(0) for a in stage.reduced if a.size == 1}
        ends = across(end)
        if left is not None:
            ends = loop("r", Min(left, imm64(lanes)), lambda x: end(x, (imm64(0), x), place(0, x)))
        return allocate((acc, *blocks), across(start), nest(0, units), ends)
