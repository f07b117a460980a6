"""Classify blocks as complete or as reductions, a precondition of many primitives.

- A *complete* block has only spatial iterators, reads nothing that it writes, and its instances
  write different elements. They may run in any order, and more than once.
- A *reduction* block updates what it initialises by an associative and commutative operator, and
  its instances for different spatial iterators update different elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.arith.iterators.map import detect_iter_map
from loomir.check.tir.init_order import check_init_order
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.substitution import free_definitions
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.accesses import obstacle_in
from loomir.loops.ranges import analyzer_for, positive_extents
from loomir.loops.regions import block_regions
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.refusal import Refusal
from loomir.schedule.state import Ref
from loomir.tir.buffer import BufferLoad, BufferRegion, IterVarType, Range
from loomir.tir.expr import Add, And, IntImm, Max, Min, Mul, Or, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, BufferStore, For, Stmt

__all__ = [
    "Update",
    "affine_mistake",
    "cannot_start",
    "complete_mistake",
    "explain_repetition",
    "explain_sharing",
    "init_mistake",
    "reduction_mistake",
    "spatial",
    "update_of",
]

COMBINERS: Final = (Add, Mul, Min, Max, And, Or)
"""The associative and commutative operators, by which reductions may be regrouped."""


class Update(NamedTuple):
    """A reduction: ``store.buffer[…] = operator(what it holds, value)``, from ``init``."""

    store: BufferStore
    operator: type[PrimExpr]
    value: PrimExpr
    init: BufferStore


def spatial(block: Block) -> dict[Var, Range]:
    """Return the domains of a block's spatial iterators."""
    return {
        it.var: it.dom
        for it in block.iter_vars
        if it.dom is not None and it.iter_type is IterVarType.DATA_PAR
    }


def update_of(block: Block) -> Update | None:
    """Read a block as the update of a reduction."""
    store, init = block.body, block.init
    if not (isinstance(store, BufferStore) and isinstance(init, BufferStore)):
        return None
    value = store.value
    if init.buffer is not store.buffer or not isinstance(value, COMBINERS):
        return None
    if not are_equal(init.indices, store.indices):
        return None
    for old, rest in ((value.a, value.b), (value.b, value.a)):
        if (
            isinstance(old, BufferLoad)
            and old.buffer is store.buffer
            and are_equal(old.indices, store.indices)
            and not any(
                isinstance(n, BufferLoad) and n.buffer.data is store.buffer.data
                for n in pre_order(rest)
            )
        ):
            return Update(store, type(value), rest, init)
    return None


def _explain_overlapping_writes(block: Block, writes: tuple[BufferRegion, ...]) -> str:
    """Say why instances of different spatial iterators may write the same; empty if not."""
    own = {v: r for v, r in spatial(block).items() if not _is_one(r)}
    for region in writes:
        if any(not _is_one(r) for r in region.region):
            return f"it writes more than one element of {region.buffer.name!r} at once"
        used = [r.min for r in region.region if any(v in own for v in free_definitions(r))]
        known = analyzer_for(
            positive_extents(own)
        )  # without a point in the domain there are no instances
        if own and not detect_iter_map(used, own, check_level="injective", analyzer=known).ok:
            return (
                f"its instances are not known to write different elements of {region.buffer.name!r}"
            )
    return ""


def _is_one(r: Range) -> bool:
    return isinstance(r.extent, IntImm) and r.extent.value == 1


def complete_mistake(block: Block) -> str:
    """Say why a block is not complete; empty if it is."""
    for it in block.iter_vars:
        if it.iter_type is not IterVarType.DATA_PAR:
            return f"its iterator {it.var.name_hint!r} is not spatial"
    if why := obstacle_in(block):
        return why
    reads, writes = block_regions(block)
    written = {id(r.buffer.data): r for r in writes}
    for region in reads:
        if id(region.buffer.data) in written:
            return f"it reads {region.buffer.name!r}, which it writes"
    return _explain_overlapping_writes(block, writes)


def explain_sharing(block: Block) -> str:
    """Say why instances at different points may touch what others write; empty if not."""
    if why := obstacle_in(block):
        return why
    reads, writes = block_regions(block)
    written = {id(r.buffer.data): r for r in writes}
    for region in reads:
        other = written.get(id(region.buffer.data))
        if other is not None and not structural_equal(other, region):
            return f"it reads other elements of {region.buffer.name!r} than it writes"
    return _explain_overlapping_writes(block, writes)


def explain_repetition(
    realize: BlockRealize, loops: Sequence[Ref], around: Ref, *, limited: bool = False
) -> str:
    """Say why some loops may run an instance of a block more than once; empty if they do not.

    What its condition leaves out is run no more often: only with ``limited`` must it be plain which
    iterations that is.
    """
    ranges = {r.loop.loop_var: Range(r.loop.min, r.loop.extent) for r in loops}
    why = ""
    for predicate in (realize.predicate,) if limited else (realize.predicate, TRUE):
        analyzer = analyzer_for(ranges_with_sizes(around))
        found = detect_iter_map(
            realize.values, ranges, predicate, check_level="injective", analyzer=analyzer
        )
        if not found.errors:
            return ""
        why = why or f"its loops may run an instance twice: {found.errors[0].message}"
    return why


def reduction_mistake(block: Block) -> str:
    """Say why a block is not a reduction that may be regrouped; empty if it is."""
    if not block.is_reduction:
        return "it has no reducing iterator"
    for it in block.iter_vars:
        if it.iter_type not in (IterVarType.DATA_PAR, IterVarType.COMM_REDUCE):
            return f"its iterator {it.var.name_hint!r} is neither spatial nor reducing"
    if why := obstacle_in(block):
        return why
    if block.init is None:
        return "it has no init"
    update = update_of(block)
    if update is None:
        return "its body is no update by +, *, min, max, and, or of what its init sets"
    reduced = {it.var for it in block.iter_vars if it.iter_type is IterVarType.COMM_REDUCE}
    for index in update.store.indices:
        if any(v in reduced for v in free_definitions(index)):
            return "what it updates changes with a reducing iterator"
    _, writes = block_regions(block)
    return _explain_overlapping_writes(block, writes)


def affine_mistake(realize: BlockRealize, loops: list[Ref]) -> str:
    """Say why the bindings of a block are not independent iterators; empty if they are."""
    ranges = {r.loop.loop_var: Range(r.loop.min, r.loop.extent) for r in loops}
    found = detect_iter_map(realize.values, ranges, realize.predicate, check_level="surjective")
    return "" if found.ok else str(found.errors[0])


def cannot_start(place: Ref, new: Stmt, advice: str) -> Refusal | None:
    """Say why reductions would not start at their start with ``new`` in the place of a nest."""
    why = init_mistake(place, new)
    return Refusal("SCH0006", "{}", (why,), advice, place.stmt) if why else None


def init_mistake(place: Ref, new: Stmt) -> str:
    """Say which init would not come first with ``new`` in its place; empty if all do."""
    if not any(isinstance(n, Block) and n.init is not None for n in pre_order(new)):
        return ""
    made: Stmt = new
    for ref in place.list_around():
        if isinstance(ref.stmt, For):
            made = rebuild(ref.stmt, {"body": made})
        else:
            block = rebuild(ref.block, {"body": made, "init": None})
            made = rebuild(ref.realize, {"block": block})
    found = check_init_order(PrimFunc((), made))
    return f"{found[0].message}: {found[0].label}" if found else ""
