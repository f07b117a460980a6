"""Fold what is constant in integers, conditions and loops.

Only rewrites that hold for every value: integers wrap as their dtype does, floats are left alone,
and nothing goes whose evaluation may fail. A division by a constant zero stays as it is, so that
dead code may hold one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.arith.fold import FOLDS
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.tir.effects import is_discardable
from loomir.tir.expr import Call, IntImm, Let, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.op import BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.stmt import AssertStmt, For, IfThenElse, LetStmt, SeqStmt, Stmt, While

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


def _once(s: For) -> Stmt:
    if isinstance(s.extent, IntImm) and s.extent.value == 1:
        return LetStmt(s.loop_var, s.min, s.body, span=s.span)
    return _for(s)


def _leaves_loops(func: PrimFunc) -> bool:
    """Tell whether some loop is left early, so that its body cannot stand alone."""
    return any(
        isinstance(part, Call) and part.op in (BREAK_LOOP, CONTINUE_LOOP)
        for part in pre_order(func.body)
    )


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


@register("tir.StmtSimplify", requires={"well_formed"})
def stmt_simplify(func: PrimFunc) -> PrimFunc:
    """Fold constant integers and conditions; put constants in place of variables bound to them.

    A loop that runs once binds its variable instead, one that never runs goes.
    """
    leaves = _leaves_loops(func)
    known = _constants(func, leaves)
    rules = _RULES if leaves else {**_RULES, For: _once}

    def drop(s: Any) -> Any:
        return s.body if s.var in known else s

    def run(s: For) -> Stmt:
        return s.body if s.loop_var in known else s

    # What binds a name that is replaced goes first, lest it bind the replacement.
    bare = rewrite(func, {LetStmt: drop, Let: drop, For: run}) if known else func
    return rewrite(substitute(bare, known), rules)


def _constants(func: PrimFunc, leaves: bool) -> dict[Var, PrimExpr]:
    """Find variables whose only value is a constant or another variable."""
    known: dict[Var, PrimExpr] = {}
    for part in pre_order(func.body):
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
