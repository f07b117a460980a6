"""Dependence analysis: find the loops that carry a dependence between their iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loomir.arith import Analyzer
from loomir.arith.iterators.map import detect_iter_map
from loomir.ir.substitution import free_definitions, substitute
from loomir.loops.accesses import Access, Nest, iteration_of, nest_of
from loomir.loops.bounds import Ends, find_ends
from loomir.loops.ranges import analyzer_for, loop_range
from loomir.tir.buffer import Range
from loomir.tir.expr import LT, IntImm, PrimExpr, Var
from loomir.tir.stmt import For, ForKind

__all__ = ["explain_dependence", "find_carrying_loops", "find_unsafe_loop", "has_own_axis"]


def find_carrying_loops(loops: Sequence[For], outer: Mapping[Var, Range]) -> list[tuple[For, str]]:
    """List the loops of a nest, outermost first, that carry a dependence, with the reason.

    Iterations that differ in another of the loops touch nothing that one of them writes. ``outer``
    gives the ranges of what is bound around the nest.
    """
    nest = nest_of(loops[0])
    return [(loop, why) for loop in loops if (why := explain_dependence(loop, outer, nest))]


def explain_dependence(loop: For, outer: Mapping[Var, Range], nest: Nest | None = None) -> str:
    """Say why iterations of a loop may depend on one another; empty if they do not.

    ``nest`` is a nest around the loop: its other loops may have any values then.
    """
    if isinstance(loop.extent, IntImm) and loop.extent.value <= 1:
        return ""
    nest = iteration_of(loop) if nest is None else nest
    if nest.obstacle:
        return nest.obstacle
    groups: dict[int, list[Access]] = {}
    for access in nest.accesses:
        groups.setdefault(id(access.buffer.data), []).append(access)
    for group in groups.values():
        if any(a.is_write for a in group) and not _is_separate(loop, group, nest, outer):
            name = group[0].buffer.name
            return f"iterations of {loop.loop_var.name_hint!r} share elements of {name!r}"
    return ""


def find_unsafe_loop(loops: Iterable[For], outer: Mapping[Var, Range]) -> tuple[For, str] | None:
    """Find the outermost parallel or vectorised loop that carries a dependence, with the reason.

    Each of ``loops`` is in the one before it; None if all may run as they are marked.
    """
    known = dict(outer)
    for loop in loops:
        is_ordered = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        if not is_ordered and (why := explain_dependence(loop, known)):
            return loop, why
        known[loop.loop_var] = loop_range(loop)
    return None


def has_own_axis(var: Var, places: Iterable[Sequence[PrimExpr]]) -> bool:
    """Tell whether a loop's variable is the index on one axis of all accesses of a buffer.

    Different iterations touch different elements then: a fast path of ``explain_dependence``, for
    accesses of which no more than their indices is known.
    """
    return any(all(index is var for index in axis) for axis in zip(*places))


def _is_separate(loop: For, group: list[Access], nest: Nest, outer: Mapping[Var, Range]) -> bool:
    """Tell whether different iterations of a loop touch different elements."""
    buffer = group[0].buffer
    if any(a.buffer is not buffer for a in group):
        return False
    distinct = _drop_unwritten_reads(_distinct(group), nest, outer)
    if len(distinct) == 1 and _is_injective(loop.loop_var, distinct[0], nest, outer):
        return True
    return any(_is_ordered(loop, axis, distinct, nest, outer) for axis in range(len(buffer.shape)))


def _distinct(group: list[Access]) -> list[Access]:
    """Drop accesses of the same box; of those that are equal, a write stands for all."""
    found: list[Access] = []
    for access in sorted(group, key=lambda a: not a.is_write):
        if not any(access.is_same_box(other) for other in found):
            found.append(access)
    return found


def _drop_unwritten_reads(
    group: list[Access], nest: Nest, outer: Mapping[Var, Range]
) -> list[Access]:
    """Drop reads of what no iteration writes: on some axis they are disjoint from every write."""
    reads = [a for a in group if not a.is_write]
    writes = [a for a in group if a.is_write]
    if not reads:
        return group
    analyzer = analyzer_for(outer)
    ends: dict[int, list[Ends | None]] = {}
    for access in group:
        ends[id(access)] = [find_ends(r, nest.loops, analyzer) for r in access.region]

    def is_disjoint(a: Access, b: Access) -> bool:
        pairs = zip(ends[id(a)], ends[id(b)], strict=True)
        return any(
            x and y and (_is_before(x, y, analyzer) or _is_before(y, x, analyzer)) for x, y in pairs
        )

    return [a for a in group if a.is_write or not all(is_disjoint(a, w) for w in writes)]


def _is_before(a: Ends, b: Ends, analyzer: Analyzer) -> bool:
    """Tell whether a range certainly ends before another one begins."""
    return a.high.dtype is b.low.dtype and analyzer.can_prove(LT(a.high, b.low))


def _is_injective(var: Var, access: Access, nest: Nest, outer: Mapping[Var, Range]) -> bool:
    """Tell whether the indices that mention a loop have different values where the loop has.

    What is shown is more: all loops that these indices mention are known from the indices.
    """
    used: dict[Var, Range] = {}
    indices: list[PrimExpr] = []
    for r in access.region:
        names = [v for v in free_definitions(r) if isinstance(v, Var) and v in nest.loops]
        if var in names:
            if not isinstance(r.extent, IntImm) or r.extent.value != 1:
                return False
            indices.append(r.min)
            used.update((v, nest.loops[v]) for v in names)
    if var not in used:
        return False
    # An index that mentions other loops only adds to what is known of these.
    return detect_iter_map(indices, used, check_level="injective", analyzer=analyzer_for(outer)).ok


def _loops_behind(places: list[Range], var: Var, nest: Nest) -> dict[Var, Range]:
    """Return the other loops that ranges depend on, and those that these depend on in turn."""
    found: dict[Var, Range] = {}
    pending = list(places)
    while pending:
        for name in free_definitions(pending.pop()):
            if isinstance(name, Var) and name is not var and name not in found:
                r = nest.loops.get(name)
                if r is not None:
                    found[name] = r
                    pending.append(r)
    return found


def _is_ordered(
    loop: For, axis: int, accesses: list[Access], nest: Nest, outer: Mapping[Var, Range]
) -> bool:
    """Tell whether, on an axis, successive iterations of a loop touch successive ranges."""
    var = loop.loop_var
    inner = _loops_behind([access.region[axis] for access in accesses], var, nest)
    if any(v is var for r in inner.values() for v in free_definitions(r)):
        return False
    analyzer = analyzer_for(outer)
    gap = Var("gap", var.dtype)
    analyzer.bind(var, loop_range(loop))
    analyzer.bind(gap, Range(IntImm(0, var.dtype), loop.extent))
    after = var + 1 + gap
    ends: list[tuple[Ends, bool]] = []
    for access in accesses:
        found = find_ends(access.region[axis], inner, analyzer)
        if found is None:
            return False
        ends.append((found, access.is_write))
    # Whatever an iteration touches ends before anything begins that one to come touches.
    later = [found._replace(low=substitute(found.low, {var: after})) for found, _ in ends]
    return all(
        _is_before(a, b, analyzer)
        for a, a_writes in ends
        for b, (_, b_writes) in zip(later, ends)
        if a_writes or b_writes
    )
