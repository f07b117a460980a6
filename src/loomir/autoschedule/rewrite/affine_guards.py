"""Read the guards of padded reads: for each axis, the range in which an affine condition holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loomir.arith.fold import add, fold_expr, imm64, sub
from loomir.arith.linear_form import LinearForm, read_linear_form
from loomir.autoschedule.ir.stage import Axis
from loomir.ir.visit import by_class, rewrite
from loomir.loops.conditions import conjunction, conjuncts
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Call,
    FloorDiv,
    Max,
    Min,
    PrimExpr,
    Var,
)

__all__ = [
    "PaddingGuards",
    "affine_form",
    "guard_form",
    "read_padding_guards",
]

_GREATER: Final = (GE, GT)
_TESTS: Final = (GE, GT, LE, LT)


def affine_form(expr: PrimExpr, axes: Sequence[Axis]) -> LinearForm[Var] | None:
    """Read an int64 expression as a linear form of axes; None if it is not affine."""
    return read_linear_form(expr, (axis.var for axis in axes))


class PaddingGuards:
    """The conditions of a value, each on one axis and reduced axes.

    ``inside`` gives from where to where along an axis all conditions on it hold, at each step of
    the reduction.
    """

    def __init__(
        self,
        value: PrimExpr,
        tests: Mapping[int, Var],
        inside: Mapping[Var, tuple[PrimExpr, PrimExpr]],
    ) -> None:
        self.value = value
        self.inside = inside
        self._tests = tests

    def drop_known(self, known: Callable[[Var], bool]) -> PrimExpr:
        """Return the value without the conditions on axes that are known to be inside."""

        def choice(e: Call) -> PrimExpr:
            if e.op is not IF_THEN_ELSE:
                return e
            left = [
                part
                for part in conjuncts(e.args[0])
                if id(part) not in self._tests or not known(self._tests[id(part)])
            ]
            if not left:
                return e.args[1]
            return Call(e.dtype, e.op, (conjunction(left), *e.args[1:]), span=e.span)

        return rewrite(self.value, {Call: choice})


def read_padding_guards(
    value: PrimExpr, axes: Sequence[Axis], reduced: Sequence[Axis]
) -> PaddingGuards | None:
    """Read the conditions of a value; None if one is of another kind."""
    calls: list[Call] = by_class(value).get(Call, [])
    tests: dict[int, Var] = {}
    inside: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
    extents = {axis.var: axis for axis in axes}
    steps = {axis.var: axis for axis in reduced}
    for call in calls:
        if call.op is not IF_THEN_ELSE:
            continue
        for part in conjuncts(call.args[0]):
            form = guard_form(part, (*axes, *reduced))
            if form is None:
                return None
            own = [var for var in form.terms if var in extents]
            if len(own) != 1:
                return None
            low = form.rest
            for var, times in form.terms.items():
                if var in steps and times < 0:
                    low = add(low, imm64(times * ((steps[var].size or 1) - 1)))
            axis = extents[own[0]]
            start, end = inside.get(axis.var, (imm64(0), axis.extent))
            times = form.terms[axis.var]
            if times > 0:  # times * axis + low >= 0
                start = Max(start, sub(imm64(0), FloorDiv(low, imm64(times))))
            else:
                end = Min(end, add(FloorDiv(low, imm64(-times)), imm64(1)))
            inside[axis.var] = fold_expr(start), fold_expr(end)
            tests[id(part)] = axis.var
    for var, (start, end) in inside.items():
        low = fold_expr(Min(start, extents[var].extent))
        inside[var] = low, fold_expr(Max(low, end))
    return PaddingGuards(value, tests, inside)


def guard_form(part: PrimExpr, axes: Sequence[Axis]) -> LinearForm[Var] | None:
    """Write a comparison as a linear form that is not negative exactly if it holds."""
    if not isinstance(part, _TESTS):
        return None
    a, b = affine_form(part.a, axes), affine_form(part.b, axes)
    if a is None or b is None:
        return None
    made = a.plus(b, -1) if isinstance(part, _GREATER) else b.plus(a, -1)
    if isinstance(part, (GT, LT)):
        made = LinearForm(made.terms, sub(made.rest, imm64(1)))
    return made
