"""Effects of evaluating an expression: it may read memory, fail, write or jump."""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Final

from loomir.ir.op import Effect, Op
from loomir.ir.visit import fold, pre_order
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import CHECK, CHECKED_INDEX, effect_of
from loomir.tir.expr import (
    Broadcast,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    Var,
)

__all__ = ["Effects", "effects", "is_discardable", "is_nonzero", "reads_memory"]


class Effects(IntFlag):
    """What evaluating an expression may do besides computing a value."""

    NOTHING = 0
    READS = 1
    """It reads memory, so it may give another value at another time."""
    FAILS = 2
    """It may raise: a division by a value that may be zero, a checked index."""
    ACTS = 4
    """It may write, jump, or call what is unknown."""


_OF_CALLS = {
    Effect.EXPR_ANNOTATION: Effects.NOTHING,
    Effect.PURE: Effects.NOTHING,
    Effect.EMBED_INFO: Effects.NOTHING,
    Effect.READ_STATE: Effects.READS,
}
_PURE: Final = frozenset({Effect.PURE, Effect.EXPR_ANNOTATION})


def is_nonzero(divisor: PrimExpr) -> bool:
    """Tell whether a divisor is certainly not zero."""
    value = divisor.value if isinstance(divisor, Broadcast) else divisor
    return isinstance(value, IntImm) and value.value != 0


def effects_of_node(e: Any) -> Effects:
    """Return what one node may do, without its parts."""
    kind = e.__class__
    if kind is BufferLoad:
        return Effects.READS
    if kind in (Div, Mod, FloorDiv, FloorMod):
        return Effects.NOTHING if e.dtype.is_float or is_nonzero(e.b) else Effects.FAILS
    if kind is Call:
        if e.op in (CHECK, CHECKED_INDEX):
            return Effects.FAILS
        if isinstance(e.op, Op):
            return _OF_CALLS.get(e.op.effect, Effects.ACTS | Effects.READS | Effects.FAILS)
        return Effects.ACTS | Effects.READS | Effects.FAILS
    return Effects.NOTHING


def _join(e: Any, parts: list[Effects]) -> Effects:
    found = effects_of_node(e)
    if e.__class__ is Call and effect_of(e) is Effect.EMBED_INFO:
        return found  # its arguments are never evaluated
    for part in parts:
        if part is not Effects.NOTHING:
            found |= part
    return found


def effects(e: PrimExpr) -> Effects:
    """Return what evaluating an expression may do."""
    return fold(e, _join)


def is_discardable(e: PrimExpr) -> bool:
    """Tell whether leaving an expression unevaluated changes nothing but the time it takes."""
    if isinstance(e, (IntImm, Var)):
        return True
    return not effects(e) & (Effects.FAILS | Effects.ACTS)


def reads_memory(expr: PrimExpr) -> bool:
    """Tell whether evaluating an expression again may give another value."""
    return any(
        isinstance(part, BufferLoad) or (isinstance(part, Call) and effect_of(part) not in _PURE)
        for part in pre_order(expr)
    )
