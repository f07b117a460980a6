"""Hoist the bounds checks of a gather into loops before it, so that the nest itself cannot fail.

A nest that loads ``x[index[i]]`` with checks stops at the first index that is out of bounds, so its
iterations must run in order. Without checks they can be reordered, vectorised and parallelised. The
loops that are placed before the nest run only over the variables on which an index depends, in the
same order, so they stop at the same index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.arith.fold import imm
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.thread_partition import is_worth
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, children, rebuild, rewrite
from loomir.loops.nests import is_rectangular, split_nest
from loomir.support.span import Span
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import CHECKED_INDEX, IF_THEN_ELSE
from loomir.tir.expr import LT, And, Call, IntImm, Let, Or, PrimExpr, Select, Var
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)

__all__ = ["HoistedChecks", "hoist_checks"]

_TIME: Final = 1.0
"""Estimated cost of a check, in nanoseconds."""
_CHOICES: Final = (Select, And, Or, Let)


_Check = tuple[PrimExpr, Span | None]


class HoistedChecks(NamedTuple):
    """A nest in two parts: the checks, which may fail, and the rest, which cannot."""

    checks: Stmt
    nest: Stmt


def hoist_checks(stmt: Stmt) -> HoistedChecks | None:
    """Split a nest around one store whose value checks indices; None for others."""
    loops, inner = split_nest(stmt)
    table: dict[Var, PrimExpr] = {}
    store = inner
    if isinstance(inner, BlockRealize):
        if not _is_plain(inner):
            return None
        table = {it.var: value for it, value in zip(inner.block.iter_vars, inner.values)}
        store = inner.block.body
    if not isinstance(store, BufferStore) or any(effects(i) & Effects.FAILS for i in store.indices):
        return None
    checks = [(substitute(check, table), check.span) for check in _checks_of(store.value) or ()]
    if not checks or not is_rectangular(loops):
        return None
    for check, _ in checks:
        loads: list[BufferLoad] = by_class(check).get(BufferLoad, [])
        if any(load.buffer.data is store.buffer.data for load in loads):
            return None  # later indices would depend on what was stored
    free = BufferStore(store.buffer, _remove_checks(store.value), store.indices, span=store.span)
    nest: Stmt = free
    if isinstance(inner, BlockRealize):
        nest = rebuild(inner, {"block": rebuild(inner.block, {"body": free})})
    for loop in reversed(loops):
        nest = rebuild(loop, {"body": nest})
    return HoistedChecks(_nest_of(checks, loops), nest)


def _is_plain(realize: BlockRealize) -> bool:
    block: Block = realize.block
    bare = not block.alloc_buffers and not block.match_buffers and not block.annotations
    always = isinstance(realize.predicate, IntImm) and realize.predicate.value == 1
    return bare and always and block.init is None and not any(map(effects, realize.values))


def _checks_of(value: PrimExpr) -> list[Call] | None:
    """List the outermost checks, in order; None if one of them does not always run."""
    found: list[Call] = []
    pending: list[tuple[Node, bool]] = [(value, True)]
    while pending:
        node, always = pending.pop()
        if isinstance(node, Call) and node.op is CHECKED_INDEX:
            if not always or not _is_sound(node):
                return None
            found.append(node)
            continue
        chooses = isinstance(node, _CHOICES) or (isinstance(node, Call) and node.op is IF_THEN_ELSE)
        pending += [(part, always and not chooses) for part in reversed(children(node))]
    return found


def _is_sound(check: Call) -> bool:
    """Whether nothing in a check can fail except nested checks, all of which always run."""
    inner = effects(_remove_checks(check.args[0])) | effects(_remove_checks(check.args[1]))
    if inner & (Effects.FAILS | Effects.ACTS) or check.dtype.lanes != 1:
        return False
    return all(_checks_of(part) is not None for part in check.args[:2])


def _remove_checks(value: PrimExpr) -> PrimExpr:
    return rewrite(
        value, {Call: lambda e: _simplify_passed(e.args[0]) if e.op is CHECKED_INDEX else e}
    )


def _simplify_passed(index: PrimExpr) -> PrimExpr:
    """Simplify an index that has passed its check, and so is not below 0.

    ``Select(i < 0 and i >= -n, i + n, i)``, which counts from the end, need not ask whether ``i``
    is at least ``-n``: if it were not, the check would have failed.
    """
    if not isinstance(index, Select) or not isinstance(index.condition, And):
        return index
    below = index.condition.a
    if not isinstance(below, LT) or number(below.b) != 0:
        return index
    if not structural_equal(below.a, index.false_value):
        return index
    return rebuild(index, {"condition": below})


def _nest_of(checks: Sequence[_Check], loops: Sequence[For]) -> Stmt:
    """Run the checks for all values of the variables that they depend on."""
    used = {v for check, _ in checks for v in by_class(check).get(Var, ())}
    stmt = seq([Evaluate(check, span=span) for check, span in checks])
    work: float | None = _TIME * len(checks)
    kept = [loop for loop in loops if loop.loop_var in used]
    for loop in kept:
        size = number(loop.extent)
        work = None if work is None or size is None else work * size
    for loop in reversed(kept):
        outermost = loop is kept[0] and (work is None or is_worth(work))
        kind = ForKind.PARALLEL if outermost and number(loop.extent) != 1 else ForKind.SERIAL
        stmt = rebuild(loop, {"body": stmt, "kind": kind})
    for loop in loops:
        size = number(loop.extent)
        if loop not in kept and (size is None or size < 1):  # no element, no check
            stmt = IfThenElse(imm(0, loop.extent.dtype) < loop.extent, stmt)
    return stmt
