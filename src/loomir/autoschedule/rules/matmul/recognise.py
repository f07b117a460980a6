"""Recognise a matrix product (GEMM) in a stage, and find its row, column, batch and reduced axes.

Later stages that use each element of the result by itself become its epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from loomir.arith.fold import fold_node, imm64
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.ir.stage import Axis, Combine, Stage, has_zero_trip_case
from loomir.autoschedule.rules.matmul.collapse_axes import Views, collapse_axes
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import Rule, by_class, rewrite
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Add, Cast, FloatImm, FloorDiv, IntImm, Mul, PrimExpr, Sub, Var, cast

__all__ = [
    "Contraction",
    "find_epilogue",
    "has_overlap",
    "is_zero",
    "recognise",
    "swap_to_channel_columns",
]

_FLOAT32: Final = DataType("float32")


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """``result[b, rows, columns] += left[b, rows, reduced] * right[b, reduced, columns]``.

    The columns hold the innermost axis of the result. ``dtype`` is that of the accumulators. Stages
    of ``epilogue`` are element-wise and written by the axes of the product.
    """

    stage: Stage
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    left: PrimExpr
    right: PrimExpr
    dtype: DataType
    epilogue: tuple[Stage, ...]
    cut: Mapping[Var, PrimExpr]
    """Axes of the stage that are split in two here, by those: the groups of a convolution."""
    ordered: bool = False
    """Whether each element adds its terms strictly in order, each product rounded before."""
    by_vector: bool = False
    """Whether one factor is a vector, which gets a row axis of one value here."""
    starts_from_init: bool = False
    """Whether accumulators start from the initial value, which is not added afterwards."""


def recognise(stages: Sequence[Stage], views: Views) -> Contraction | None:
    """Match a stage that sums products, and element-wise stages that use its result."""
    stage = _drop_unit_reductions(stages[0])
    if stage.combine is not Combine.SUM or not stage.reduced:
        return None
    ordered = not stage.free_order and stage.buffer.dtype.is_float
    if ordered and stage.buffer.dtype.bits < 32:
        return None
    if any(axis.size == 0 for axis in (*stage.axes, *stage.reduced)):
        return None
    if _factors(stage.value, stage.buffer.dtype) is None or has_overlap(stages):
        return None
    after = find_epilogue([stage, *stages[1:]])
    if after is None or (after and has_zero_trip_case(stage)):
        return None
    stage, *epilogue = collapse_axes((stage, *after), views)
    factors = _factors(stage.value, stage.buffer.dtype)
    assert factors is not None
    axes, factors, cut = _split_grouped(_sort_by_memory(stage), factors)
    one, other = factors
    outer = {axis.var for axis in axes}
    left, right = _find_vars(one, outer), _find_vars(other, outer)
    batch: list[Axis] = []
    parts: tuple[list[Axis], list[Axis]] = ([], [])
    for axis in axes:
        in_left, in_right = axis.var in left, axis.var in right
        if in_left != in_right:
            parts[in_right].append(axis)
        elif in_left or axis.size == 1:
            batch.append(axis)
        else:
            return None
    rows, columns = parts
    by_vector = bool(rows) != bool(columns)
    if by_vector:
        (columns if rows else rows).append(Axis(Var("row", INDEX), imm64(1)))
    if not rows or not columns:
        return None
    if _find_innermost(axes, rows) > _find_innermost(axes, columns):
        rows, columns, one, other = columns, rows, other, one
    dtype = stage.buffer.dtype
    if dtype.is_float and dtype.bits == 16:
        dtype = _FLOAT32
    return Contraction(
        stage,
        tuple(batch),
        tuple(rows),
        tuple(columns),
        stage.reduced,
        cast(one, dtype),
        cast(other, dtype),
        dtype,
        tuple(epilogue),
        cut,
        ordered,
        by_vector,
        ordered and not _starts_from_zero(stage),
    )


def swap_to_channel_columns(found: Contraction) -> Contraction:
    """Swap the factors of an image product, where vectors of channels are better than of pixels.

    A row of channels is not interrupted by the end of a line.
    """
    many = _count_nonunit(found.columns) > 1 and _count_nonunit(found.reduced) > 1
    if not many or _count_nonunit(found.rows) != 1:
        return found
    return replace(
        found, rows=found.columns, columns=found.rows, left=found.right, right=found.left
    )


def _drop_unit_reductions(stage: Stage) -> Stage:
    """Drop reduced axes of one value, so that indices are as simple as they can be."""
    ones: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in stage.reduced if axis.size == 1}
    rules: dict[type, Rule] = dict.fromkeys((Add, Mul, Sub), fold_node)
    value = rewrite(substitute(stage.value, ones), rules)
    return replace(stage, value=value)


def _factors(value: PrimExpr, dtype: DataType) -> tuple[PrimExpr, PrimExpr] | None:
    """Split a term into its factors; a narrowing cast of their product moves to the factors."""
    if dtype.lanes != 1 or not (dtype.is_float or dtype.is_integer):
        return None
    if isinstance(value, Cast) and isinstance(value.value, Mul):
        product = value.value
        if product.dtype.is_integer and dtype.is_integer and product.dtype.bits >= dtype.bits:
            # Integers wrap: dropping high bits first is the same.
            return cast(product.a, dtype), cast(product.b, dtype)
        return None
    return (value.a, value.b) if isinstance(value, Mul) else None


def _find_vars(expr: PrimExpr, names: Set[Var]) -> set[Var]:
    """Find which of some variables an expression uses."""
    found: list[Var] = by_class(expr).get(Var, [])
    return {var for var in found if var in names}


def _sort_by_memory(stage: Stage) -> list[Axis]:
    """Sort the axes by their place in memory, the innermost last."""
    place = {
        var: i for i, index in enumerate(stage.indices) for var in by_class(index).get(Var, ())
    }
    return sorted(stage.axes, key=lambda axis: place.get(axis.var, -1))


def _find_innermost(order: Sequence[Axis], axes: Sequence[Axis]) -> int:
    """Return the place of the innermost axis of more than one value, -1 where there is none."""
    places = {axis.var: i for i, axis in enumerate(order)}
    return max((places[axis.var] for axis in axes if axis.size != 1), default=-1)


def _count_nonunit(axes: Sequence[Axis]) -> int:
    """Count the axes of more than one value."""
    return sum(axis.size != 1 for axis in axes)


_Pair: TypeAlias = tuple[PrimExpr, PrimExpr]


def _split_grouped(
    axes: list[Axis], factors: _Pair
) -> tuple[list[Axis], _Pair, dict[Var, PrimExpr]]:
    """Split axes that one factor uses only as ``axis // number``: the quotient is a batch axis."""
    made: list[Axis] = []
    cut: dict[Var, PrimExpr] = {}
    for axis in axes:
        names = {axis.var}
        pieces = [axis]
        if all(_find_vars(factor, names) for factor in factors):
            for i in (0, 1):
                step = _quotient(factors[i], axis)
                if step is None:
                    continue
                group = Axis(Var(f"{axis.var.name_hint}_group", INDEX), imm64(step[0]))
                rest = Axis(axis.var, imm64(step[1]))
                whole = Add(Mul(group.var, rest.extent), rest.var)
                divided = _replace_quotients(factors[i], axis.var, group.var)
                moved = substitute(factors[1 - i], {axis.var: whole})
                factors = (divided, moved) if i == 0 else (moved, divided)
                cut[axis.var] = whole
                pieces = [group, rest]
                break
        made += pieces
    return made, factors, cut


