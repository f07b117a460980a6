"""Fold constants in integer expressions, conditions and loops.

Quotients, minima and comparisons are also simplified by the ranges of loop variables, but only if
that makes them cheaper: sums and products keep the form in which they were written.

Every rewrite is exact: integers wrap as their dtype does, floats are not reassociated, and nothing
that may fail is removed. A division by a constant zero stays, so that dead code may contain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from loomir.arith import Analyzer
from loomir.arith.fold import FOLDS, fold_node
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, nodes_outside, of_classes, pre_order, rewrite
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Call,
    Cast,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import AssertStmt, For, IfThenElse, LetStmt, SeqStmt, Stmt, While
from loomir.transform.tir.known_variables import make_analyzer

__all__ = ["NOTHING", "stmt_simplify"]

NOTHING: Final = SeqStmt(())


def _truth(e: PrimExpr) -> bool | None:
    return bool(e.value) if isinstance(e, IntImm) else None


def _if(s: IfThenElse) -> Stmt:
    condition = _truth(s.condition)
    if condition is None:
        return s
    return s.then_case if condition else s.else_case or NOTHING


def _for(s: For) -> Stmt:
    if isinstance(s.extent, IntImm) and s.extent.value <= 0 and is_discardable(s.min):
        return NOTHING
    return s


def _bind_single_iteration(s: For) -> Stmt:
    if isinstance(s.extent, IntImm) and s.extent.value == 1:
        return LetStmt(s.loop_var, s.min, s.body, span=s.span)
    return _for(s)


def _leaves_loops(calls: list[Call]) -> bool:
    """Tell whether a loop is left early, so that its body needs the loop."""
    return any(call.op is BREAK_LOOP or call.op is CONTINUE_LOOP for call in calls)


def _while(s: While) -> Stmt:
    return NOTHING if _truth(s.condition) is False else s


def _assert(s: AssertStmt) -> Stmt:
    return s.body if _truth(s.condition) else s


_RULES: Final[dict[type, Callable[[Any], Any]]] = {
    **FOLDS,
    IfThenElse: _if,
    For: _for,
    While: _while,
    AssertStmt: _assert,
}


class _Prover:
    """Simplifies single nodes; the analyzer is created, and told the variables, on demand."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._analyzer: Analyzer | None = None
        self._known: dict[tuple[object, ...], PrimExpr | None] = {}

    def simplify(self, e: Any) -> PrimExpr:
        """Return a cheaper expression of the same value, or the same one."""
        made = fold_node(e)
        dtype = e.a.dtype
        if made is not e or not dtype.is_integer or dtype.lanes != 1:
            return made
        # Unrolled code has many equal expressions.
        key = _key(e)
        if key is not None and key in self._known:
            known = self._known[key]
            return e if known is None else known
        if self._analyzer is None:
            self._analyzer = make_analyzer(self._func)
        made = self._analyzer.simplify(e, rules=False)
        if key is not None:
            self._known[key] = None if made is e else made
        return made


_PLAIN: Final = frozenset((Add, Sub, Mul, Min, Max, Eq, NE, LT, LE, GT, GE, Cast))
_MOST_PARTS: Final = 64
"""Parts of the key of an expression; longer ones are not cached."""


def _key(e: PrimExpr) -> tuple[object, ...] | None:
    """Return a key that equal expressions share; None if they are long, or may fail."""
    key: list[object] = []
    for part in pre_order(e):
        kind = part.__class__
        if isinstance(part, IntImm):
            key += (part.value, part.dtype)
        elif kind is Var:
            key.append(id(part))  # the function keeps it alive
        elif kind in _PLAIN and isinstance(part, PrimExpr):
            key += (kind, part.dtype)
        else:
            return None
        if len(key) > _MOST_PARTS:
            return None
    return tuple(key)


_PROVED: Final = (FloorDiv, FloorMod, Div, Mod, Min, Max, Eq, NE, LT, LE, GT, GE)


@register("tir.StmtSimplify", requires={"well_formed"})
def stmt_simplify(func: PrimFunc) -> PrimFunc:
    """Fold constant integers and conditions; replace variables that are bound to constants.

    A loop that runs once becomes a binding of its variable; one that never runs is removed.
    """
    parts = by_class(func.body)
    leaves = _leaves_loops(parts.get(Call, []))
    known: dict[Var, PrimExpr] = {}
    if _may_be_constant(parts):
        binding = (
            of_classes(func.body, Let, LetStmt, For)
            if Let in parts
            else nodes_outside(func.body, PrimExpr)
        )
        known = _constants(binding, leaves)
    rules = {**_RULES, **dict.fromkeys(_PROVED, _Prover(func).simplify)}
    if not leaves:
        rules[For] = _bind_single_iteration

    def drop(s: Any) -> Any:
        return s.body if s.var in known else s

    def run(s: For) -> Stmt:
        return s.body if s.loop_var in known else s

    # Bindings of replaced names are removed first, so that they do not bind the replacements.
    bare = rewrite(func, {LetStmt: drop, Let: drop, For: run}) if known else func
    return rewrite(substitute(bare, known), rules)


def _may_be_constant(parts: Mapping[type[Node], list[Any]]) -> bool:
    """Tell whether ``_constants`` can find anything."""
    loops: list[For] = parts.get(For, [])
    return (
        Let in parts
        or LetStmt in parts
        or any(isinstance(s.extent, IntImm) and s.extent.value == 1 for s in loops)
    )


def _constants(parts: Iterable[Node], leaves: bool) -> dict[Var, PrimExpr]:
    """Find variables whose only value is a constant or another variable."""
    known: dict[Var, PrimExpr] = {}
    for part in parts:
        if isinstance(part, (Let, LetStmt)):
            var, value = part.var, part.value
        elif isinstance(part, For) and isinstance(part.extent, IntImm) and not leaves:
            if part.extent.value != 1:
                continue
            var, value = part.loop_var, part.min
        else:
            continue
        if isinstance(value, Var):
            value = known.get(value, value)
        plain = isinstance(value, (IntImm, Var)) and not value.dtype.is_handle
        if plain and var.dtype is value.dtype:
            known[var] = value
    return known
