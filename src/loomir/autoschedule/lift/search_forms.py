"""Bring ways to write a search for an element and its index to one: ``if v > top: top, at = v, j``.

Selects of both parts:
    ``g = v > top; top = Select(g, v, top); at = Select(g, j, at)``, where nothing else reads ``g``,
    or ``at = Select(v > top, j, at); top = max(top, v)``.

An index only:
    ``if x[j] > x[at]: at = j``, or the same by a select, reads the greatest element again for each
    comparison. It gets memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from loomir.arith.fold import imm
from loomir.autoschedule.lift.choices import read_choice
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Cast,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt

__all__ = ["IndexSearch", "as_branch", "read_index_search"]

_ZERO: Final = imm(0, DataType("int32"))
_COMPARISONS: Final = (GT, GE, LT, LE)


class IndexSearch(NamedTuple):
    """A search that also keeps the element, in memory of its own that ``start`` fills."""

    start: BufferStore
    body: IfThenElse


def as_branch(body: Stmt, names: Set[int], reads: Sequence[BufferLoad]) -> IfThenElse | None:
    """Write two stores of selects as one branch around two stores; None for other statements.

    ``names`` are pointers, by ``id``, of memory that names of values became; ``reads`` are the
    loads of the program.
    """
    if not isinstance(body, SeqStmt) or not all(isinstance(p, BufferStore) for p in body.seq):
        return None
    stores = [part for part in body.seq if isinstance(part, BufferStore)]
    if len(stores) == 3:
        return _read_named(stores[0], (stores[1], stores[2]), names, reads)
    return _read_direct(stores[0], stores[1]) if len(stores) == 2 else None


def _read_named(
    name: BufferStore,
    stores: tuple[BufferStore, BufferStore],
    names: Set[int],
    reads: Sequence[BufferLoad],
) -> IfThenElse | None:
    """Read selects by a condition that has a name."""
    if id(name.buffer.data) not in names:
        return None
    condition = BufferLoad(name.buffer, name.indices)
    uses = [load for load in reads if load.buffer.data is name.buffer.data]
    chosen = [_read_store(store, condition) for store in stores]
    if len(uses) != len(chosen) or chosen[0] is None or chosen[1] is None:
        return None
    return IfThenElse(name.value, SeqStmt((chosen[0], chosen[1])), None, span=name.span)


def _read_direct(at: BufferStore, top: BufferStore) -> IfThenElse | None:
    """Read selects by a comparison that is written for both."""
    choice = read_choice(at.value)
    if choice is None or not isinstance(choice.condition, _COMPARISONS):
        return None
    condition = choice.condition
    reads: list[BufferLoad] = by_class(condition).get(BufferLoad, [])
    if any(load.buffer.data is at.buffer.data for load in reads):
        return None
    chosen = (
        _read_store(at, condition),
        _read_store(top, condition) or _read_extreme(top, condition),
    )
    if chosen[0] is None or chosen[1] is None:
        return None
    return IfThenElse(condition, SeqStmt((chosen[1], chosen[0])), None, span=at.span)


def _read_store(store: BufferStore, condition: PrimExpr) -> BufferStore | None:
    """Return the store that a select makes if the condition holds; else it keeps the element."""
    choice = read_choice(store.value)
    own = BufferLoad(store.buffer, store.indices)
    if choice is None or not structural_equal(choice.condition, condition):
        return None
    if not structural_equal(choice.other, own):
        return None
    return BufferStore(store.buffer, choice.taken, store.indices, span=store.span)


def _read_extreme(store: BufferStore, condition: GT | GE | LT | LE) -> BufferStore | None:
    """Read ``top = max(top, v)`` beside ``v > top``; numbers that are equal are the same."""
    value = store.value
    if not isinstance(value, (Max, Min)) or not value.dtype.is_integer:
        return None
    own = BufferLoad(store.buffer, store.indices)
    sides = [value.a, value.b]
    kept = [structural_equal(side, own) for side in sides]
    if kept.count(True) != 1:
        return None
    taken = sides[kept.index(False)]
    first, second = (taken, own) if isinstance(value, Max) else (own, taken)
    if isinstance(condition, (LT, LE)):
        first, second = second, first
    if not structural_equal(condition.a, first) or not structural_equal(condition.b, second):
        return None
    return BufferStore(store.buffer, taken, store.indices, span=store.span)


def read_index_search(loop: For) -> IndexSearch | None:
    """Read a search that keeps an index only; None for other loops."""
    body, var = loop.body, loop.loop_var
    condition: PrimExpr | None = None
    at: Stmt | None = None
    if isinstance(body, BufferStore) and (choice := read_choice(body.value)) is not None:
        condition = choice.condition
        at = _read_store(body, condition)
    elif isinstance(body, IfThenElse) and body.else_case is None:
        condition, at = body.condition, body.then_case
    if not isinstance(condition, _COMPARISONS) or not isinstance(at, BufferStore):
        return None
    if _strip_casts(at.value) is not var or not _holds_iterations(at.buffer.dtype, loop):
        return None
    kept = BufferLoad(at.buffer, at.indices)
    sides = (condition.a, condition.b)
    for value, element in (sides, sides[::-1]):
        if _reads_at(value, element, var, kept):
            break
    else:
        return None
    top = decl_buffer((1,), element.dtype, f"{at.buffer.name}_element")
    load = BufferLoad(top, (_ZERO,))
    runs = isinstance(loop.extent, IntImm) and loop.extent.value > 0
    if not runs:
        some = GT(loop.extent, imm(0, loop.extent.dtype))
        element = call_builtin("if_then_else", some, element, const(0, element.dtype))
    first, second = (load if side is not value else side for side in sides)
    stores = SeqStmt((BufferStore(top, value, (_ZERO,)), at))
    compared = type(condition)(first, second, span=condition.span)
    return IndexSearch(
        BufferStore(top, element, (_ZERO,)), IfThenElse(compared, stores, None, span=at.span)
    )


def _strip_casts(index: PrimExpr) -> PrimExpr:
    """Return an index without conversions between integers."""
    while isinstance(index, Cast) and index.value.dtype.is_integer:
        index = index.value
    return index


def _holds_iterations(dtype: DataType, loop: For) -> bool:
    """Whether an integer type holds all values of a loop's variable."""
    if not dtype.is_integer or dtype.is_bool:
        return False
    bounds = (loop.min, loop.extent)
    if all(isinstance(bound, IntImm) for bound in bounds):
        return sum(bound.value for bound in bounds if isinstance(bound, IntImm)) <= dtype.max_value
    return dtype.max_value >= loop.loop_var.dtype.max_value


def _reads_at(value: PrimExpr, element: PrimExpr, var: Var, kept: BufferLoad) -> bool:
    """Whether ``element`` is what ``value`` is for the kept index in place of a variable."""
    if not isinstance(value, BufferLoad) or not isinstance(element, BufferLoad):
        return False
    if value.buffer is not element.buffer or value.buffer.data is kept.buffer.data:
        return False
    found = False
    for one, other in zip(value.indices, element.indices, strict=True):
        if _strip_casts(one) is var and structural_equal(_strip_casts(other), kept):
            found = True
        elif not are_equal((one,), (other,)) or var in by_class(one).get(Var, ()):
            return False
    return found
