"""Add up small terms, such as counts of bytes, in few bits, as long as the sums fit.

``n += int32(p[x] > 128)`` adds zeros and ones: 255 vectors of them fit into vectors of bytes, which
hold four times as many as those of int32. Then the bytes are added to the actual sums. Integers
wrap, so the results are the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.autoschedule.ir.stage import Combine, Stage
from loomir.autoschedule.rewrite.narrow_integers import find_narrow
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Cast, IntImm, Let, PrimExpr, Select

__all__ = ["NarrowTerms", "narrow_terms"]

_BYTE: Final = DataType("uint8")
_INT32: Final = DataType("int32")
_LEAST: Final = 16
"""Terms that must fit into a narrow sum, so that it pays to add them to the actual one."""


class NarrowTerms(NamedTuple):
    """The term of a sum in fewer bits, and how many of them can be added up in those."""

    value: PrimExpr
    most: int


def narrow_terms(stage: Stage) -> NarrowTerms | None:
    """Narrow the terms of a sum of what is computed of bytes; None if that does not pay."""
    dtype = stage.buffer.dtype
    if stage.combine is not Combine.SUM or not dtype.is_integer or dtype.bits < 32:
        return None
    found = by_class(stage.value)
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    if not loads or Let in found or any(p.dtype.bits > 8 or p.dtype.lanes != 1 for p in loads):
        return None
    made = _narrow_to_byte(stage.value) or _narrow_to_word(stage.value)
    return made if made is not None and made.most >= _LEAST else None


def _narrow_to_byte(value: PrimExpr) -> NarrowTerms | None:
    """Narrow a truth value, or a choice between small numbers."""
    if isinstance(value, Cast) and value.value.dtype.is_bool:
        return NarrowTerms(Cast(value.value, _BYTE), _BYTE.max_value)
    if not isinstance(value, Select):
        return None
    yes, no = value.true_value, value.false_value
    if not isinstance(yes, IntImm) or not isinstance(no, IntImm) or min(yes.value, no.value) < 0:
        return None
    greatest = max(1, yes.value, no.value)
    if greatest > _BYTE.max_value:
        return None
    narrow = Select(value.condition, IntImm(yes.value, _BYTE), IntImm(no.value, _BYTE))
    return NarrowTerms(narrow, _BYTE.max_value // greatest)


def _narrow_to_word(value: PrimExpr) -> NarrowTerms | None:
    if isinstance(value, Cast) and isinstance(value.value, BufferLoad):
        value = Cast(value.value, _INT32)
    narrow = find_narrow(value)
    if narrow is None:
        return None
    low, high = Bounds().of(value)
    if narrow.dtype.min_value == 0:
        return NarrowTerms(narrow, narrow.dtype.max_value // max(high, 1))
    return NarrowTerms(narrow, narrow.dtype.max_value // max(-low, high, 1))
