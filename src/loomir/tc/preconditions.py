"""Ensure that accesses stay in bounds: by proof, or by a check before the loops run.

An index that is read from memory is known only when its element is read; such accesses are checked
if the program is compiled with ``check_bounds``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.arith.analyzer import Analyzer
from loomir.ir.substitution import substitute
from loomir.loops.conditions import conjunction
from loomir.support.span import Span
from loomir.tc.mistakes import Mistakes
from loomir.tc.ranges import (
    AxisAccess,
    Interval,
    extremes,
    is_plain,
    linear_of,
    reads_memory,
    variables_in,
)
from loomir.tc.types import INDEX
from loomir.tir.buffer import Range
from loomir.tir.expr import GE, GT, LT, IntImm, Not, Or, PrimExpr, StringImm, Sub, Var
from loomir.tir.stmt import AssertStmt, Evaluate, For, ForKind, IfThenElse, Stmt

__all__ = ["Preconditions", "extent_of", "loops"]

_ZERO = IntImm(0, INDEX)
_OUTSIDE = "it may lie outside"


def extent_of(interval: Interval, analyzer: Analyzer) -> PrimExpr:
    """Return how many values a range has, below 1 where it is empty."""
    if isinstance(interval.start, IntImm) and interval.start.value == 0:
        return interval.stop
    return analyzer.simplify(Sub(interval.stop, interval.start))


def loops(
    variables: Sequence[Var], ranges: Mapping[Var, Interval], analyzer: Analyzer, body: Stmt
) -> Stmt:
    """Put serial loops over variables around a statement."""
    for var in reversed(variables):
        extent = extent_of(ranges[var], analyzer)
        body = For(var, ranges[var].start, extent, ForKind.SERIAL, body, span=var.span)
    return body


class Preconditions:
    """What must hold before the loops of a function run.

    ``asserts`` are conditions on sizes with their texts, ``loops`` statements that check more.
    ``plain`` knows only what holds for every call, not what is checked.
    """

    def __init__(self, plain: Analyzer, mistakes: Mistakes) -> None:
        self.plain, self.analyzer, self.mistakes = plain, Analyzer(), mistakes
        self.asserts: list[tuple[PrimExpr, str, Span | None]] = []
        self.loops: list[Stmt] = []

    def know(self, condition: PrimExpr) -> None:
        """Take a condition as holding."""
        self.analyzer.enter(condition)

    def require(self, condition: PrimExpr, text: str, span: Span | None) -> bool:
        """Prove a condition on sizes, or else check it; return whether it was proved."""
        if self.analyzer.can_prove(condition):
            return True
        self.asserts.append((condition, text, span))
        self.analyzer.enter(condition)  # it holds from here on
        return False

    # -- one statement -----------------------------------------------------------------------------
    def require_access(
        self, access: AxisAccess, variables: Sequence[Var], ranges: Mapping[Var, Interval]
    ) -> None:
        """Ensure that an access stays in bounds while the variables run over their ranges."""
        if access.informs or reads_memory(access.at):
            return
        form = linear_of(access.at, variables)
        if access.guards is None and form is not None:
            least, greatest = extremes(form, ranges)
            if is_plain(self.plain, least) and is_plain(self.plain, greatest):
                self._linear(access, least, greatest, variables, ranges)
                return
        self._pointwise(access, variables, ranges)

    def require_inside(
        self,
        access: AxisAccess,
        interval: Interval,
        variables: Sequence[Var],
        ranges: Mapping[Var, Interval],
    ) -> None:
        """Ensure that a range lies in an axis, unless some range of the statement is empty."""
        last = self.plain.simplify(Sub(interval.stop, IntImm(1, INDEX)))
        if is_plain(self.plain, interval.start) and is_plain(self.plain, last):
            self._linear(access, interval.start, last, variables, ranges)
        else:
            self._pointwise(access, variables, ranges)

    def _linear(
        self,
        access: AxisAccess,
        least: PrimExpr,
        greatest: PrimExpr,
        variables: Sequence[Var],
        ranges: Mapping[Var, Interval],
    ) -> None:
        tests: list[PrimExpr] = [GE(least, _ZERO), LT(greatest, access.size)]
        runs = [LT(ranges[v].start, ranges[v].stop) for v in variables]
        if self._is_certain(runs, tests):
            return
        certain = all(self.plain.can_prove(r) for r in runs)
        if certain and any(self.plain.can_prove(Not(t)) for t in tests):
            self._outside(access)
            return
        analyzer = self.analyzer
        empty = [Not(r) for r in runs if not analyzer.can_prove(r)]
        tests = [analyzer.simplify(t) for t in tests if not analyzer.can_prove(t)] or tests
        condition = conjunction(tests)
        for test in empty:
            condition = Or(condition, analyzer.simplify(test))
        self._warn(access)
        self.asserts.append((condition, self._text(access), access.span))
        analyzer.enter(condition)

    def _is_certain(self, assumed: Sequence[PrimExpr], wanted: Sequence[PrimExpr]) -> bool:
        for condition in assumed:
            self.analyzer.enter(condition)
        try:
            return all(self.analyzer.can_prove(w) for w in wanted)
        finally:
            for _ in assumed:
                self.analyzer.exit()

    def _pointwise(
        self, access: AxisAccess, variables: Sequence[Var], ranges: Mapping[Var, Interval]
    ) -> None:
        tests: list[PrimExpr] = [GE(access.at, _ZERO), LT(access.at, access.size)]
        guards = _list_guards(access.guards)
        known = [g for g in guards if not reads_memory(g)]
        self.analyzer.enter()
        try:
            for var in variables:
                extent = Sub(ranges[var].stop, ranges[var].start)
                self.analyzer.bind(var, Range(ranges[var].start, extent))
            if self._is_certain(known, tests):
                return
        finally:
            self.analyzer.exit()
        self._warn(access, depends=len(known) < len(guards))
        if len(known) < len(guards):
            return
        body: Stmt = AssertStmt(
            conjunction(tests), StringImm(self._text(access)), Evaluate(_ZERO), span=access.span
        )
        if known:
            body = IfThenElse(conjunction(known), body)
        used = variables_in(conjunction([*tests, *known]), variables)
        fresh = {var: Var(var.name_hint, INDEX, span=var.span) for var in used}
        others = [v for v in variables if v not in fresh]
        checked = loops(used, ranges, self.plain, body)
        for var in others:  # nothing is read where another range is empty
            run = GT(extent_of(ranges[var], self.plain), _ZERO)
            if not self.analyzer.can_prove(run):
                checked = IfThenElse(run, checked)
        self.loops.append(_rename_loops(checked, fresh))

    # -- words -------------------------------------------------------------------------------------
    def _text(self, access: AxisAccess) -> str:
        return f"index {access.axis} of {access.name} leaves the tensor"

    def _outside(self, access: AxisAccess) -> None:
        self.mistakes.add(
            "TC0303",
            f"index {access.axis} of {access.name!r} leaves the tensor",
            access.span,
            "whatever the sizes are",
            help="make the range smaller",
        )

    def _warn(self, access: AxisAccess, *, depends: bool = False) -> None:
        if depends:
            how = "whether it is read depends on data, so that only check_bounds=True checks it"
        else:
            how = "the sizes decide, which is checked before the loops run"
        self.mistakes.warn(
            "TC0304",
            f"index {access.axis} of {access.name!r} is not proved to stay inside of the tensor",
            access.span,
            _OUTSIDE,
            notes=(how,),
            help="leave the range to inference, or use the sizes of this tensor in where",
        )


def _list_guards(guards: Any) -> list[PrimExpr]:
    found: list[PrimExpr] = []
    while guards is not None:
        condition, guards = guards
        found.append(condition)
    return found[::-1]


def _rename_loops(statement: Stmt, fresh: Mapping[Var, Var]) -> Stmt:
    """Rename the variable of each loop afresh: a program binds each variable once."""
    wrapped: list[For | IfThenElse] = []
    body = statement
    while isinstance(body, (For, IfThenElse)):
        wrapped.append(body)
        body = body.body if isinstance(body, For) else body.then_case
    made = substitute(body, fresh)
    for outer in reversed(wrapped):
        if isinstance(outer, For):
            var = fresh[outer.loop_var]
            made = For(var, outer.min, outer.extent, outer.kind, made, span=outer.span)
        else:
            condition: PrimExpr = substitute(outer.condition, fresh)
            made = IfThenElse(condition, made, span=outer.span)
    return made
