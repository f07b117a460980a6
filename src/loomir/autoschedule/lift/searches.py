"""Split a search for an element and its index, ``if v > top: top, at = v, j``, into two reductions.

The first reduction finds the element, the second one the index: the first index of an equal element
if the comparison is strict, else the last. This reads each row twice, but in vectors; in the search
as written, each comparison waits for the one before.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from loomir.arith.fold import fold_expr, imm
from loomir.autoschedule.lift.search_forms import as_branch, read_index_search
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, of_classes, rewrite
from loomir.loops.dependence import has_own_axis
from loomir.loops.nests import is_rectangular, split_nest, wrap_in_loops
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_var
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Call,
    Cast,
    Eq,
    IntImm,
    Let,
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
_INT64: Final = DataType("int64")


class SplitSearches(NamedTuple):
    """A statement without searches, and memory that it has for itself."""

    stmt: Stmt
    buffers: tuple[Buffer, ...]


class _Search(NamedTuple):
    """Loops that keep an element (``top``) and its index if a condition holds.

    ``around`` are loops of the same nest, each iteration of which has its own element; they may be
    inside of the others in the program.
    """

    around: tuple[For, ...]
    loops: tuple[For, ...]
    condition: GT | GE | LT | LE
    value: BufferLoad
    top: BufferStore
    at: BufferStore
    start: BufferStore | None = None
    """What fills the memory of the element, if the program keeps an index only."""


def split_searches(stmt: Stmt, names: Sequence[Buffer] = ()) -> SplitSearches | None:
    """Split the searches of a statement; None if there are none.

    ``names`` is memory that names of values became.
    """
    nodes = by_class(stmt)
    if nodes.keys().isdisjoint((IfThenElse, Select, Call)):
        return None
    reads: list[BufferLoad] = nodes.get(BufferLoad, [])
    named = {id(buffer.data) for buffer in names}
    found: dict[int, _Search] = {}
    inside: set[int] = set()
    for loop in of_classes(stmt, For):  # outer loops before those in them
        search = None if id(loop) in inside else _read(loop, named, reads)
        if search is not None:
            found[id(loop)] = search
            inside |= {id(inner) for inner in (*search.around, *search.loops)}
    buffers: list[Buffer] = []

    def split(loop: For) -> Stmt:
        search = found.get(id(loop))
        return loop if search is None else _split(search, buffers)

    made = rewrite(stmt, {For: split}) if found else stmt
    return SplitSearches(made, tuple(buffers)) if buffers else None


def _read(loop: For, names: Set[int], reads: Sequence[BufferLoad]) -> _Search | None:
    nest, body = split_nest(loop)
    start = None
    body = as_branch(body, names, reads) or body
    if len(nest) == 1 and (indexed := read_index_search(nest[0])) is not None:
        start, body = indexed
    if not nest or not isinstance(body, IfThenElse) or body.else_case is not None:
        return None
    around, loops = _divide(nest, body)
    if not loops or not _start_at_numbers(loops) or (len(loops) > 1 and not _have_numbers(loops)):
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
        found = _Search(around, loops, condition, value, top, at, start)
        return found if _is_plain(found) else None
    return None


def _divide(nest: Sequence[For], body: Stmt) -> tuple[tuple[For, ...], tuple[For, ...]]:
    """Divide a nest into loops whose iterations store elements of their own, and the search."""
    stores: list[BufferStore] = by_class(body).get(BufferStore, [])
    own = [loop for loop in nest if has_own_axis(loop.loop_var, [s.indices for s in stores])]
    if not own or not is_rectangular(nest):
        return (), tuple(nest)
    return tuple(own), tuple(loop for loop in nest if loop not in own)


def _start_at_numbers(loops: Sequence[For]) -> bool:
    return all(isinstance(loop.min, IntImm) and loop.min.value >= 0 for loop in loops)


def _have_numbers(loops: Sequence[For]) -> bool:
    """Whether iterations of a nest can be numbered: a constant number of them, in int64."""
    count = 1
    for loop in loops:
        if not isinstance(loop.extent, IntImm) or loop.extent.value <= 0:
            return False
        if not isinstance(loop.min, IntImm) or loop.min.value:
            return False
        count *= loop.extent.value
    return count <= _INT64.max_value


def _is_plain(found: _Search) -> bool:
    """Whether the index follows from the loops' variables, and nothing that is read is changed."""
    top, at, value = found.top, found.at, found.value
    names = {loop.loop_var for loop in found.loops}
    if not _names(at.value, names) or value.dtype.lanes != 1 or not at.buffer.dtype.is_integer:
        return False
    if effects(at.value) or by_class(at.value).keys() & {BufferLoad, Let}:
        return False
    written = {id(top.buffer.data), id(at.buffer.data)}
    loads: list[BufferLoad] = [
        load for i in value.indices for load in by_class(i).get(BufferLoad, [])
    ]
    if any(id(load.buffer.data) in written for load in (value, *loads)):
        return False
    for index in (*top.indices, *at.indices):
        if effects(index) or by_class(index).keys() & {BufferLoad} or _names(index, names):
            return False
    if effects(value) & (Effects.ACTS | Effects.FAILS):
        return False
    return all(any(_names(index, {var}) for index in value.indices) for var in names)


