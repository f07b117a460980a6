"""Element-wise stages that interleave: a short last axis, with inputs contiguous along another one.

An example is an image whose channels come last, made from one plane for each channel. Vectors are
computed along the longer axis, one for each index of the short axis; their lanes are interleaved
before they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loomir.arith.fold import fold_expr, imm, imm64, product
from loomir.autoschedule.builders.evaluate import (
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import INDEX, allocate, scratch, vectorize, with_shape
from loomir.autoschedule.builders.operand_access import ramp
from loomir.autoschedule.builders.register_transpose import bind_all
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import parallelize, task_size
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Call, IntImm, Min, PrimExpr, Shuffle, Var
from loomir.tir.stmt import BufferStore, DeclBuffer, Stmt, seq

__all__ = ["plan_interleaved"]

_MOST: Final = 8
"""Extent of the short axis at most: each vector of the result takes lanes of so many vectors."""

_Place = Mapping[Var, PrimExpr]


def plan_interleaved(stage: Stage, target: Target) -> Plan | None:
    """Plan a stage that interleaves vectors; None for others."""
    found = _axes(stage)
    if found is None or any(axis.size == 0 for axis in stage.axes):
        return None
    outer, down, across = found
    places = across.size or 0
    lanes = target.lanes(max(8, widest(stage.value, stage.buffer.dtype)))
    if not 2 <= places <= min(_MOST, lanes - 1) or (down.size is not None and down.size < lanes):
        return None
    values = [fold_expr(value_at(stage.value, {across.var: imm64(k)})) for k in range(places)]
    if not all(_lies_along(value, stage, down) for value in values):
        return None
    flat = with_shape(stage.buffer, (product(stage.buffer.shape),))

    def vectors(row: _Place, first: PrimExpr, width: int) -> Stmt:
        if width == 1:
            place = {**row, down.var: first}
            return seq(_store(stage, {**place, across.var: imm64(k)}) for k in range(places))
        tile = scratch("places", (places * width,), stage.buffer.dtype, "local")

        def compute(k: int) -> Stmt:
            def lane(x: PrimExpr) -> Stmt:
                value = value_at(values[k], {**row, down.var: first + x})
                return BufferStore(tile, value, (imm64(k * width) + x,))

            return vectorize("lane", width, lane)

        start = _flat_index(stage, {**row, down.var: first, across.var: imm64(0)})
        loads = [BufferLoad(tile, (ramp(imm64(k * width), width),)) for k in range(places)]

        def store(mixed: Sequence[PrimExpr]) -> Stmt:
            return seq(
                BufferStore(flat, value, (ramp(start + imm64(k * width), width),))
                for k, value in enumerate(mixed)
            )

        def mix(parts: list[PrimExpr]) -> Stmt:
            if places & (places - 1) == 0:
                return _zip_pairs([[part] for part in parts], width, store)
            return store([_mix(parts, k, width) for k in range(places)])

        return allocate((tile,), *map(compute, range(places)), bind_all(loads, mix))

    each = time_of(stage.value, stage.buffer.dtype) * places
    chunk = max(1, task_size(each) // lanes) * lanes
    cut = imm(chunk, INDEX)
    pieces = (down.extent + imm(chunk - 1, INDEX)) // cut
    size = min(chunk, down.size or chunk)

    def piece(t: PrimExpr) -> Stmt:
        row, first = unravel_index(t // pieces, outer), (t % pieces) * cut
        length = Min(cut, down.extent - first)
        return seq(strip_mine(first, length, [lanes, 1], lambda i, n: vectors(row, i, n)))

    count = product(axis.extent for axis in outer) * pieces
    stmt, how = parallelize(count, each * size, f"chunks of {size}", piece)
    text = (
        f"{places} vectors of {lanes} along {down.var.name_hint} are mixed before they are stored"
    )
    return Plan("transpose", DeclBuffer(flat, stmt), (text, how))


def _axes(stage: Stage) -> tuple[tuple[Axis, ...], Axis, Axis] | None:
    """Return the outer axes, the longer axis and the short one, which index the last dimensions."""
    if stage.combine is not Combine.NONE or stage.buffer.strides or stage.buffer.dtype.lanes != 1:
        return None
    placed = [axis for axis in storage_order(stage) if axis.size != 1]
    if len(placed) < 2 or len(stage.indices) < 2:
        return None
    down, across = placed[-2:]
    if stage.indices[-1] is not across.var or stage.indices[-2] is not down.var:
        return None
    extent = stage.buffer.shape[-1]
    if not isinstance(extent, IntImm) or extent.value != across.size or stage.in_place:
        return None
    return tuple(a for a in stage.axes if a not in (down, across)), down, across


def _lies_along(value: PrimExpr, stage: Stage, down: Axis) -> bool:
    """Whether each load is contiguous along an axis, or does not depend on it."""
    along = 0
    calls: list[Call] = by_class(value).get(Call, [])
    if any(c.op is IF_THEN_ELSE and down.var in by_class(c.args[0]).get(Var, ()) for c in calls):
        return False
    for load in by_class(value).get(BufferLoad, ()):
        if load.dtype.lanes != 1 or any(BufferLoad in by_class(i) for i in load.indices):
            return False
        named_in = [down.var in by_class(i).get(Var, ()) for i in load.indices]
        if not any(named_in):
            continue
        form = affine_form(load.indices[-1], stage.axes)
        if any(named_in[:-1]) or form is None or form.terms.get(down.var) != 1:
            return False
        along += 1
    return along > 0


def _store(stage: Stage, place: _Place) -> Stmt:
    indices = tuple(value_at(i, place) for i in stage.indices)
    return BufferStore(stage.buffer, fold_expr(value_at(stage.value, place)), indices)


def _flat_index(stage: Stage, place: _Place) -> PrimExpr:
    made: PrimExpr = imm64(0)
    for index, extent in zip(stage.indices, stage.buffer.shape, strict=True):
        made = made * extent + value_at(index, place)
    return fold_expr(made)


def _zip_pairs(
    runs: list[list[PrimExpr]], width: int, store: Callable[[Sequence[PrimExpr]], Stmt]
) -> Stmt:
    """Merge runs of vectors in pairs until one is left: CPUs shuffle two vectors at once."""
    if len(runs) == 1:
        return store(runs[0])
    half, int32 = len(runs) // 2, DataType("int32")
    lanes = [IntImm(n, int32) for k in range(width) for n in (k, width + k)]
    pairs = [pair for a, b in zip(runs[:half], runs[half:]) for pair in zip(a, b)]
    made = [Shuffle(p, tuple(part)) for p in pairs for part in (lanes[:width], lanes[width:])]
    size = 2 * len(runs[0])

    def merge(names: list[PrimExpr]) -> Stmt:
        left = [names[k * size : (k + 1) * size] for k in range(half)]
        return _zip_pairs(left, width, store)

    return bind_all(made, merge)


def _mix(parts: list[PrimExpr], number: int, width: int) -> PrimExpr:
    """Return one of the vectors into which the elements of all parts are interleaved."""
    elements = [divmod(number * width + lane, len(parts)) for lane in range(width)]
    int32 = DataType("int32")
    lanes = tuple(IntImm(part * width + place, int32) for place, part in elements)
    return Shuffle(tuple(parts), lanes)
