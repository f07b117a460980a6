"""The fallback rule, which takes any stage: accumulate elements, or vectors of them, in registers.

If arrays are contiguous along the last axis, neighbouring elements form vectors, so that each step
of a reduction loads whole vectors; otherwise elements are scalar. Threads share the elements. The
terms of each element are added in the order of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from loomir.arith.fold import imm, product
from loomir.autoschedule.builders.evaluate import (
    number,
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, unroll, vectorize
from loomir.autoschedule.builders.reduction_ops import accumulate
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage, has_zero_trip_case
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.autoschedule.rewrite.forward_copies import compute_at
from loomir.autoschedule.rules.elementwise.pretranspose import pretranspose
from loomir.autoschedule.rules.reduction.outer_vectorization import RowVectors, vectorize_rows
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Let, PrimExpr, Var
from loomir.tir.stmt import BufferStore, Evaluate, IfThenElse, Stmt

__all__ = ["plan_general", "plan_with_reader"]

_REGISTERS: Final = 4
"""Vector accumulators of a tile: enough to hide the latency of an addition."""
_STEPS: Final = 64
"""Steps of a reduction that are assumed where an extent is dynamic."""

_MOST_STEPS: Final = 32
"""Steps of a reduction that is unrolled, at most; ``_WRITTEN_OUT`` bounds their nodes."""
_WRITTEN_OUT: Final = 512
"""Nodes of an unrolled reduction, at most: a bound on code, which was not tuned."""

_GATHERED: Final = 32
"""Bits of elements from which a vector of them can be gathered."""

_Place = Mapping[Var, PrimExpr]


class _Epilogue(NamedTuple):
    """The epilogue of a sum in a register: a value that loads it, and the dtype of the sum."""

    value: PrimExpr
    sums: Buffer

    def apply(self, total: PrimExpr, place: _Place) -> PrimExpr:
        """Return what is stored."""

        def load_of(load: BufferLoad) -> PrimExpr:
            return total if load.buffer is self.sums else load

        return rewrite(value_at(self.value, place), {BufferLoad: load_of})


_MOST_TERMS: Final = 64
"""Terms of the elements that are written out together: of products of 4 by 4 matrices."""


def plan_general(stage: Stage, target: Target) -> Plan:
    """Plan any stage."""
    if any(axis.size == 0 for axis in (*stage.axes, *(stage.reduced if _may_skip(stage) else ()))):
        return Plan("loops", Evaluate(imm(0, INDEX)), ("there is nothing to compute",))
    plan = _plan(stage, target, None)
    assert plan is not None
    return plan


def _plan(stage: Stage, target: Target, then: _Epilogue | None) -> Plan | None:
    """Plan a stage; None if an epilogue needs results in registers and they are not kept there."""
    placed = [axis for axis in storage_order(stage) if axis.size != 1]
    unit = [axis for axis in stage.axes if axis.size == 1]
    pretransposed = pretranspose(stage, placed, target)
    if pretransposed is not None:
        plan = _plan_neighbours(pretransposed.stage, placed, unit, target, then)
        note = "what is read across it is transposed once, before"
        stmt = allocate((pretransposed.copy,), pretransposed.made, plan.stmt)
        return replace(plan, stmt=stmt, choices=(*plan.choices, note))
    together = _vectorize_outer(stage, placed, target)
    if together is not None:
        return None if then else _rows_at_once(stage, unit, placed, together, _time(stage))
    return _plan_neighbours(stage, placed, unit, target, then)


def plan_with_reader(stage: Stage, reader: Stage, target: Target) -> Plan | None:
    """Plan a reduction with the stage that uses each of its results; None if they do not fit.

    The results are in registers then, and in no buffer.
    """
    if stage.combine is Combine.NONE or reader.combine is not Combine.NONE or reader.in_place:
        return None
    if has_zero_trip_case(stage) or stage.reads() & {id(reader.buffer.data)}:
        return None
    if any(axis.size == 0 for axis in (*stage.axes, *stage.reduced, *reader.axes)):
        return None
    loads: list[BufferLoad] = by_class(reader.value).get(BufferLoad, [])
    own = [load for load in loads if load.buffer.data is stage.buffer.data]
    if not own or not all(structural_equal(load, own[0]) for load in own):
        return None
    made = compute_at(stage, own[0], reader)
    if made is None or Let in by_class(reader.value):
        return None
    return _plan(made, target, _Epilogue(reader.value, stage.buffer))


def _time(stage: Stage) -> float:
    """Estimate the nanoseconds of an element."""
    steps = 1
    for axis in stage.reduced:
        steps *= _STEPS if axis.size is None else axis.size
    return time_of(stage.value, stage.buffer.dtype) * max(steps, 1)


def _plan_neighbours(
    stage: Stage,
    placed: Sequence[Axis],
    unit: Sequence[Axis],
    target: Target,
    then: _Epilogue | None,
) -> Plan:
    """Plan scalar elements, or vectors of neighbours."""
    lanes = target.lanes(max(8, widest(stage.value, stage.buffer.dtype)))
    width = _width(stage, placed[-1], lanes) if placed else 1
    each = _time(stage)
    if width == 1:
        whole, few = _split_few(stage, placed)
        outer = (*unit, *whole)
        count = product(axis.extent for axis in outer)
        each *= prod(axis.size or 1 for axis in few)

        def write_few(t: PrimExpr) -> Stmt:
            return _write_out(stage, unravel_index(t, outer), few, then)

        stmt, how = parallelize(count, each, "elements", write_few)
        text = "elements one by one"
        if few:
            text += ", those of the last axes written out"
        return Plan("reduction", _guard(stage, stmt), (text, how))
    outer, across = (*unit, *placed[:-1]), placed[-1]
    step = imm(width, INDEX)
    pieces = (across.extent + imm(width - 1, INDEX)) // step

    def piece(t: PrimExpr) -> Stmt:
        row = unravel_index(t // pieces, outer)
        first = (t % pieces) * step
        whole = _vector(stage, row, (across.var, first), width, then)
        if across.size is not None and across.size % width == 0:
            return whole
        left = across.extent - first
        rest = loop("rest", left, lambda i: _element(stage, {**row, across.var: first + i}, then))
        return IfThenElse(first + step <= across.extent, whole, rest)

    count = product(axis.extent for axis in outer) * pieces
    stmt, how = parallelize(count, each * width / 2, "pieces", piece)
    along = f"{width} neighbours along {across.var.name_hint} are combined in registers"
    return Plan("reduction", _guard(stage, stmt), (along, how))


def _split_few(stage: Stage, placed: Sequence[Axis]) -> tuple[Sequence[Axis], Sequence[Axis]]:
    """Split off the last axes if their elements are few, so that no place is divided by them."""
    if not _is_short(stage):
        return placed, ()
    steps = prod(axis.size or 1 for axis in stage.reduced)
    count = len(placed)
    while count > 1:
        size = placed[count - 1].size
        if size is None or steps * size > _MOST_TERMS:
            break
        steps *= size
        count -= 1
    return placed[:count], placed[count:]


def _write_out(stage: Stage, place: _Place, few: Sequence[Axis], then: _Epilogue | None) -> Stmt:
    """Write out the elements along some axes."""
    if not few:
        return _element(stage, place, then)
    axis, rest = few[0], few[1:]
    assert axis.size is not None
    return unroll(
        axis.var.name_hint,
        axis.size,
        lambda i: _write_out(stage, {**place, axis.var: i}, rest, then),
    )


def _vectorize_outer(stage: Stage, placed: Sequence[Axis], target: Target) -> RowVectors | None:
    """Choose whether lanes reduce neighbouring elements along the last axis, or along all axes."""
    if stage.combine is Combine.NONE or not placed:
        return None
    ways = [placed[-1:], placed]
    size = placed[-1].size
    if size is not None and size < target.lanes(stage.buffer.dtype.bits):
        ways.reverse()
    for rows in ways:
        found = vectorize_rows(stage, rows, target)
        if found is not None:
            return found
    return None


def _rows_at_once(
    stage: Stage,
    unit: Sequence[Axis],
    placed: Sequence[Axis],
    together: RowVectors,
    each: float,
) -> Plan:
    rows = together.along
    outer = (*unit, *placed[: len(placed) - len(rows)])
    extent = product(axis.extent for axis in rows)
    size = imm(together.rows, INDEX)
    pieces = (extent + imm(together.rows - 1, INDEX)) // size

    def piece(t: PrimExpr) -> Stmt:
        row = unravel_index(t // pieces, outer)
        first = (t % pieces) * size
        return together.tile(first, extent, lambda n: {**row, **unravel_index(n, rows)})

    count = product(axis.extent for axis in outer) * pieces
    stmt, how = parallelize(count, each * together.rows / 4, "pieces", piece)
    return Plan("reduction", _guard(stage, stmt), (together.text, how))


def _may_skip(stage: Stage) -> bool:
    """Whether a result without terms stays unwritten, as a block initialises at the first term."""
    return bool(stage.reduced) and stage.block is not None and stage.block.init is not None


def _guard(stage: Stage, stmt: Stmt) -> Stmt:
    if not _may_skip(stage) or all(axis.size is not None for axis in stage.reduced):
        return stmt
    return IfThenElse(imm(0, INDEX) < product(axis.extent for axis in stage.reduced), stmt)


def _width(stage: Stage, across: Axis, lanes: int) -> int:
    """Choose how many neighbours are vectorised, 1 where arrays are not contiguous."""
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    along = 0
    for load in loads:
        places = [k for k, i in enumerate(load.indices) if across.var in by_class(i).get(Var, ())]
        if places == [len(load.indices) - 1]:
            along += 1
        elif places:
            return lanes if _is_strided(stage, across, lanes) else 1
    if not along and loads and across.var not in by_class(stage.value).get(Var, ()):
        return 1  # neighbours are the same
    size = across.size
    if size is None:
        return 2 * lanes
    if size < lanes:
        return 1
    return min(_REGISTERS, max(1, size // lanes)) * lanes


def _is_strided(stage: Stage, across: Axis, lanes: int) -> bool:
    """Whether all loads have one constant stride along an axis, short enough to share cache lines.

    An example are the coordinates of points. Vectors with a lane for each point then take a third
    of the time of a scalar loop (on a Xeon, Emerald Rapids).
    """
    axes = (*stage.axes, *stage.reduced)
    steps = 1
    for axis in stage.reduced:
        steps *= lanes if axis.size is None else axis.size
    if not 1 < steps < lanes or (across.size is not None and across.size < lanes):
        return False
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    for load in loads:
        forms = [affine_form(index, axes) for index in load.indices]
        if load.dtype.bits < _GATHERED or load.buffer.strides or not all(forms):
            return False
        stride = 0
        for form, extent in zip(forms, load.buffer.shape):
            size = number(extent)
            moved = 0 if form is None else form.terms.get(across.var, 0)
            if size is None and stride:
                return False
            stride = stride * (size or 1) + moved
        if not 0 <= stride <= lanes:
            return False
    return True


def _is_short(stage: Stage) -> bool:
    """Whether a reduction has so few steps that it is unrolled."""
    steps = 1
    for axis in stage.reduced:
        steps *= _MOST_STEPS + 1 if axis.size is None else axis.size
    nodes = sum(map(len, by_class(stage.value).values()))
    return steps <= _MOST_STEPS and steps * nodes <= _WRITTEN_OUT


def _steps(stage: Stage, place: _Place, body: Callable[[_Place], Stmt]) -> Stmt:
    """Run the loops of a reduction around ``body``."""
    written_out = _is_short(stage)

    def inside(k: int, known: _Place) -> Stmt:
        if k == len(stage.reduced):
            return body(known)
        axis = stage.reduced[k]
        if written_out and axis.size is not None:
            name, size = axis.var.name_hint, axis.size
            return unroll(name, size, lambda i: inside(k + 1, {**known, axis.var: i}))
        return loop(
            axis.var.name_hint, axis.extent, lambda i: inside(k + 1, {**known, axis.var: i})
        )

    return inside(0, place)


def _element(stage: Stage, place: _Place, then: _Epilogue | None) -> Stmt:
    """Compute one element."""
    indices = tuple(value_at(i, place) for i in stage.indices)
    if stage.combine is Combine.NONE:
        return BufferStore(stage.buffer, value_at(stage.value, place), indices)
    acc = scratch("acc", (1,), (then.sums if then else stage.buffer).dtype, "local")
    zero = (imm(0, INDEX),)
    start = stage.buffer[indices] if stage.init is None else value_at(stage.init, place)
    assert isinstance(start, PrimExpr)

    def step(known: _Place) -> Stmt:
        value = accumulate(stage.combine, BufferLoad(acc, zero), value_at(stage.value, known))
        return BufferStore(acc, value, zero)

    total: PrimExpr = BufferLoad(acc, zero)
    return allocate(
        (acc,),
        BufferStore(acc, start, zero),
        _steps(stage, place, step),
        BufferStore(stage.buffer, then.apply(total, place) if then else total, indices),
    )


def _vector(
    stage: Stage,
    row: _Place,
    across: tuple[Var, PrimExpr],
    width: int,
    then: _Epilogue | None,
) -> Stmt:
    """Compute neighbours together, from a place on along an axis."""
    along, first = across

    def vectorize_lanes(body: Callable[[PrimExpr, _Place], Stmt], known: _Place) -> Stmt:
        return vectorize("lane", width, lambda x: body(x, {**known, along: first + x}))

    def locate(place: _Place) -> tuple[PrimExpr, ...]:
        return tuple(value_at(i, place) for i in stage.indices)

    buffer = stage.buffer
    if stage.combine is Combine.NONE:
        return vectorize_lanes(
            lambda _, p: BufferStore(buffer, value_at(stage.value, p), locate(p)), row
        )
    sums = buffer if then is None else then.sums
    acc: Buffer = scratch("acc", (width,), sums.dtype, "local")

    def start(x: PrimExpr, place: _Place) -> Stmt:
        init = (
            BufferLoad(buffer, locate(place)) if stage.init is None else value_at(stage.init, place)
        )
        return BufferStore(acc, init, (x,))

    def step(x: PrimExpr, place: _Place) -> Stmt:
        value = accumulate(stage.combine, BufferLoad(acc, (x,)), value_at(stage.value, place))
        return BufferStore(acc, value, (x,))

    def end(x: PrimExpr, place: _Place) -> Stmt:
        total: PrimExpr = BufferLoad(acc, (x,))
        return BufferStore(buffer, then.apply(total, place) if then else total, locate(place))

    return allocate(
        (acc,),
        vectorize_lanes(start, row),
        _steps(stage, row, lambda p: vectorize_lanes(step, p)),
        vectorize_lanes(end, row),
    )
