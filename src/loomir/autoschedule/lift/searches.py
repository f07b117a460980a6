"""Split a search for an element and its index, ``if v > top: top, at = v, j``, into two reductions.

The first reduction finds the element, the second one the index: the first index of an equal element
if the comparison is strict, else the last. This reads each row twice, but in vectors; in the search
as written, each comparison waits for the one before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.arith.fold import imm
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.support.dtype import DataType
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.analysis.fresh import fresh_var
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Cast,
    Eq,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Select,
    Var,
)
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt

__all__ = ["SplitSearches", "split_searches"]

_STRICT: Final = (GT, LT)
_INT32: Final = DataType("int32")


class SplitSearches(NamedTuple):
    """A statement without searches, and memory that it has for itself."""

    stmt: Stmt
    buffers: tuple[Buffer, ...]


class _Search(NamedTuple):
    """A loop that keeps an element (``top``) and its index if a condition holds."""

    loop: For
    condition: GT | GE | LT | LE
    value: BufferLoad
    top: BufferStore
    at: BufferStore


def split_searches(stmt: Stmt) -> SplitSearches | None:
    """Split the searches of a statement; None if there are none."""
    buffers: list[Buffer] = []

    def split(loop: For) -> Stmt:
        found = _read(loop)
        return loop if found is None else _split(found, buffers)

    made = rewrite(stmt, {For: split}) if IfThenElse in by_class(stmt) else stmt
    return SplitSearches(made, tuple(buffers)) if buffers else None


def _read(loop: For) -> _Search | None:
    body, var = loop.body, loop.loop_var
    if loop.kind is not ForKind.SERIAL or loop.annotations or not isinstance(loop.min, IntImm):
        return None
    if loop.min.value < 0 or not isinstance(body, IfThenElse) or body.else_case is not None:
        return None
    condition, inner = body.condition, body.then_case
    if not isinstance(condition, (GT, GE, LT, LE)) or not isinstance(inner, SeqStmt):
        return None
    stores = [part for part in inner.seq if isinstance(part, BufferStore)]
    if len(stores) != 2 or len(inner.seq) != 2 or stores[0].buffer.data is stores[1].buffer.data:
        return None
    for top, at in (stores, stores[::-1]):
        own = BufferLoad(top.buffer, top.indices)
        sides = [condition.a, condition.b]
        kept = [structural_equal(side, own) for side in sides]
        value = sides[kept.index(False)] if kept.count(True) == 1 else None
        if not isinstance(value, BufferLoad) or not structural_equal(top.value, value):
            continue
        found = _Search(loop, condition, value, top, at)
        return found if _is_plain(found, var) else None
    return None


def _is_plain(found: _Search, var: Var) -> bool:
    """Whether the index is the loop's variable, and the loop changes nothing that it reads."""
    top, at, value = found.top, found.at, found.value
    place = at.value
    while isinstance(place, Cast) and place.dtype.is_integer:
        place = place.value
    if place is not var or value.dtype.lanes != 1 or not at.buffer.dtype.is_integer:
        return False
    written = {id(top.buffer.data), id(at.buffer.data)}
    loads: list[BufferLoad] = [
        load for i in value.indices for load in by_class(i).get(BufferLoad, [])
    ]
    if any(id(load.buffer.data) in written for load in (value, *loads)):
        return False
    for index in (*top.indices, *at.indices):
        if effects(index) or by_class(index).keys() & {BufferLoad} or _names(index, var):
            return False
    return not effects(value) & (Effects.ACTS | Effects.FAILS) and any(
        _names(index, var) for index in value.indices
    )


def _names(expr: PrimExpr, var: Var) -> bool:
    return var in by_class(expr).get(Var, ())


def _split(found: _Search, buffers: list[Buffer]) -> Stmt:
    loop, top, at = found.loop, found.top, found.at
    var, strict = loop.loop_var, isinstance(found.condition, _STRICT)
    dtype = _dtype_of_places(loop)
    pos = decl_buffer((1,), dtype, f"{at.buffer.name}_found")
    zero = (imm(0, _INT32),)
    kept, place = BufferLoad(top.buffer, top.indices), BufferLoad(pos, zero)
    nothing = IntImm(dtype.max_value if strict else -1, dtype)
    own = fresh_var(var)
    value = substitute(found.value, {var: own})
    here = own if own.dtype is dtype else Cast(own, dtype)
    nearest = (Min if strict else Max)(place, Select(Eq(value, kept), here, nothing))
    new = place if dtype is at.buffer.dtype else Cast(place, at.buffer.dtype)
    changed: PrimExpr = GE(place, IntImm(0, dtype))
    begin: list[Stmt] = []
    buffers.append(pos)
    if strict:  # an element that only equals the first one takes no place
        old = decl_buffer((1,), top.buffer.dtype, f"{top.buffer.name}_before")
        begin.append(BufferStore(old, kept, zero))
        buffers.append(old)
        sides = (BufferLoad(old, zero), kept)
        if not structural_equal(found.condition.a, kept):
            sides = sides[::-1]
        changed = (GT if isinstance(found.condition, GT) else LT)(*sides)
    last = Select(changed, new, BufferLoad(at.buffer, at.indices))
    element = IfThenElse(found.condition, top, None, span=loop.span)
    return SeqStmt(
        (
            *begin,
            For(var, loop.min, loop.extent, ForKind.SERIAL, element, span=loop.span),
            BufferStore(pos, nothing, zero),
            For(own, loop.min, loop.extent, ForKind.SERIAL, BufferStore(pos, nearest, zero)),
            BufferStore(at.buffer, last, at.indices, span=at.span),
        ),
        span=loop.span,
    )


def _dtype_of_places(loop: For) -> DataType:
    """Choose int32 if all indices fit, so that a vector holds twice as many."""
    if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
        fits = loop.min.value + loop.extent.value <= _INT32.max_value
        return _INT32 if fits else loop.loop_var.dtype
    return loop.loop_var.dtype
