"""Reshape the nests of a schedule: which loops may be, their ranges, new bindings of iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from loomir.ir.substitution import free_definitions, substitute
from loomir.loops.blocks import map_realizes, simplify_realize
from loomir.loops.ranges import domains, find_size_ranges, loop_range, ranges_in
from loomir.schedule.refusal import Refusal
from loomir.schedule.state import Ref
from loomir.tir.buffer import Range
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import BlockRealize, Stmt

__all__ = [
    "cannot_chain",
    "cannot_reshape",
    "outer_ranges",
    "ranges_with_sizes",
    "rebind_loops",
    "sizes_of",
]


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


def outer_ranges(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of what loops and blocks around bind, outermost first."""
    found: dict[Var, Range] = {}
    for around in reversed(list(ref.list_around())):
        if around.is_loop:
            found[around.loop.loop_var] = loop_range(around.loop)
        else:
            found.update(domains(around.block))
    return found


def ranges_with_sizes(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of symbolic sizes, and of what loops and blocks around bind.

    Sizes are taken to be so small that rounding them up to a multiple does not wrap.
    """
    return {**sizes_of(ref), **outer_ranges(ref)}


def sizes_of(ref: Ref) -> dict[Var, Range]:
    """Return the ranges of the variables that are extents of parameters."""
    return find_size_ranges(ref.home.func)


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

    return map_realizes(made, tidy)
