"""Rewrite the blocks of a loop nest: their bindings, predicates and guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loomir.arith.iterators.map import iter_map_simplify
from loomir.ir.visit import Step, children, map_children, rebuild, trampoline
from loomir.loops.conditions import conjunction, conjuncts
from loomir.loops.ranges import analyzer_for
from loomir.tir.buffer import Range
from loomir.tir.expr import And, IntImm, PrimExpr, Var
from loomir.tir.stmt import BlockRealize, For, IfThenElse, SeqStmt, Stmt

__all__ = ["guard_stmt", "map_realizes", "simplify_realize"]


def simplify_realize(
    realize: BlockRealize, ranges: Mapping[Var, Range], sizes: Mapping[Var, Range]
) -> BlockRealize:
    """Simplify the bindings and the predicate of a block."""
    bound: tuple[PrimExpr, ...] = ()
    if realize.values:
        bound = iter_map_simplify(realize.values, ranges, analyzer=analyzer_for(sizes))
    predicate = _simplify_predicate(realize.predicate, {**sizes, **ranges})
    if predicate is realize.predicate and all(a is b for a, b in zip(bound, realize.values)):
        return realize
    return rebuild(realize, {"values": bound, "predicate": predicate})


def _simplify_predicate(predicate: PrimExpr, ranges: Mapping[Var, Range]) -> PrimExpr:
    if isinstance(predicate, IntImm):
        return predicate
    analyzer = analyzer_for(ranges)
    return conjunction([part for part in conjuncts(predicate) if not analyzer.can_prove(part)])


def guard_stmt(stmt: Stmt, condition: PrimExpr) -> Stmt:
    """Run a statement only where a condition holds: by the predicates of its blocks, if it can."""
    if not _has_only_blocks(stmt):
        return IfThenElse(condition, stmt)

    def guard(realize: BlockRealize) -> BlockRealize:
        before = realize.predicate
        is_true = isinstance(before, IntImm) and bool(before.value)
        return rebuild(realize, {"predicate": condition if is_true else And(before, condition)})

    return map_realizes(stmt, guard)


def _has_only_blocks(stmt: Stmt) -> bool:
    """Tell whether a statement does nothing but loop over blocks."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            continue
        if isinstance(node, For):
            stack.append(node.body)
        elif isinstance(node, SeqStmt):
            stack.extend(node.seq)
        else:
            return False
    return True


def map_realizes(stmt: Stmt, fn: Callable[[BlockRealize], BlockRealize]) -> Stmt:
    """Replace the blocks of a statement that are not inside of others."""

    def visit(node: Stmt) -> Step[Stmt]:
        if isinstance(node, BlockRealize):
            return fn(node)
        made: dict[int, Stmt] = {}
        for part in children(node):
            if isinstance(part, Stmt):
                made[id(part)] = yield visit(part)
        return map_children(node, lambda part: made.get(id(part), part))

    return trampoline(visit(stmt))
