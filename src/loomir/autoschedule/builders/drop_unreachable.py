"""Remove loops and branches that would access what is outside of an array, and so never run.

Programs access nothing outside of arrays. Where loops are unrolled and axes have known sizes,
constant indices appear in branches whose conditions, which still depend on other axes, never hold.
"""

from __future__ import annotations

from typing import Any, Final

from loomir.ir.visit import fold, rewrite
from loomir.tir.analysis.constant_index import outside
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import And, Call, Or, PrimExpr, Select
from loomir.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt, While

__all__ = ["drop_unreachable", "is_outside"]

_NOTHING: Final = SeqStmt(())
_MAY_SKIP: Final = (For, While, IfThenElse, And, Or, Select)
"""Nodes of which some parts may not be evaluated, besides ``T.if_then_else``."""


def is_outside(access: BufferLoad | BufferStore) -> bool:
    """Whether a constant index of an access is outside of its axis."""
    return outside(access.buffer, access.indices, None, "") is not None


def drop_unreachable(stmt: Stmt) -> Stmt:
    """Remove parts that access what is outside of an array whenever they run."""
    return rewrite(stmt, {Call: _choice, For: _loop, While: _loop, IfThenElse: _branch})


def _leaves_arrays(part: PrimExpr | Stmt) -> bool:
    """Tell whether an access is outside of its array whenever a part runs."""

    def node(e: Any, parts: list[bool]) -> bool:
        if isinstance(e, (BufferLoad, BufferStore)):
            return any(parts) or is_outside(e)
        if isinstance(e, _MAY_SKIP) or (isinstance(e, Call) and e.op is IF_THEN_ELSE):
            return False
        return any(parts)

    return fold(part, node)


def _choice(e: Call) -> PrimExpr:
    if e.op is not IF_THEN_ELSE or not is_discardable(e.args[0]):
        return e
    _, yes, no = e.args
    if _leaves_arrays(yes):
        return no
    return yes if _leaves_arrays(no) else e


def _loop(s: For | While) -> Stmt:
    return _NOTHING if _leaves_arrays(s.body) else s


def _branch(s: IfThenElse) -> Stmt:
    yes, no = s.then_case, s.else_case
    if _leaves_arrays(yes):
        yes = _NOTHING
    if no is not None and _leaves_arrays(no):
        no = None
    if yes is s.then_case and no is s.else_case:
        return s
    return IfThenElse(s.condition, yes, no, span=s.span)
