"""Transform loop nests: ranges of variables, predicates of blocks, new bindings of iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import imm
from loomir.arith.iterators.map import iter_map_simplify
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import Step, children, map_children, rebuild, trampoline
from loomir.schedule.refusal import Refusal
from loomir.schedule.state import Ref
from loomir.tir.buffer import Range
from loomir.tir.expr import And, IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, BlockRealize, For, IfThenElse, SeqStmt, Stmt

__all__ = [
    "analyzer_for",
    "cannot_chain",
    "cannot_reshape",
    "conjunction",
    "conjuncts",
    "find_size_ranges",
    "guard_stmt",
    "outer_ranges",
    "positive",
    "ranges_in",
    "ranges_with_sizes",
    "rebind_loops",
    "simplify_realize",
    "sizes_of",
]

_LARGEST: Final = (1 << 31) - (1 << 16)
_INDEX_BITS: Final = 32


def cannot_reshape(ref: Ref) -> Refusal | None:
    """Say why a loop cannot become other loops: marks on it would be lost."""
    loop = ref.loop
    if loop.annotations or loop.kind.name != "SERIAL":
        what = f"is {loop.kind.name.lower()}" if loop.kind.name != "SERIAL" else "has annotations"
        return Refusal(
            "SCH0004",
            "loop {!r} {}",
            (loop.loop_var.name_hint, what),
            "change the shape of the nest first, and mark its loops afterwards",
            loop,
        )
    return None


def cannot_chain(loops: Sequence[Ref]) -> Refusal | None:
    """Say why each loop is not the only thing in the one before it."""
    for outer, inner in pairwise(loops):
        if outer.loop.body is not inner.stmt:
            return Refusal(
                "SCH0004",
                "loop {!r} is not the whole body of loop {!r}",
                (inner.loop.loop_var.name_hint, outer.loop.loop_var.name_hint),
                "give loops of one nest, from the outermost on, with nothing between them",
                inner.stmt,
            )
    return None


def analyzer_for(ranges: Mapping[Var, Range]) -> Analyzer:
    """Return an analyzer that knows ranges of variables."""
    analyzer = Analyzer()
    for var, r in ranges.items():
        analyzer.bind(var, r)
    return analyzer


def ranges_in(stmt: Stmt) -> dict[Var, Range]:
    """Return the ranges of the loops of a statement that are outside of its blocks."""
    found: dict[Var, Range] = {}
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, For):
            found[node.loop_var] = Range(node.min, node.extent)
        if not isinstance(node, BlockRealize):
            stack.extend(part for part in reversed(children(node)) if isinstance(part, Stmt))
    return found


def outer_ranges(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of what loops and blocks around bind, outermost first."""
    found: dict[Var, Range] = {}
    for around in reversed(list(ref.list_around())):
        if around.is_loop:
            found[around.loop.loop_var] = Range(around.loop.min, around.loop.extent)
        else:
            found.update((it.var, it.dom) for it in around.block.iter_vars if it.dom is not None)
    return found


def ranges_with_sizes(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of symbolic sizes, and of what loops and blocks around bind.

    Sizes are taken to be so small that rounding them up to a multiple does not wrap.
    """
    return {**sizes_of(ref), **outer_ranges(ref)}


def sizes_of(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of the variables that are extents of parameters."""
    return find_size_ranges(ref.home.func)


def find_size_ranges(func: PrimFunc) -> dict[Var, Range]:
    """Return the ranges of the variables that are extents of parameters of a function."""
    return {
        e: Range(imm(0, e.dtype), imm(_LARGEST, e.dtype))
        for buffer in func.buffer_map.values()
        for e in buffer.shape
        if isinstance(e, Var) and e.dtype.bits >= _INDEX_BITS
    }


def positive(ranges: Mapping[Var, Range]) -> dict[Var, Range]:
    """Return the ranges of variables that are extents, where there is a point within them all."""
    return {
        e: Range(imm(1, e.dtype), imm(_LARGEST, e.dtype))
        for r in ranges.values()
        if isinstance(e := r.extent, Var) and e.dtype.bits >= _INDEX_BITS
    }


def rebind_loops(
    place: Ref, stmt: Stmt, values: Mapping[Var, PrimExpr], inner: Mapping[Var, Range] | None = None
) -> Stmt:
    """Replace loop variables by expressions, and simplify the bindings of blocks.

    ``inner`` are the ranges of new loops around ``stmt``, inside of what is around ``place``.
    """
    made = substitute(stmt, values)
    known = {**outer_ranges(place), **(inner or {}), **ranges_in(made)}
    sizes = sizes_of(place)
    new = {v for value in values.values() for v in free_definitions(value)}

    def tidy(realize: BlockRealize) -> BlockRealize:
        used = {
            n for value in (*realize.values, realize.predicate) for n in free_definitions(value)
        }
        if new and not new & used:
            return realize
        return simplify_realize(realize, {v: r for v, r in known.items() if v in used}, sizes)

    return _map_realizes(made, tidy)


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


def conjunction(conditions: Iterable[PrimExpr]) -> PrimExpr:
    """Return the conjunction of conditions."""
    made: PrimExpr = TRUE
    for part in conditions:
        made = part if made is TRUE else And(made, part)
    return made


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """List the conditions whose conjunction a condition is."""
    found: list[PrimExpr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += (part.b, part.a)
        elif not (isinstance(part, IntImm) and part.value):
            found.append(part)
    return found


def guard_stmt(stmt: Stmt, condition: PrimExpr) -> Stmt:
    """Run a statement only where a condition holds: by the predicates of its blocks, if it can."""
    if not _has_only_blocks(stmt):
        return IfThenElse(condition, stmt)

    def guard(realize: BlockRealize) -> BlockRealize:
        before = realize.predicate
        is_true = isinstance(before, IntImm) and bool(before.value)
        return rebuild(realize, {"predicate": condition if is_true else And(before, condition)})

    return _map_realizes(stmt, guard)


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


def _map_realizes(stmt: Stmt, fn: Callable[[BlockRealize], BlockRealize]) -> Stmt:
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
