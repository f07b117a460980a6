"""Index-set splitting and unswitching: remove guards by splitting a loop where they change.

This splits the axis of a stage, whose value is an expression. Loops that were tiled by hand are
statements with a guard around a tile: ``transform/tir/loops/loop_partition.py`` peels those.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Final, NamedTuple

from loomir.arith.fold import add, fold_expr, imm, imm64, mul, sub
from loomir.arith.linear_form import LinearForm
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rewrite.affine_guards import affine_form, guard_form
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.loops.conditions import conjunction, conjuncts
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Call,
    CmpOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    PrimExpr,
    Var,
    const,
)

__all__ = ["IndexRange", "UnswitchedValue", "split_index_set", "unswitch"]

_EDGES: Final = 9
"""Most split points of a loop with constant bounds: each range has code of its own."""
_WRAPS: Final = 2
"""Most places of a loop at which an index wraps around."""
_PARTS: Final = 5
"""Most ranges where split points are known only at run time."""


class IndexRange(NamedTuple):
    """A half-open range of an axis, and the value computed in it."""

    low: PrimExpr
    high: PrimExpr
    value: PrimExpr


def split_index_set(value: PrimExpr, axes: Sequence[Axis], axis: Axis) -> list[IndexRange] | None:
    """Split the index set of an axis at its guards; None if there are none, or too many."""
    found = None if axis.size is None else _split_at_constants(value, axes, axis.var, axis.size)
    return found or _split_at_symbols(value, axes, axis)


def _split_at_constants(
    value: PrimExpr, axes: Sequence[Axis], axis: Var, size: int
) -> list[IndexRange] | None:
    """Split at all conditions, whose order is known."""
    tests: dict[int, LinearForm[Var]] = {}
    for call in by_class(value).get(Call, ()):
        for part in conjuncts(call.args[0]) if call.op is IF_THEN_ELSE else ():
            form = guard_form(part, axes)
            if form is not None and _is_on(form, axis) and isinstance(form.rest, IntImm):
                tests[id(part)] = form
    for load in by_class(value).get(BufferLoad, ()):
        for index in load.indices:
            tests.update(_clamps(index, axes, axis))
    digits = _digits(value, axes, axis, size)
    edges = {0, size}
    for form, divisor in digits.values():
        edges.update(_wraps(form, axis, size, divisor))
    for form in tests.values():
        factor, rest = form.terms[axis], form.constant
        # factor * place + rest >= 0 holds from here on, or until here.
        edge = -(rest // factor) if factor > 0 else rest // -factor + 1
        edges.add(min(max(edge, 0), size))
    if len(edges) == 2 or len(edges) > _EDGES:
        return None

    def decide(low: int) -> PrimExpr:
        def holds(node: PrimExpr) -> bool | None:
            form = tests.get(id(node))
            return None if form is None else form.terms[axis] * low + form.constant >= 0

        def fold_condition(part: CmpOp) -> PrimExpr:
            found = holds(part)
            return part if found is None else const(found, "bool")

        def edge_of(node: Max | Min) -> PrimExpr:
            found = holds(node)
            if found is None:
                return node
            return node.a if found is isinstance(node, Max) else node.b

        def digit(node: FloorDiv | FloorMod) -> PrimExpr:
            if id(node) not in digits:
                return node
            form, divisor = digits[id(node)]
            quotient = (form.terms[axis] * low + form.constant) // divisor
            whole = imm64(quotient)
            return whole if isinstance(node, FloorDiv) else sub(node.a, mul(whole, node.b))

        rules = {
            **dict.fromkeys((GE, GT, LE, LT), fold_condition),
            **dict.fromkeys((Max, Min), edge_of),
            **dict.fromkeys((FloorDiv, FloorMod), digit),
        }
        return fold_expr(rewrite(value, rules))

    places = sorted(edges)
    return [IndexRange(imm(a, INDEX), imm(b, INDEX), decide(a)) for a, b in pairwise(places)]


def _digits(
    value: PrimExpr, axes: Sequence[Axis], axis: Var, size: int
) -> dict[int, tuple[LinearForm[Var], int]]:
    """Find quotients and remainders of places in indices that wrap around once or twice."""
    made: dict[int, tuple[LinearForm[Var], int]] = {}
    for load in by_class(value).get(BufferLoad, ()):
        for index in load.indices:
            found = by_class(index)
            for node in (*found.get(FloorDiv, ()), *found.get(FloorMod, ())):
                form = affine_form(node.a, axes) if isinstance(node.b, IntImm) else None
                if form is None or not _is_on(form, axis) or node.b.value <= 0:
                    continue
                place = LinearForm(form.terms, fold_expr(form.rest))
                if isinstance(place.rest, IntImm) and size > 0:
                    wraps = _wraps(place, axis, size, node.b.value)
                    if len(wraps) <= _WRAPS:
                        made[id(node)] = place, node.b.value
    return made


def _wraps(form: LinearForm[Var], axis: Var, size: int, divisor: int) -> list[int]:
    """List the places from which on a quotient is another one; not all where they are many."""
    factor, rest = form.terms[axis], form.constant
    start = rest // divisor
    end = (factor * (size - 1) + rest) // divisor
    if factor > 0:
        border = range(start + 1, min(end, start + _WRAPS + 1) + 1)
        return [-((rest - q * divisor) // factor) for q in border]
    border = range(start, max(end, start - _WRAPS - 1), -1)
    return [(rest - q * divisor) // -factor + 1 for q in border]


def _clamps(index: PrimExpr, axes: Sequence[Axis], axis: Var) -> dict[int, LinearForm[Var]]:
    """Find clamps (``min``, ``max``) in an index, with the condition for the first operand."""
    made: dict[int, LinearForm[Var]] = {}
    found = by_class(index)
    for node in (*found.get(Max, ()), *found.get(Min, ())):
        form = _difference(node, axes)
        if form is None:
            continue
        rest = fold_expr(form.rest)
        if _is_on(form, axis) and isinstance(rest, IntImm):
            made[id(node)] = LinearForm(form.terms, rest)
    return made


def _is_on(form: LinearForm[Var], axis: Var) -> bool:
    return set(form.terms) == {axis} and form.terms[axis] != 0


class UnswitchedValue(NamedTuple):
    """A loop-invariant condition, and the value where it holds and where it fails."""

    condition: PrimExpr
    holds: PrimExpr
    fails: PrimExpr


def unswitch(value: PrimExpr, run: Set[Var]) -> UnswitchedValue | None:
    """Unswitch a value at a condition that the loops of ``run`` do not change; None without one."""
    moving = {*run, *_find_bound(value)}
    for call in by_class(value).get(Call, ()):
        parts = conjuncts(call.args[0]) if call.op is IF_THEN_ELSE else []
        own = [p for p in parts if not _depends(p, moving)]
        if not own:
            continue
        left = [p for p in parts if _depends(p, moving)]
        first, second = call.args[1:]
        holds = first
        if left:
            holds = Call(
                call.dtype, IF_THEN_ELSE, (conjunction(left), first, second), span=call.span
            )
        return UnswitchedValue(
            conjunction(own), _replace_node(value, call, holds), _replace_node(value, call, second)
        )
    return None


def _depends(part: PrimExpr, moving: Set[Var]) -> bool:
    """Whether a condition may change in the loops, or is only safe to evaluate where it stands."""
    found = by_class(part)
    return BufferLoad in found or Let in found or any(v in moving for v in found.get(Var, ()))


def _find_bound(value: PrimExpr) -> set[Var]:
    """Return the names that a value binds."""
    lets: list[Let] = by_class(value).get(Let, [])
    return {let.var for let in lets}


class _Conditional(NamedTuple):
    """A choice: the range of its first value, the rest of its condition, and both values."""

    node: Call | Max | Min
    low: PrimExpr | None
    high: PrimExpr | None
    rest: tuple[PrimExpr, ...]
    values: tuple[PrimExpr, PrimExpr]


def _split_at_symbols(value: PrimExpr, axes: Sequence[Axis], axis: Axis) -> list[IndexRange] | None:
    """Split at one choice after the other: before it holds, where it holds, and after."""
    pending = [IndexRange(imm64(0), axis.extent, value)]
    made: list[IndexRange] = []
    while pending:
        now = pending.pop()
        choice = _find_choice(now.value, axes, axis.var)
        if choice is None:
            made.append(now)
            continue
        if len(made) + len(pending) >= _PARTS:
            return None
        begin = now.low if choice.low is None else _clamp_to(choice.low, now.low, now.high)
        end = now.high if choice.high is None else _clamp_to(choice.high, begin, now.high)
        first, second = choice.values
        if choice.rest:
            asked = conjunction(choice.rest)
            first = Call(first.dtype, IF_THEN_ELSE, (asked, first, second), span=choice.node.span)
        # The last one is taken next.
        if choice.high is not None:
            pending.append(IndexRange(end, now.high, _replace_node(now.value, choice.node, second)))
        pending.append(IndexRange(begin, end, _replace_node(now.value, choice.node, first)))
        if choice.low is not None:
            pending.append(
                IndexRange(now.low, begin, _replace_node(now.value, choice.node, second))
            )
    return made if len(made) > 1 else None


def _find_choice(value: PrimExpr, axes: Sequence[Axis], axis: Var) -> _Conditional | None:
    """Find a choice whose condition depends on the axis; if choices are nested, any will do."""
    bound = _find_bound(value)
    for call in by_class(value).get(Call, ()):
        low = high = None
        rest: list[PrimExpr] = []
        for part in conjuncts(call.args[0]) if call.op is IF_THEN_ELSE else ():
            form = guard_form(part, axes)
            factor = form.terms[axis] if form is not None and _is_on(form, axis) else 0
            if form is None or factor not in (1, -1) or _depends(form.rest, bound):
                rest.append(part)
            elif factor > 0:  # place + rest >= 0
                edge = sub(imm64(0), form.rest)
                low = edge if low is None else Max(low, edge)
            else:  # rest - place >= 0
                edge = add(form.rest, imm64(1))
                high = edge if high is None else Min(high, edge)
        if low is not None or high is not None:
            return _Conditional(call, low, high, tuple(rest), (call.args[1], call.args[2]))
    return _find_clamp(value, axes, axis, bound)


def _find_clamp(
    value: PrimExpr, axes: Sequence[Axis], axis: Var, bound: Set[Var]
) -> _Conditional | None:
    """Find an index with a clamp, and the value of the axis from which the clamp takes effect."""
    for load in by_class(value).get(BufferLoad, ()):
        for index in load.indices:
            found = by_class(index)
            for node in (*found.get(Max, ()), *found.get(Min, ())):
                form = _difference(node, axes)
                factor = form.terms[axis] if form is not None and _is_on(form, axis) else 0
                if form is None or factor not in (1, -1) or _depends(form.rest, bound):
                    continue
                values = (node.a, node.b) if isinstance(node, Max) else (node.b, node.a)
                low = sub(imm64(0), form.rest) if factor > 0 else None
                high = None if factor > 0 else add(form.rest, imm64(1))
                return _Conditional(node, low, high, (), values)
    return None


def _difference(node: Max | Min, axes: Sequence[Axis]) -> LinearForm[Var] | None:
    """Return the difference of two indices, which is not negative if the first is no less."""
    a, b = affine_form(node.a, axes), affine_form(node.b, axes)
    return None if a is None or b is None else a.plus(b, -1)


def _clamp_to(place: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    return fold_expr(Min(Max(place, low), high))


def _replace_node(value: PrimExpr, node: PrimExpr, by: PrimExpr) -> PrimExpr:
    """Replace a node, and clamps that are equal to it."""

    def replace(e: PrimExpr) -> PrimExpr:
        same = e is node or (isinstance(node, Max | Min) and structural_equal(e, node))
        return by if same else e

    return fold_expr(rewrite(value, {type(node): replace}))
