"""Evaluate stages at given indices, and estimate the time of an element (the cost model)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loomir.arith.fold import fold_expr, imm
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_var
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.accuracy import SHORT_POWERS
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import BinaryOp, Call, CmpOp, Div, FloatImm, IntImm, Let, PrimExpr, Var

__all__ = [
    "is_cheap_call",
    "number",
    "storage_order",
    "time_of",
    "unravel_index",
    "value_at",
    "widest",
]

_POW: Final = BUILTINS["pow"].op
_LOAD: Final = 0.1
"""Nanoseconds for each byte that is loaded or stored: memory at 10 GB/s."""
_CALL: Final = 0.5
"""Nanoseconds for each element of a math function, in vectors; an estimate."""
_DIVIDE: Final = 0.15
"""The same of a division of floats."""
_OTHER: Final = 0.03
"""The same of any other operation: vectors of 8 floats, several in flight."""


def value_at(expr: PrimExpr, table: Mapping[Var, PrimExpr]) -> PrimExpr:
    """Substitute axes in an expression; its ``Let`` variables are renamed to fresh ones."""
    lets: list[Let] = by_class(expr).get(Let, [])
    if not lets:
        return substitute(expr, table)
    return substitute(expr, {**table, **{let.var: fresh_var(let.var) for let in lets}})


def number(expr: PrimExpr) -> int | None:
    """Return the value of an expression of constants, None for others."""
    made = fold_expr(expr)
    return made.value if isinstance(made, IntImm) else None


def unravel_index(index: PrimExpr, axes: Sequence[Axis]) -> dict[Var, PrimExpr]:
    """Delinearize a flat index into axes, the last axis fastest."""
    found: dict[Var, PrimExpr] = {}
    left = index
    wide = [axis for axis in axes if axis.size != 1]
    for axis in axes:
        if axis.size == 1:
            found[axis.var] = imm(0, INDEX)
    for place, axis in reversed(list(enumerate(wide))):
        if place == 0:
            found[axis.var] = left
        else:
            found[axis.var] = left % axis.extent
            left = left // axis.extent
    return found


def widest(expr: PrimExpr, *others: DataType) -> int:
    """Find the widest element type of a computation, in bits, not counting indices."""
    found = [other.bits for other in others]
    found.append(expr.dtype.bits)
    for cls, parts in by_class(expr).items():
        if issubclass(cls, BufferLoad):
            found += [part.dtype.bits for part in parts]
    return max(found)


def time_of(expr: PrimExpr, stored: DataType) -> float:
    """Estimate the nanoseconds of one element on one core: memory and arithmetic overlap."""
    moved = stored.bits / 8 * _LOAD
    worked = 0.0
    for cls, parts in by_class(expr).items():
        if issubclass(cls, BufferLoad):
            moved += sum(part.dtype.bits / 8 * _LOAD for part in parts)
        elif issubclass(cls, Call):
            worked += sum(_OTHER if is_cheap_call(part) else _CALL for part in parts)
        elif issubclass(cls, Div):
            worked += _DIVIDE * len(parts)
        elif issubclass(cls, (BinaryOp, CmpOp)):
            worked += _OTHER * len(parts)
    return max(moved, worked)


def is_cheap_call(call: Call) -> bool:
    """Whether a call takes few instructions: a choice, or a power with a small exponent."""
    if call.op is IF_THEN_ELSE:
        return True
    by = call.args[-1] if call.op is _POW else None
    return isinstance(by, FloatImm) and by.value in SHORT_POWERS


def storage_order(stage: Stage) -> list[Axis]:
    """List the axes in the order in which the stored buffer has them."""
    place: dict[Var, int] = {}
    for k, index in enumerate(stage.indices):
        for var in by_class(index).get(Var, ()):
            place[var] = k
    return sorted(stage.axes, key=lambda a: place.get(a.var, -1))
