"""Element-wise stages that transpose: their input and output are contiguous along different axes.

A block of vectors is loaded along the axis on which the input is contiguous, transposed in
registers, and stored along that of the output. Blocks run tile by tile, so that cache lines and
pages are used completely before they are evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import add, fold_expr, imm64, mul, product, sub
from loomir.autoschedule.builders.evaluate import (
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.operand_access import ramp
from loomir.autoschedule.builders.register_transpose import transpose_in_registers
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Call, FloorDiv, Min, PrimExpr, Var
from loomir.tir.stmt import BufferStore, Stmt, seq

__all__ = ["plan_transpose"]

_LEAST: Final = 4
"""Lanes from which a block is worth transposing."""
_MOST: Final = 16
"""Lanes of a block that is unrolled, at most."""
_TILE: Final = 256
_RUN: Final = 512
"""Bytes of a row of the result in a tile, ``_TILE`` those of a row of the input: cache lines.

Arrays seldom begin at a cache line, so the ends of a row share lines with the next tile. With these
tiles, 4096 x 4096 numbers take 0.62 of the time of tiles that write one vector to each row (on a
Xeon, Emerald Rapids).
"""

_Place = Mapping[Var, PrimExpr]


@dataclass(frozen=True, slots=True, eq=False)
class _Transpose:
    """A stage with its output contiguous along ``across``, and some inputs along ``down``."""

    stage: Stage
    outer: tuple[Axis, ...]
    down: Axis
    across: Axis
    loads: tuple[BufferLoad, ...]
    lanes: int


def plan_transpose(stage: Stage, target: Target) -> Plan | None:
    """Plan an element-wise stage that reads a large input across its order; None for others."""
    found = _read(stage, target)
    if found is None:
        return None
    down, across, lanes = found.down, found.across, found.lanes
    bits = widest(stage.value, stage.buffer.dtype)
    high, wide = (
        _cut(down, max(lanes, _TILE * 8 // bits)),
        _cut(across, max(lanes, _RUN * 8 // bits)),
    )
    count = mul(product(axis.extent for axis in found.outer), mul(high[1], wide[1]))

    def tile(t: PrimExpr) -> Stmt:
        row = unravel_index(fold_expr(FloorDiv(t, mul(high[1], wide[1]))), found.outer)
        # Rows of the input are read on, which the CPU fetches by itself.
        start = fold_expr(mul(FloorDiv(t, high[1]) % wide[1], imm64(wide[0])))
        first = fold_expr(mul(t % high[1], imm64(high[0])))
        return _tile(found, row, (first, high[0]), (start, wide[0]))

    each = time_of(stage.value, stage.buffer.dtype) * high[0] * wide[0]
    stmt, how = parallelize(count, each, f"tiles of {high[0]} x {wide[0]}", tile)
    names = ", ".join(sorted({load.buffer.name for load in found.loads}))
    text = (
        f"blocks of {lanes} x {lanes} are transposed in registers: {names} lies along "
        f"{down.var.name_hint}, the result along {across.var.name_hint}"
    )
    return Plan("transpose", stmt, (text, how))


def _cut(axis: Axis, side: int) -> tuple[int, PrimExpr]:
    """Return the length of the pieces of an axis, and their number."""
    if axis.size is not None:
        side = min(side, axis.size)
        return side, imm64(-(-axis.size // side))
    return side, FloorDiv(add(axis.extent, imm64(side - 1)), imm64(side))


def _read(stage: Stage, target: Target) -> _Transpose | None:
    if stage.combine is not Combine.NONE or any(axis.size == 0 for axis in stage.axes):
        return None
    placed = [axis for axis in storage_order(stage) if axis.size != 1]
    calls: list[Call] = by_class(stage.value).get(Call, [])
    if (
        len(placed) < 2
        or stage.buffer.dtype.lanes != 1
        or any(call.op is IF_THEN_ELSE for call in calls)
    ):
        return None
    across = placed[-1]
    found: list[BufferLoad] = []
    down: Axis | None = None
    for load in by_class(stage.value).get(BufferLoad, ()):
        axis = _lies_along(load, stage.axes, across)
        if axis is not None and down in (None, axis):
            down = axis
            found.append(load)
    if down is None or not 1 <= len(found) <= 2:
        return None
    lanes = min(_MOST, target.lanes(max(8, widest(stage.value, stage.buffer.dtype))))
    for axis in (across, down):
        while axis.size is not None and lanes > axis.size:
            lanes //= 2
    if lanes < _LEAST and lanes < target.lanes(widest(stage.value, stage.buffer.dtype)):
        return None
    outer = tuple(axis for axis in stage.axes if axis not in (across, down))
    return _Transpose(stage, outer, down, across, tuple(found), lanes)


def _lies_along(load: BufferLoad, axes: Sequence[Axis], across: Axis) -> Axis | None:
    """Return the axis along which a load is contiguous, if it is not that of the result."""
    places = [
        k for k, index in enumerate(load.indices) if across.var in by_class(index).get(Var, ())
    ]
    last = len(load.indices) - 1
    if load.dtype.lanes != 1 or len(places) != 1 or places[0] == last:
        return None
    forms = [affine_form(index, axes) for index in load.indices]
    along, other = forms[last], forms[places[0]]
    if along is None or other is None or any(BufferLoad in by_class(i) for i in load.indices):
        return None
    for axis in axes:
        if along.terms.get(axis.var) != 1 or axis.size == 1:
            continue
        if any(axis.var in by_class(i).get(Var, ()) for i in load.indices[:-1]):
            continue
        return axis
    return None


def _tile(
    found: _Transpose, row: _Place, high: tuple[PrimExpr, int], wide: tuple[PrimExpr, int]
) -> Stmt:
    """Transpose a tile block by block; the remainder at its ends is scalar."""
    stage, lanes = found.stage, imm64(found.lanes)
    (first, rows), (start, columns) = high, wide
    height, length = _count_left(found.down, first, rows), _count_left(found.across, start, columns)
    blocks, pieces = fold_expr(FloorDiv(height, lanes)), fold_expr(FloorDiv(length, lanes))

    def store_element(d: PrimExpr, a: PrimExpr) -> Stmt:
        place = {**row, found.down.var: add(first, d), found.across.var: add(start, a)}
        return BufferStore(
            stage.buffer,
            value_at(stage.value, place),
            tuple(value_at(i, place) for i in stage.indices),
        )

    def block(d: PrimExpr, a: PrimExpr) -> Stmt:
        return _block(found, row, add(first, mul(d, lanes)), add(start, mul(a, lanes)))

    done, across = fold_expr(mul(blocks, lanes)), fold_expr(mul(pieces, lanes))
    under, beside = fold_expr(sub(height, done)), fold_expr(sub(length, across))
    return seq(
        (
            loop("d", blocks, lambda d: loop("a", pieces, lambda a: block(d, a))),
            loop(
                "a", beside, lambda a: loop("d", done, lambda d: store_element(d, add(across, a)))
            ),
            loop("d", under, lambda d: loop("a", length, lambda a: store_element(add(done, d), a))),
        )
    )


def _count_left(axis: Axis, first: PrimExpr, most: int) -> PrimExpr:
    if axis.size is not None and axis.size % most == 0:
        return imm64(most)
    return fold_expr(Min(imm64(most), sub(axis.extent, first)))


def _block(found: _Transpose, row: _Place, first: PrimExpr, start: PrimExpr) -> Stmt:
    """Load a block along ``down``, transpose it in registers, and store it along ``across``."""
    stage, lanes = found.stage, found.lanes
    tiles = [
        scratch(load.buffer.name, (lanes * lanes,), load.dtype, "local") for load in found.loads
    ]

    def put(k: int) -> Stmt:
        load = found.loads[k]
        rows: list[PrimExpr] = []
        for i in range(lanes):
            place = {**row, found.down.var: first, found.across.var: add(start, imm64(i))}
            *indices, last = (value_at(index, place) for index in load.indices)
            rows.append(BufferLoad(load.buffer, (*indices, ramp(last, lanes))))

        def keep(columns: Sequence[PrimExpr]) -> Stmt:
            return seq(
                BufferStore(tiles[k], column, (ramp(imm64(j * lanes), lanes),))
                for j, column in enumerate(columns)
            )

        return transpose_in_registers(rows, keep)

    def store(j: int) -> Callable[[PrimExpr], Stmt]:
        def lane(x: PrimExpr) -> Stmt:
            names = {id(load): k for k, load in enumerate(found.loads)}

            def read_tile(load: BufferLoad) -> PrimExpr:
                k = names.get(id(load))
                return load if k is None else BufferLoad(tiles[k], (add(imm64(j * lanes), x),))

            place = {**row, found.down.var: add(first, imm64(j)), found.across.var: add(start, x)}
            value = value_at(rewrite(stage.value, {BufferLoad: read_tile}), place)
            return BufferStore(
                stage.buffer, value, tuple(value_at(i, place) for i in stage.indices)
            )

        return lane

    stores = [vectorize("lane", lanes, store(j)) for j in range(lanes)]
    puts = [put(k) for k in range(len(found.loads))]
    return allocate(tiles, *puts, *stores)
