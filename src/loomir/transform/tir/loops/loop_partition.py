"""Peel partial tiles, so that whole tiles run without bounds guards.

A loop that is split by a factor that does not divide its extent has a guard in the innermost loop,
which prevents vectorisation. This pass moves the test to an outer loop: it checks once whether the
whole tile is inside, and only the partial tiles at the end keep their guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import FOLDS
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, nodes_outside, rebuild, rewrite
from loomir.loops.conditions import conjunction, conjuncts
from loomir.loops.ranges import bind_loops
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.expr import GE, GT, LE, LT, Add, CmpOp, IntImm, Not, PrimExpr, Sub, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind, IfThenElse, LetStmt, Stmt

__all__ = ["loop_partition"]

_MOST: Final = 512
"""The most statements of a loop that is duplicated."""


@register("tir.LoopPartition", requires={"no_blocks"})
def loop_partition(func: PrimFunc) -> PrimFunc:
    """Test the conditions of vector loops once for each tile; only remainder tiles keep them.

    ``for i in range(4): for j in vectorized(8): if i * 8 + j < 30: ...`` becomes a loop over ``i``
    of ``if i < 3``, with a vector loop of 8 in one branch and of 6 in the other.
    """
    loops: list[For] = by_class(func.body).get(For, [])
    if not any(s.kind is ForKind.VECTORIZED and _asks(s.body) for s in loops):
        return func
    names = {s.loop_var for s in loops}

    def part(s: For) -> Stmt:
        if s.kind is ForKind.VECTORIZED:
            return _hoist_condition(s)
        return _partition(s, names)

    body = rewrite(func.body, {For: part})
    if body is func.body:
        return func
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


def _asks(s: Stmt) -> bool:
    return isinstance(s, IfThenElse) and s.else_case is None


def _guard_by(conditions: Sequence[PrimExpr], then: Stmt) -> Stmt:
    """Test several conditions, in order."""
    return IfThenElse(conjunction(conditions), then) if conditions else then


def _vars(e: Node) -> set[Var]:
    return set(by_class(e).get(Var, ()))


def _hoist_condition(s: For) -> Stmt:
    """Hoist a condition that is the same for all lanes out of a vector loop."""
    if not _asks(s.body):
        return s
    assert isinstance(s.body, IfThenElse)
    conditions = conjuncts(s.body.condition)
    same = [c for c in conditions if s.loop_var not in _vars(c)]
    if not same or not all(map(is_discardable, conditions)):
        return s
    own = [c for c in conditions if s.loop_var in _vars(c)]
    return _guard_by(same, rebuild(s, {"body": _guard_by(own, s.body.then_case)}))


# -- tiles ---------------------------------------------------------------------------------------
def _partition(s: For, names: set[Var]) -> Stmt:
    """Partition a loop over tiles into one test and two versions of the body."""
    statements = nodes_outside(s.body, PrimExpr)
    inner = {part.loop_var: part for part in statements if isinstance(part, For)}
    vectors = [part for part in inner.values() if part.kind is ForKind.VECTORIZED]
    if not vectors or len(statements) > _MOST:
        return s
    lets = {part.var for part in statements if isinstance(part, LetStmt)}
    asked = [c for site in _sites(statements, vectors) for c in conjuncts(site.condition)]
    analyzer = _assume([s, *inner.values()])
    wholes: dict[int, PrimExpr] = {}
    for c in asked:
        used = _vars(c)
        if s.loop_var not in used or used & lets or (used & names) - inner.keys() - {s.loop_var}:
            continue
        tile = [inner[v] for v in used if v in inner]
        whole = _strengthen(c, tile, analyzer) if tile else None
        if whole is not None:
            wholes[id(c)] = whole
    if not wholes:
        return s
    conditions = list({str(c): c for c in wholes.values()}.values())
    within = rewrite(s.body, {IfThenElse: lambda each: _drop_known(each, wholes)})
    beyond = fresh_copy(_specialize_last(s, conditions, analyzer), {})
    return rebuild(s, {"body": IfThenElse(conjunction(conditions), within, beyond)})


def _sites(statements: list[Node], vectors: list[For]) -> list[IfThenElse]:
    """List the conditions directly within and around vector loops."""
    found = [v.body for v in vectors if isinstance(v.body, IfThenElse)]
    around = {id(v) for v in vectors}
    found += [
        each for each in statements if isinstance(each, IfThenElse) and id(each.then_case) in around
    ]
    return [each for each in found if each.else_case is None and is_discardable(each.condition)]


def _assume(loops: Iterable[For]) -> Analyzer:
    analyzer = Analyzer()
    bind_loops(analyzer, loops)
    return analyzer


def _strengthen(c: PrimExpr, tile: Iterable[For], analyzer: Analyzer) -> PrimExpr | None:
    """Return a condition for ``c`` to hold in all iterations of the tile's loops, or None."""
    if not isinstance(c, LT | LE | GT | GE) or not c.a.dtype.is_integer:
        return None
    less = Sub(c.a, c.b) if isinstance(c, LT | LE) else Sub(c.b, c.a)
    ends: dict[Var, Node] = {}
    for loop in tile:
        one = IntImm(1, loop.loop_var.dtype)
        more = substitute(less, {loop.loop_var: Add(loop.loop_var, one)})
        step = analyzer.simplify(Sub(more, less))
        if not isinstance(step, IntImm):
            return None
        last = Sub(Add(loop.min, loop.extent), one)
        ends[loop.loop_var] = last if step.value > 0 else loop.min
    found = analyzer.simplify(substitute(c, ends))
    # Bounds of one loop may depend on another one; arithmetic may wrap.
    if not _vars(found).isdisjoint(ends):
        return None
    with analyzer.assume(found):
        return found if analyzer.can_prove(c) else None


def _drop_known(s: IfThenElse, known: Mapping[int, object]) -> Stmt:
    """Remove tests of conditions that are known to hold."""
    conditions = conjuncts(s.condition)
    left = [c for c in conditions if id(c) not in known]
    if s.else_case is not None or len(left) == len(conditions):
        return s
    return _guard_by(left, s.then_case)


def _specialize_last(s: For, conditions: list[PrimExpr], analyzer: Analyzer) -> Stmt:
    """Return the body for partial tiles; if there is just one, simplified for it."""
    if len(conditions) != 1:
        return s.body
    with analyzer.assume(Not(conditions[0])):
        low, high = analyzer.const_int_bound(s.loop_var)
    if low != high:
        return s.body
    last = IntImm(int(low), s.loop_var.dtype)
    body = substitute(s.body, {s.loop_var: last})
    known = _assume(by_class(body).get(For, ()))

    def ask(each: CmpOp) -> PrimExpr:
        return known.simplify(each)

    body = rewrite(body, {**FOLDS, LT: ask, LE: ask, GT: ask, GE: ask})
    return rewrite(body, {For: _shorter})


def _shorter(s: For) -> Stmt:
    """Shorten a loop to the iterations for which its condition holds."""
    if not _asks(s.body) or not isinstance(s.min, IntImm) or s.min.value:
        return s
    assert isinstance(s.body, IfThenElse)
    c = s.body.condition
    if not isinstance(c, LT | LE) or c.a is not s.loop_var or not isinstance(c.b, IntImm):
        return s
    count = c.b.value + isinstance(c, LE)
    if not isinstance(s.extent, IntImm) or not 0 < count <= s.extent.value:
        return s
    made: dict[str, Any] = {"extent": IntImm(count, s.extent.dtype), "body": s.body.then_case}
    return rebuild(s, made)
