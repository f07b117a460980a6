"""Scans (prefix sums and the like): loops whose elements depend on the elements before them.

The loop along the scan stays sequential. Threads share the other loops, except for the innermost
one, along which memory is contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

from loomir.arith.fold import fold_expr, int64, product
from loomir.autoschedule.builders.evaluate import number, time_of
from loomir.autoschedule.builders.thread_partition import is_worth, parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.lift.lift_loops import Reader
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.loops.dependence import has_own_axis
from loomir.loops.nests import is_rectangular, split_nest, wrap_in_loops
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import IntImm, PrimExpr, Var, cast
from loomir.tir.stmt import BlockRealize, BufferStore, For, IfThenElse, Stmt

__all__ = ["plan_scan"]


class _Scan(NamedTuple):
    """Loops around stores to one buffer: the parallel ones, and those that carry a dependence."""

    free: tuple[For, ...]
    bound: tuple[For, ...]
    body: Stmt


def plan_scan(stmt: Stmt, reader: Reader) -> Plan | None:
    """Plan loops of which some carry a dependence; None for others.

    ``reader`` knows which sizes of the function are never negative.
    """
    found = _read(stmt)
    if found is None:
        return None
    stores: list[BufferStore] = by_class(found.body).get(BufferStore, [])
    each = max(time_of(store.value, store.buffer.dtype) for store in stores)
    loops = (*found.free, *found.bound)
    total = number(product(int64(loop.extent) for loop in loops))
    if total is not None and not is_worth(total * each):
        return None
    outer = found.free
    extents = [int64(reader.trip_count(loop.extent)) for loop in outer]
    count = fold_expr(product(extents))
    steps = number(product(int64(loop.extent) for loop in found.bound)) or 64

    def item(t: PrimExpr) -> Stmt:
        table: dict[Var, PrimExpr] = {}
        left = t
        for k, (loop, extent) in reversed(list(enumerate(zip(outer, extents)))):
            value = left if k == 0 else left % extent
            left = left if k == 0 else left // extent
            table[loop.loop_var] = cast(value, loop.loop_var.dtype)
        return substitute(wrap_in_loops(found.bound, found.body), table)

    made, how = parallelize(count, each * steps, "rows", item)
    names = ", ".join(loop.loop_var.name_hint for loop in found.bound)
    return Plan("scan", made, (f"steps along {names} keep their order", how))


def _read(stmt: Stmt) -> _Scan | None:
    if isinstance(stmt, BlockRealize):
        block = stmt.block
        plain = not (block.iter_vars or block.alloc_buffers or block.match_buffers)
        always = isinstance(stmt.predicate, IntImm) and stmt.predicate.value
        if not plain or block.annotations or block.init is not None or not always:
            return None
        stmt = block.body
    loops, stmt = split_nest(stmt)
    starts = [loop.min for loop in loops]
    if not is_rectangular(loops) or any(not isinstance(e, IntImm) or e.value for e in starts):
        return None
    places = _places(stmt)
    if places is None or len(loops) < 2:
        return None
    # The innermost loop stays whole: it is vectorised.
    free = [loop for loop in loops[:-1] if has_own_axis(loop.loop_var, places)]
    bound = [loop for loop in loops if loop not in free]
    if not free or not bound:
        return None
    return _Scan(tuple(free), tuple(bound), stmt)


def _places(stmt: Stmt) -> list[tuple[PrimExpr, ...]] | None:
    """Return the indices at which the only buffer that is written is read and written."""
    stores = [stmt]
    exprs: list[PrimExpr] = []
    if isinstance(stmt, IfThenElse):
        stores = [stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case])]
        exprs.append(stmt.condition)
    found: list[tuple[PrimExpr, ...]] = []
    written = None
    for store in stores:
        if not isinstance(store, BufferStore) or written not in (None, store.buffer):
            return None
        written = store.buffer
        exprs += [store.value, *store.indices]
        found.append(store.indices)
    if any(effects(expr) & (Effects.ACTS | Effects.FAILS) for expr in exprs):
        return None
    for expr in exprs:
        for load in by_class(expr).get(BufferLoad, ()):
            if load.buffer is written:
                found.append(load.indices)
            elif written is None or load.buffer.data is written.data:
                return None
    return found
