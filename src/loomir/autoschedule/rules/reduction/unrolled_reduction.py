"""Write out reductions of few terms whose reads have borders, so that loops are split at these.

Windows that wrap around, that repeat the last element, or that leave out terms are such. Written
out, each term is read where it is within the borders, and terms that are never there are gone. The
terms are combined in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import product
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, fold_expr, imm64, mul, sub
from loomir.autoschedule.builders.evaluate import storage_order, value_at
from loomir.autoschedule.builders.reduction_ops import accumulate
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.autoschedule.rewrite.forward_copies import compute_at
from loomir.autoschedule.rules.elementwise.elementwise import plan_elementwise
from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Call, IntImm, Let, Max, Min, PrimExpr, Var

__all__ = ["plan_written_out"]

_MOST_TERMS: Final = 32
"""The most terms of a reduction that is unrolled: each gets ranges and code of its own."""
_MOST_NODES: Final = 1024
"""Nodes of all terms."""
_COMBINES: Final = (
    Combine.SUM,
    Combine.PROD,
    Combine.MAX,
    Combine.MIN,
    Combine.LAST_MAX,
    Combine.LAST_MIN,
)

InnerBuffers = Callable[[int], AbstractSet[Buffer]]


def plan_written_out(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int] | None:
    """Plan a reduction of few terms with borders, and what reads each of its results at once."""
    first = stages[0]
    if not _has_few_terms(first) or not _has_borders(first):
        return None
    both = None
    if len(stages) > 1 and first.buffer in inner(2):
        both = _with_reader(first, stages[1])
    stage, count = (_write_out(first), 1) if both is None else (both, 2)
    plan = plan_elementwise(stage, target)
    if plan is None:
        return None
    how = f"{_terms(first)} terms are written out"
    return replace(plan, choices=(how, *plan.choices)), count


def _terms(stage: Stage) -> int:
    terms = 1
    for axis in stage.reduced:
        terms *= _MOST_TERMS + 1 if axis.size is None else axis.size
    return terms


def _has_few_terms(stage: Stage) -> bool:
    if stage.combine not in _COMBINES or stage.buffer.dtype.lanes != 1 or not stage.reduced:
        return False
    nodes = sum(map(len, by_class(stage.value).values()))
    return 1 < _terms(stage) <= _MOST_TERMS and _terms(stage) * nodes <= _MOST_NODES


def _has_borders(stage: Stage) -> bool:
    """Whether reads along the last axis in memory depend on places, not on what is read."""
    placed = [axis for axis in storage_order(stage) if axis.size != 1]
    if not placed:
        return False
    across, axes = placed[-1], (*stage.axes, *stage.reduced)
    found = by_class(stage.value)
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    if not all(_lies_along(load, across) for load in loads):
        return False
    calls: list[Call] = found.get(Call, [])
    if any(call.op is IF_THEN_ELSE and not _reads(call.args[0]) for call in calls):
        return True
    return any(affine_form(index, axes) is None for load in loads for index in load.indices)


def _lies_along(load: BufferLoad, across: Axis) -> bool:
    """Whether a load is no look-up, and moves with the axis by its last index only."""
    *outer, last = load.indices or (imm64(0),)
    if load.dtype.lanes != 1 or any(map(_reads, load.indices)):
        return False
    along = affine_form(last, (across,))
    if along is not None and along.terms.get(across.var, 1) != 1:
        return False
    return not any(across.var in by_class(index).get(Var, ()) for index in outer)


def _reads(value: PrimExpr) -> bool:
    found = by_class(value)
    return BufferLoad in found or Let in found


def _write_out(stage: Stage) -> Stage:
    """Return a stage whose value is all terms, combined one after the other."""
    total = stage.init
    if total is None:
        total = BufferLoad(stage.buffer, stage.indices)
    simplified = _index_simplifier(stage.axes)
    steps = [range(axis.size or 0) for axis in stage.reduced]
    for place in product(*steps):
        known = {axis.var: imm64(k) for axis, k in zip(stage.reduced, place)}
        term = rewrite(fold_expr(value_at(stage.value, known)), {BufferLoad: simplified})
        total = accumulate(stage.combine, total, term)
    return replace(
        stage,
        reduced=(),
        value=total,
        combine=Combine.NONE,
        init=None,
        in_place=stage.init is None,
        block=None,
    )


def _index_simplifier(axes: Sequence[Axis]) -> Callable[[BufferLoad], BufferLoad]:
    """Return what drops clamps of indices that no place of a stage reaches."""
    made: dict[int, list[tuple[PrimExpr, PrimExpr]]] = {}

    def clamp(e: Max | Min) -> PrimExpr:
        """Keep one operand where no place reaches the other, also of a clamp that is clamped."""
        if _bounds(e, e.a, e.b, axes):
            return e.a
        if _bounds(e, e.b, e.a, axes):
            return e.b
        inner = e.a
        if isinstance(inner, Max | Min) and type(inner) is not type(e):
            return inner if all(_bounds(e, x, e.b, axes) for x in (inner.a, inner.b)) else e
        return e

    def simplify(index: PrimExpr) -> PrimExpr:
        found = by_class(index)
        if not (Max in found or Min in found):
            return index
        known = made.setdefault(structural_hash(index), [])
        for before, after in known:
            if structural_equal(before, index):
                return after
        after = rewrite(index, {Max: clamp, Min: clamp})
        known.append((index, after))
        return after

    return lambda e: BufferLoad(e.buffer, tuple(map(simplify, e.indices)), span=e.span)


def _bounds(clamp: Max | Min, kept: PrimExpr, other: PrimExpr, axes: Sequence[Axis]) -> bool:
    """Whether an operand of a clamp is seen to be its value at all places of axes."""
    one, two = affine_form(kept, axes), affine_form(other, axes)
    if one is None or two is None:
        return False
    gap = one.plus(two, -1) if isinstance(clamp, Max) else two.plus(one, -1)
    least = gap.rest
    for axis in axes:
        factor = min(gap.terms.get(axis.var, 0), 0)
        least = add(least, mul(imm64(factor), sub(axis.extent, imm64(1))))
    # Where there are places, each axis takes a value.
    facts = Analyzer()
    gaps = [least, *(sub(least, sub(axis.extent, imm64(1))) for axis in axes)]
    found = map(facts.simplify, gaps)
    return any(isinstance(gap, IntImm) and gap.value >= 0 for gap in found)


def _with_reader(stage: Stage, reader: Stage) -> Stage | None:
    """Write out a reduction in the stage that reads each of its results; None if it can't be."""
    if reader.combine is not Combine.NONE or reader.in_place:
        return None
    if stage.reads() & {id(reader.buffer.data)} or Let in by_class(reader.value):
        return None
    loads: list[BufferLoad] = by_class(reader.value).get(BufferLoad, [])
    own = [load for load in loads if load.buffer.data is stage.buffer.data]
    if not own or not all(structural_equal(load, own[0]) for load in own):
        return None
    made = compute_at(stage, own[0], reader)
    if made is None:
        return None
    total = Var("total", stage.buffer.dtype)
    body = rewrite(reader.value, {BufferLoad: lambda e: total if _is_of(e, stage.buffer) else e})
    whole = _write_out(made)
    return replace(whole, value=Let(total, whole.value, body))


def _is_of(load: BufferLoad, buffer: Buffer) -> bool:
    return load.buffer.data is buffer.data
