"""Drop clamps of indices that the condition around a load makes superfluous.

``T.Select(0 <= i - 1, x[T.max(i - 1, 0)], 0)`` reads padding like ``T.if_then_else``, which needs
no clamp. ``T.Select`` needs one only because it evaluates both of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.arith.fold import fold_expr
from loomir.arith.linear_form import LinearForm
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rewrite.affine_guards import affine_form, guard_form
from loomir.ir.visit import Rule, by_class, rewrite
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
    IntImm,
    Let,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
)

__all__ = ["drop_clamps"]

_OPPOSITE: Final[dict[type, Callable[[PrimExpr, PrimExpr], CmpOp]]] = {
    GE: LT,
    GT: LE,
    LE: GT,
    LT: GE,
}


def drop_clamps(value: PrimExpr, axes: Sequence[Axis]) -> PrimExpr:
    """Drop the clamps that conditions on ``axes`` make superfluous in what they guard."""
    found = by_class(value)
    if Let in found or not (Max in found or Min in found):
        return value

    def select(node: Select) -> PrimExpr:
        return _drop_clamp(node, node.condition, node.true_value, node.false_value, axes)

    def call(node: Call) -> PrimExpr:
        if node.op is not IF_THEN_ELSE:
            return node
        condition, one, other = node.args
        return _drop_clamp(node, condition, one, other, axes)

    return rewrite(value, {Select: select, Call: call})


def _drop_clamp(
    node: PrimExpr, condition: PrimExpr, one: PrimExpr, other: PrimExpr, axes: Sequence[Axis]
) -> PrimExpr:
    """Return a choice whose loads have no clamps, if its condition makes them superfluous."""
    for test, guarded, rest in ((condition, one, other), (_negate(condition), other, one)):
        if test is None:
            continue
        forms = [guard_form(part, axes) for part in conjuncts(test)]
        made = _drop_all_clamps(guarded, [form for form in forms if form is not None], axes)
        if made is not guarded:
            return Call(node.dtype, IF_THEN_ELSE, (test, made, rest))
    return node


def _negate(condition: PrimExpr) -> PrimExpr | None:
    """Negate a condition to a conjunction of comparisons; None if it is of another form."""
    if isinstance(condition, Not):
        return condition.a
    parts: list[PrimExpr] = []
    left = [condition]
    while left:
        part = left.pop()
        if isinstance(part, Or):
            left += [part.b, part.a]
        elif isinstance(part, CmpOp) and type(part) in _OPPOSITE:
            parts.append(_OPPOSITE[type(part)](part.a, part.b))
        else:
            return None
    return conjunction(parts)


def _drop_all_clamps(
    value: PrimExpr, known: Sequence[LinearForm[Var]], axes: Sequence[Axis]
) -> PrimExpr:
    """Drop the clamps of all indices in a value; return it as it is where one has to stay."""
    stays = False

    def clamp(node: Max | Min) -> PrimExpr:
        nonlocal stays
        for kept, bound in ((node.a, node.b), (node.b, node.a)):
            one, other = affine_form(kept, axes), affine_form(bound, axes)
            if one is None or other is None or not one.terms or other.terms:
                continue
            gap = one.plus(other, -1) if isinstance(node, Max) else other.plus(one, -1)
            if any(_is_implied(gap, form) for form in known):
                return kept
        stays = True
        return node

    def load(node: BufferLoad) -> PrimExpr:
        indices = tuple(rewrite(index, rules) for index in node.indices)
        if all(a is b for a, b in zip(node.indices, indices)):
            return node
        return BufferLoad(node.buffer, indices, span=node.span)

    rules: dict[type, Rule] = {Max: clamp, Min: clamp}
    made = rewrite(value, {BufferLoad: load})
    return value if stays else made


def _is_implied(gap: LinearForm[Var], known: LinearForm[Var]) -> bool:
    """Whether a form is not negative wherever another one is not."""
    more = gap.plus(known, -1)
    rest = fold_expr(more.rest)
    return not more.terms and isinstance(rest, IntImm) and rest.value >= 0
