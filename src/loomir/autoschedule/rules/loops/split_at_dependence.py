"""Split an innermost loop at the one iteration that carries a dependence, and vectorise the rest.

In ``d[i, j] = min(d[i, j], d[i, k] + d[k, j])``, the loop over ``j`` reads ``d[i, k]``, which only
its iteration ``j == k`` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.autoschedule.builders.evaluate import widest
from loomir.autoschedule.builders.vectorize_inner import has_unit_stride, vectorize_with_remainder
from loomir.autoschedule.ir.plan import Plan
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.loops.dependence import explain_dependence
from loomir.loops.nests import is_serial
from loomir.loops.ranges import analyzer_for, ranges_in
from loomir.target import Target
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import BufferLoad, Range
from loomir.tir.expr import GE, LT, And, Or, PrimExpr, Select, Var
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt, seq

__all__ = ["plan_around_one"]

_MOST: Final = 600
"""Nodes of a nest that is analysed: proofs compare all of its accesses."""
_FEWEST: Final = 4
"""Lanes of the shortest vectors."""


def plan_around_one(stmt: Stmt, target: Target, around: Mapping[Var, Range]) -> Plan | None:
    """Split innermost loops at the one iteration that carries a dependence; None if none does.

    ``around`` are the loops around the statement.
    """
    if sum(map(len, by_class(stmt).values())) > _MOST:
        return None
    ranges = {**around, **ranges_in(stmt)}

    def split(loop: For) -> Stmt:
        outer = {var: r for var, r in ranges.items() if var is not loop.loop_var}
        return _split(loop, outer, target) or loop

    made = rewrite(stmt, {For: split})
    if made is stmt:
        return None
    how = f"innermost loops in vectors of {target.vector_bits} bits, but for one iteration"
    return Plan("loops as written", made, (how,))


def _split(loop: For, outer: Mapping[Var, Range], target: Target) -> Stmt | None:
    if not is_serial(loop):
        return None
    store, var = _store(loop.body), loop.loop_var
    if store is None or not has_unit_stride(store, var):
        return None
    if effects(store.value) & (Effects.ACTS | Effects.FAILS) or not explain_dependence(loop, outer):
        return None
    analyzer = analyzer_for(outer)
    one = _find_dependent(store, var, analyzer)
    end = analyzer.simplify(loop.min + loop.extent)
    if one is None or not analyzer.can_prove(GE(one, loop.min)):
        return None
    if not analyzer.can_prove(LT(one, end)):
        return None
    after = analyzer.simplify(one + 1)
    pieces = [
        _piece(store, var, loop.min, analyzer.simplify(one - loop.min)),
        _piece(store, var, after, analyzer.simplify(end - after)),
    ]
    if any(explain_dependence(piece, outer) for piece in pieces):
        return None
    width = target.vector_bits // widest(store.value, store.buffer.dtype)
    if width < _FEWEST:
        return None
    before, behind = (
        vectorize_with_remainder(piece.body, piece.loop_var, (piece.min, piece.extent), width)
        for piece in pieces
    )
    middle = fresh_copy(loop.body, {var: one})
    return seq((before, middle, behind))


def _store(body: Stmt) -> BufferStore | None:
    """Match a store; a conditional one becomes a select between its value and the old one."""
    if isinstance(body, BufferStore):
        return body
    if not isinstance(body, IfThenElse) or body.else_case is not None:
        return None
    store = body.then_case
    if not isinstance(store, BufferStore) or by_class(body.condition).keys() & {And, Or}:
        return None
    if effects(body.condition) & (Effects.ACTS | Effects.FAILS):
        return None
    known: list[BufferLoad] = by_class(body.condition).get(BufferLoad, [])
    old = BufferLoad(store.buffer, store.indices)
    needed = [old, *by_class(store.value).get(BufferLoad, [])]
    if not all(any(structural_equal(load, other) for other in known) for load in needed):
        return None
    value = Select(body.condition, store.value, old)
    return BufferStore(store.buffer, value, store.indices, span=store.span)


def _find_dependent(store: BufferStore, var: Var, analyzer: Analyzer) -> PrimExpr | None:
    """Return the only iteration that may write what others read; None if there are several."""
    last = store.indices[-1]
    if last.dtype is not var.dtype:
        return None
    ahead = analyzer.simplify(last - var)
    found: list[PrimExpr] = []
    loads: list[BufferLoad] = by_class(store.value).get(BufferLoad, [])
    for load in loads:
        if load.buffer is not store.buffer or _names(load.indices[-1], var):
            continue
        if load.indices[-1].dtype is not ahead.dtype:
            return None
        place = analyzer.simplify(load.indices[-1] - ahead)
        if _names(place, var) or BufferLoad in by_class(place) or place.dtype is not var.dtype:
            return None
        if not any(structural_equal(place, other) for other in found):
            found.append(place)
    return found[0] if len(found) == 1 else None


def _names(expr: PrimExpr, var: Var) -> bool:
    return var in by_class(expr).get(Var, ())


def _piece(store: BufferStore, var: Var, first: PrimExpr, extent: PrimExpr) -> For:
    own = Var(var.name_hint, var.dtype)
    body = substitute(store, {var: own})
    return For(own, first, extent, ForKind.SERIAL, body)
