"""Read a conditional update, ``if v > top: top = v``, as a reduction by comparison.

For integers this is a maximum. For floats it is a combiner of its own (``Combine.GREATER``), since
it skips NaN, which a maximum would propagate.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.autoschedule.ir.stage import Combine
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import GE, GT, LE, LT, Call, CmpOp, PrimExpr, Select
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt

__all__ = ["Choice", "as_choice", "read_choice", "split_choice"]

_COMBINES: Final[dict[type, Combine]] = {
    GT: Combine.GREATER,
    GE: Combine.NOT_LESS,
    LT: Combine.LESS,
    LE: Combine.NOT_GREATER,
}
"""The combiner, by the comparison of the term with the element that makes it replace that."""
_MIRRORED: Final[dict[type, type]] = {GT: LT, GE: LE, LT: GT, LE: GE}
_OF_INTEGERS: Final = {
    Combine.GREATER: Combine.MAX,
    Combine.NOT_LESS: Combine.MAX,
    Combine.LESS: Combine.MIN,
    Combine.NOT_GREATER: Combine.MIN,
}


class Choice(NamedTuple):
    """The parts of ``T.Select`` or ``T.if_then_else``."""

    condition: PrimExpr
    taken: PrimExpr
    other: PrimExpr


def read_choice(value: PrimExpr) -> Choice | None:
    """Read a choice between two values; None for other expressions."""
    if isinstance(value, Select):
        return Choice(value.condition, value.true_value, value.false_value)
    if isinstance(value, Call) and value.op is IF_THEN_ELSE:
        return Choice(*value.args)
    return None


def as_choice(stmt: Stmt) -> Stmt:
    """Turn ``if v > x[i]: x[i] = v`` into an unconditional store of a select."""
    if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
        return stmt
    store, condition = stmt.then_case, stmt.condition
    if not isinstance(store, BufferStore) or store.value.dtype.lanes != 1:
        return stmt
    own = BufferLoad(store.buffer, store.indices)
    if type(condition) not in _COMBINES or not isinstance(condition, CmpOp):
        return stmt
    if not _are_two(condition, store.value, own):
        return stmt
    value = Select(condition, store.value, own, span=stmt.span)
    return BufferStore(store.buffer, value, store.indices, span=store.span)


def split_choice(store: BufferStore) -> tuple[Combine, PrimExpr] | None:
    """Return the combiner and the term of a select that is stored; None for other values."""
    value = store.value
    choice = read_choice(value)
    if choice is None:
        return None
    condition, taken, kept = choice
    own = BufferLoad(store.buffer, store.indices)
    if not structural_equal(kept, own) or value.dtype.lanes != 1:
        return None
    if not isinstance(condition, CmpOp) or not _are_two(condition, taken, own):
        return None
    kind = type(condition)
    if structural_equal(condition.a, own):
        kind = _MIRRORED.get(kind, kind)
    combine = _COMBINES.get(kind)
    loads: list[BufferLoad] = by_class(taken).get(BufferLoad, [])
    if combine is None or any(load.buffer.data is store.buffer.data for load in loads):
        return None
    if value.dtype.is_integer and not value.dtype.is_bool:
        combine = _OF_INTEGERS[combine]
    elif not value.dtype.is_float:
        return None
    return combine, taken


def _are_two(condition: CmpOp, one: PrimExpr, other: PrimExpr) -> bool:
    """Whether the condition compares these two expressions, in either order."""
    pair = (condition.a, condition.b)
    return any(
        structural_equal(a, one) and structural_equal(b, other) for a, b in (pair, pair[::-1])
    )