def _quotient(factor: PrimExpr, axis: Axis) -> tuple[int, int] | None:
    """Find the extents into which to split an axis that a factor uses only as a quotient."""
    divisions: list[FloorDiv] = by_class(factor).get(FloorDiv, [])
    steps = {e.b.value for e in divisions if e.a is axis.var and isinstance(e.b, IntImm)}
    if len(steps) != 1 or axis.size is None:
        return None
    (step,) = steps
    if (
        step < 1
        or axis.size % step
        or _find_vars(_replace_quotients(factor, axis.var, None), {axis.var})
    ):
        return None
    return axis.size // step, step


def _replace_quotients(factor: PrimExpr, var: Var, by: Var | None) -> PrimExpr:
    """Replace the quotients of a variable by another variable, or by 0."""

    def quotient(e: FloorDiv) -> PrimExpr:
        if e.a is not var or not isinstance(e.b, IntImm):
            return e
        return imm64(0) if by is None else by

    return rewrite(factor, {FloorDiv: quotient})


def has_overlap(stages: Sequence[Stage]) -> bool:
    """Whether a stage reads memory that it or a later stage writes, or reads it by another name."""
    written = {stage.buffer.data: stage.buffer for stage in stages}
    if len(written) != len(stages):
        return True
    done: set[Buffer] = set()
    for stage in stages:
        for value in (stage.value, *([] if stage.init is None else [stage.init])):
            loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
            for load in loads:
                if load.buffer.data in written and load.buffer not in done:
                    return True
        done.add(stage.buffer)
    return False