def _names(expr: PrimExpr, names: Set[Var]) -> bool:
    return not names.isdisjoint(by_class(expr).get(Var, ()))


def _split(found: _Search, buffers: list[Buffer]) -> Stmt:
    loops, top, at = found.loops, found.top, found.at
    span, strict = loops[0].span, isinstance(found.condition, _STRICT)
    dtype = _dtype_of_places(loops)
    pos = decl_buffer((1,), dtype, f"{at.buffer.name}_found")
    zero = (imm(0, _INT32),)
    kept, place = BufferLoad(top.buffer, top.indices), BufferLoad(pos, zero)
    nothing = IntImm(dtype.max_value if strict else -1, dtype)
    own = {loop.loop_var: fresh_var(loop.loop_var) for loop in loops}
    value = substitute(found.value, own)
    here: PrimExpr = _cast(own[loops[0].loop_var], dtype)
    for loop in loops[1:]:
        here = here * _cast(loop.extent, dtype) + _cast(own[loop.loop_var], dtype)
    nearest = (Min if strict else Max)(place, Select(Eq(value, kept), here, nothing))
    new = substitute(at.value, _place_of(loops, place))
    changed: PrimExpr = GE(place, IntImm(0, dtype))
    begin: list[Stmt] = []
    buffers.append(pos)
    if found.start is not None:
        begin.append(found.start)
        buffers.append(found.start.buffer)
    if strict:  # an element that only equals the first one takes no place
        old = decl_buffer((1,), top.buffer.dtype, f"{top.buffer.name}_before")
        begin.append(BufferStore(old, kept, zero))
        buffers.append(old)
        sides = (BufferLoad(old, zero), kept)
        if not structural_equal(found.condition.a, kept):
            sides = sides[::-1]
        changed = (GT if isinstance(found.condition, GT) else LT)(*sides)
    last = Select(changed, new, BufferLoad(at.buffer, at.indices))
    element: Stmt = IfThenElse(found.condition, top, None, span=span)
    index: Stmt = BufferStore(pos, nearest, zero)
    for loop in reversed(loops):
        var = loop.loop_var
        element = For(var, loop.min, loop.extent, ForKind.SERIAL, element, span=loop.span)
        index = For(own[var], loop.min, loop.extent, ForKind.SERIAL, index)
    parts = SeqStmt(
        (
            *begin,
            element,
            BufferStore(pos, nothing, zero),
            index,
            BufferStore(at.buffer, last, at.indices, span=at.span),
        ),
        span=span,
    )
    return wrap_in_loops(found.around, parts)


def _cast(e: PrimExpr, dtype: DataType) -> PrimExpr:
    return e if e.dtype is dtype else fold_expr(Cast(e, dtype))


def _place_of(loops: Sequence[For], number: PrimExpr) -> dict[Var, PrimExpr]:
    """Return the loops' variables in the iteration of a number; a single loop's is the number."""
    found: dict[Var, PrimExpr] = {}
    for loop in reversed(loops[1:]):
        extent = _cast(loop.extent, number.dtype)
        found[loop.loop_var] = _cast(number % extent, loop.loop_var.dtype)
        number = number // extent
    found[loops[0].loop_var] = _cast(number, loops[0].loop_var.dtype)
    return found


def _dtype_of_places(loops: Sequence[For]) -> DataType:
    """Choose int32 if all indices fit, so that a vector holds twice as many."""
    last = 1
    for loop in loops:
        if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
            return loop.loop_var.dtype
        last *= loop.min.value + loop.extent.value
    return (
        _INT32
        if last <= _INT32.max_value
        else _INT64
        if len(loops) > 1
        else loops[0].loop_var.dtype
    )
