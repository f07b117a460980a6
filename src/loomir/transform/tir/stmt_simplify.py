"""Fold what is constant in integers, conditions and loops.

Only rewrites that hold for every value: integers wrap as their dtype does, floats are left alone,
and nothing goes whose evaluation may fail. A division by a constant zero stays as it is, so that
dead code may hold one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.support.dtype import BOOL
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
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
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.op import BREAK_LOOP, CONTINUE_LOOP, IF_THEN_ELSE
from loomir.tir.stmt import AssertStmt, For, IfThenElse, LetStmt, SeqStmt, Stmt, While
from loomir.transform.tir.effects import is_discardable
from loomir.transform.tir.index_math import add, imm, mul, sub, to_int

__all__ = ["NOTHING", "stmt_simplify"]

NOTHING: Final = SeqStmt(())


def truncated(a: int, b: int) -> int:
    """Divide towards zero."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


_FOLD: Final[dict[type, Callable[[int, int], int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: truncated,
    Mod: lambda a, b: a - truncated(a, b) * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    Eq: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}
_TESTS: Final = frozenset({Eq, NE, LT, LE, GT, GE})
_DIVIDE: Final = frozenset({Div, Mod, FloorDiv, FloorMod})
_RING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {Add: add, Sub: sub, Mul: mul}


def _binary(e: Any) -> PrimExpr:
    a, b = e.a, e.b
    kind: Any = e.__class__
    if isinstance(a, IntImm) and isinstance(b, IntImm) and (a.dtype.is_integer or kind in _TESTS):
        if kind in _DIVIDE and b.value == 0:
            return e
        value = int(_FOLD[kind](a.value, b.value))
        return imm(value, e.dtype)
    if not e.dtype.is_integer or not a.dtype.is_integer:
        return e
    if kind in _RING:
        made = _RING[kind](a, b)
        same = type(made) is kind and made.a is a and made.b is b  # type: ignore[attr-defined]
        return e if same else made
    if isinstance(b, IntImm) and b.value == 1:
        if kind in (Div, FloorDiv):
            return a
        if kind in (Mod, FloorMod) and is_discardable(a):
            return imm(0, e.dtype)
    return e


def _truth(e: PrimExpr) -> bool | None:
    return bool(e.value) if isinstance(e, IntImm) else None


def _and(e: And) -> PrimExpr:
    left, right = _truth(e.a), _truth(e.b)
    if left is not None:
        return e.b if left else e.a
    return e.a if right else e


def _or(e: Or) -> PrimExpr:
    left, right = _truth(e.a), _truth(e.b)
    if left is not None:
        return e.a if left else e.b
    return e.a if right is False else e


def _not(e: Not) -> PrimExpr:
    value = _truth(e.a)
    return e if value is None else imm(not value, BOOL)


def _select(e: Select) -> PrimExpr:
    condition = _truth(e.condition)
    if condition is None or e.condition.dtype.lanes != 1:
        return e
    kept, other = e.true_value, e.false_value
    if not condition:
        kept, other = other, kept
    return kept if is_discardable(other) else e


def _cast(e: Cast) -> PrimExpr:
    source, target = e.value.dtype, e.dtype
    if source is target:
        return e.value
    if isinstance(e.value, IntImm) and target.is_bool:
        return imm(e.value.value != 0, BOOL)
    if source.is_integer and target.is_integer:
        made = to_int(e.value, target)
        return e if isinstance(made, Cast) else made
    return e


def _call(e: Call) -> PrimExpr:
    if e.op is IF_THEN_ELSE:
        condition = _truth(e.args[0])
        if condition is not None:
            return e.args[1] if condition else e.args[2]
    return e


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
    **dict.fromkeys(_FOLD, _binary),
    And: _and,
    Or: _or,
    Not: _not,
    Select: _select,
    Cast: _cast,
    Call: _call,
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