# -- epilogue ----------------------------------------------------------------------------------
def find_epilogue(stages: Sequence[Stage]) -> tuple[Stage, ...] | None:
    """Rewrite the stages after the first by its axes; None if one is not element-wise."""
    first = stages[0]
    known: dict[Any, tuple[PrimExpr, ...]] = {first.buffer: first.indices}
    made: list[Stage] = []
    for stage in stages[1:]:
        if stage.combine is not Combine.NONE or stage.reduced or stage.buffer in known:
            return None
        table = _match_axes(stage, known, first)
        if table is None:
            return None
        value = substitute(stage.value, table)
        indices = tuple(substitute(index, table) for index in stage.indices)
        made.append(
            Stage(stage.name, first.axes, (), stage.buffer, indices, value, block=stage.block)
        )
        known[stage.buffer] = indices
    return tuple(made)


def _match_axes(
    stage: Stage, known: Mapping[Buffer, tuple[PrimExpr, ...]], first: Stage
) -> dict[Var, PrimExpr] | None:
    """Map the axes of a later stage to axes of the product; None if they do not match."""
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    reads = [load for load in loads if load.buffer in known]
    if not reads:
        return None
    extents = {axis.var: axis.extent for axis in first.axes}
    table: dict[Var, PrimExpr] = {}
    for load in reads:
        for mine, theirs in zip(load.indices, known[load.buffer]):
            var, axis = _index_var(mine), _index_var(theirs)
            if var is not None and axis is not None and var not in table:
                table[var] = axis
    for axis in stage.axes:
        to = table.get(axis.var)
        if to is None and axis.size == 1:
            table[axis.var] = imm64(0)
        elif not isinstance(to, Var) or not structural_equal(extents[to], axis.extent):
            return None
    if len({id(to) for to in table.values() if isinstance(to, Var)}) != sum(
        isinstance(to, Var) for to in table.values()
    ):
        return None
    covered = set(table.values())
    if any(axis.var not in covered and axis.size != 1 for axis in first.axes):
        return None
    for load in reads:
        for mine, theirs in zip(load.indices, known[load.buffer]):
            if not _is_same_index(substitute(mine, table), theirs, first):
                return None
    return table


def _index_var(index: PrimExpr) -> Var | None:
    """Return the variable of an index, which may have a constant offset."""
    if isinstance(index, Add) and isinstance(index.b, IntImm):
        index = index.a
    return index if isinstance(index, Var) else None


def _is_same_index(a: PrimExpr, b: PrimExpr, first: Stage) -> bool:
    """Compare indices, where an axis of one value is 0."""
    zeros: dict[Var, PrimExpr] = {x.var: imm64(0) for x in first.axes if x.size == 1}
    return structural_equal(substitute(a, zeros), substitute(b, zeros))


def _starts_from_zero(stage: Stage) -> bool:
    """Whether an element starts from +0, as accumulators do."""
    init = stage.init
    return isinstance(init, FloatImm) and init.value == 0 and math.copysign(1.0, init.value) > 0


def is_zero(expr: PrimExpr | None) -> bool:
    """Whether an element starts from 0."""
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0
