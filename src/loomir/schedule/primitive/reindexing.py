"""Primitives that insert a stage indexed by the iterators of a block between it and a buffer."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from loomir.arith.fold import add, imm, sub
from loomir.arith.iterators.index_map import IndexMap
from loomir.arith.iterators.map import detect_iter_map
from loomir.ir.equality import are_equal
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.loops.nests import nest_over
from loomir.loops.ranges import analyzer_for, domains
from loomir.schedule.moving import cannot_cover, refresh_regions
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.primitive.caching import (
    cannot_cache,
    cannot_delay,
    commit,
    place_before,
    place_behind,
)
from loomir.schedule.primitive.layout import resolve_buffer
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.staging import (
    find_accessed_buffer,
    find_foreign,
    is_plain,
    is_too_large,
    make_stage,
    runs_always,
)
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Sblock, Value, primitive
from loomir.support.diagnostics import CompileError
from loomir.tir.analysis.copy_statement import definitions_in
from loomir.tir.buffer import Buffer, BufferLoad, IterVar, IterVarType, Range, decl_buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import TRUE, Block, BlockRealize, BufferStore, Stmt

__all__ = ["reindex", "reindex_cache_read", "reindex_cache_write"]


def _refusal(code: str, ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal(code, "block {!r}: {}", (ref.block.name_hint, why), advice, ref.stmt)


class _Axes(NamedTuple):
    """The indices of an element in a buffer and in its stage, in terms of a block's iterators."""

    there: tuple[PrimExpr, ...]
    here: tuple[PrimExpr, ...]
    shape: tuple[PrimExpr, ...]
    iters: tuple[Var, ...]


def _element(ref: Ref, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the one element of a buffer that a block uses, or stop where there are several."""
    found: list[tuple[PrimExpr, ...]] = []
    for node in pre_order(ref.block):
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
            found.append(node.indices)
    hidden = {id(n) for n in definitions_in(ref.block.body)}
    own = {it.var for it in ref.block.iter_vars}
    hidden.update(id(v) for r in ref.loops() for v in (r.loop.loop_var,) if v not in own)
    plain = found and not any(
        isinstance(n, BufferLoad) or id(n) in hidden for i in found[0] for n in pre_order(i)
    )
    same = all(are_equal(indices, found[0]) for indices in found)
    if not plain or not same or any(i.dtype.lanes != 1 for i in found[0]):
        refuse(
            _refusal(
                "SCH0007",
                ref,
                f"it does not use one element of {buffer.name!r}, at its own iterators",
                "choose a block whose loads and stores of the buffer all use the same indices",
            )
        )
    return found[0]


def _axes(ref: Ref, buffer: Buffer, index_map: IndexMap | None) -> _Axes:
    """Say which axes a stage has, or stop with the reason why it cannot have these."""
    there = _element(ref, buffer)
    ranges = domains(ref.block)
    analyzer = analyzer_for({**ranges_with_sizes(ref), **ranges})
    used = {n for i in there for n in free_definitions(i) if isinstance(n, Var) and n in ranges}
    if index_map is None:
        iters = tuple(v for v in ranges if v in used)
        here = tuple(analyzer.simplify(sub(v, ranges[v].min)) for v in iters)
        shape = tuple(_extent(ranges[v]) for v in iters)
        return _Axes(there, here, shape, iters)
    advice = "use a map of all iterators of the block that splits, fuses and reorders those used"
    other = find_foreign(index_map.final_indices, index_map.initial_indices)
    if other is not None:
        refuse(_refusal("SCH0003", ref, f"the map mentions {other}", advice))
    try:
        own = [it.var for it in ref.block.iter_vars]
        here = index_map.map_indices(own, analyzer=analyzer)
    except CompileError as error:
        refuse(_refusal("SCH0003", ref, error.diagnostics[0].message, advice))
    named = {n for i in here for n in free_definitions(i) if isinstance(n, Var) and n in ranges}
    iters = tuple(v for v in ranges if v in named)
    lost = [
        v
        for v in ranges
        if v in used - named and not analyzer.can_prove_equal(_extent(ranges[v]), 1)
    ]
    found = detect_iter_map(
        here, {v: ranges[v] for v in iters}, check_level="injective", analyzer=analyzer
    )
    shape_of: list[PrimExpr] = []
    inner = {v: ranges[v] for v in iters}
    for index in here:
        ends = analyzer.int_set(index, inner)
        low, high = ends.min_value, ends.max_value
        if low is None or high is None or not analyzer.can_prove(low >= 0):
            refuse(_refusal("SCH0003", ref, f"{index} has no known bounds", advice))
        if any(n in inner for n in pre_order(high)):  # it is not known where memory is allocated
            most = analyzer.const_int_bound(index).max_value
            if not isinstance(most, int):
                refuse(_refusal("SCH0003", ref, f"{index} has no known bounds", advice))
            high = imm(most, high.dtype)
        shape_of.append(analyzer.simplify(add(high, imm(1, high.dtype))))
    count = prod(e.value if isinstance(e, IntImm) else 1 for e in shape_of)
    if is_too_large([_extent(r) for r in inner.values()], count):
        refuse(_refusal("SCH0003", ref, "the map makes a buffer that is too large", advice))
    if lost or found.errors or not here:
        why = "the map may put different elements in one place"
        refuse(_refusal("SCH0003", ref, why, advice))
    units = tuple(v for v in ranges if v in used - named)
    return _Axes(there, here, tuple(shape_of), (*iters, *units))


def _extent(r: Range) -> PrimExpr:
    assert r.extent is not None
    return r.extent


def _copy(
    ref: Ref, axes: _Axes, buffer: Buffer, stage: Buffer, *, into: bool
) -> tuple[Stmt, BlockRealize]:
    """Make a nest over iterators that copies elements into a stage, or out of it."""
    ranges = domains(ref.block)
    own = {v: Var(f"v{n}", v.dtype) for n, v in enumerate(axes.iters)}
    loops = {v: Var(f"ax{n}", v.dtype) for n, v in enumerate(axes.iters)}
    there = tuple(substitute(i, own) for i in axes.there)
    here = tuple(substitute(i, own) for i in axes.here)
    store = (
        BufferStore(stage, BufferLoad(buffer, there), here)
        if into
        else BufferStore(buffer, BufferLoad(stage, here), there)
    )
    iters = tuple(IterVar(ranges[v], own[v], IterVarType.DATA_PAR) for v in axes.iters)
    block = refresh_regions(Block(iters, (), (), stage.name, store))
    values = tuple(add(ranges[v].min, loops[v]) for v in axes.iters)
    realize = BlockRealize(values, TRUE, block)
    extents = [_extent(ranges[v]) for v in axes.iters]
    return nest_over([loops[v] for v in axes.iters], extents, realize), realize


def _redirect(ref: Ref, axes: _Axes, buffer: Buffer, stage: Buffer) -> BlockRealize:
    """Return a block that uses a stage where it used a buffer."""

    def load(node: BufferLoad) -> PrimExpr:
        return BufferLoad(stage, axes.here) if node.buffer is buffer else node

    def store(node: BufferStore) -> Stmt:
        if node.buffer is not buffer:
            return node
        return BufferStore(stage, node.value, axes.here, span=node.span)

    made = rewrite(ref.realize, {BufferLoad: load, BufferStore: store, Block: refresh_regions})
    assert isinstance(made, BlockRealize)
    return made


def _cannot_run_over(ref: Ref, axes: _Axes) -> Refusal | None:
    """Say why a block may use less than its iterators' domains say."""
    why = cannot_cover(ref)
    if why is None and not runs_always(ref.scope, ref):
        why = _refusal("SCH0007", ref, "it may not run at all", "choose a block without conditions")
    scoped_names = set(ranges_with_sizes(ref.scope)) | set(domains(ref.scope.block))
    for v, r in domains(ref.block).items():
        free = set(free_definitions(r)) - scoped_names
        loops = {around.loop.loop_var for around in ref.loops()}
        if why is None and v in axes.iters and free & loops:
            why = _refusal(
                "SCH0007", ref, f"the domain of {v.name_hint!r} changes", "choose another block"
            )
    return why


def _stage(
    ref: Ref, buffer: Buffer, how: str, name: str, scope: str, index_map: IndexMap | None
) -> Ref:
    """Put a stage between a buffer and a block."""
    if why := cannot_cache(ref, buffer, scope):
        refuse(why)
    axes = _axes(ref, buffer, index_map)
    if how == "read":
        if any(isinstance(n, BufferStore) and n.buffer is buffer for n in pre_order(ref.block)):
            why = f"it writes {buffer.name!r} as well"
            refuse(_refusal("SCH0006", ref, why, "choose a buffer that the block only reads"))
        if not is_plain(ref.block):
            why = "it may not read each time it runs"
            refuse(
                _refusal(
                    "SCH0007", ref, why, "choose a block without conditions, or use cache_read"
                )
            )
        place = place_before(ref, [ref], buffer)
    else:
        if why := cannot_delay(ref, buffer, []) or _cannot_return(ref, axes):
            refuse(why)
        place = place_behind(ref, buffer, [])
    if isinstance(place, Refusal):
        refuse(place)
    if place.ref is not ref.scope:
        why = f"{buffer.name!r} is written and read in the same nest"
        refuse(_refusal("SCH0006", ref, why, "choose a block that has a loop nest of its own"))
    if why := _cannot_run_over(ref, axes):
        refuse(why)
    made = decl_buffer(axes.shape, buffer.dtype, name, scope=scope)
    stage = make_stage(ref, made, name, scope)
    nest, realize = _copy(ref, axes, buffer, stage, into=how == "read")
    commit(ref, place, nest, stage, {ref: _redirect(ref, axes, buffer, stage)})
    return ref.home.ref(realize)


def _cannot_return(ref: Ref, axes: _Axes) -> Refusal | None:
    """Say why elements of a stage do not each have an element of the buffer."""
    reducing = {it.var for it in ref.block.iter_vars if it.iter_type is not IterVarType.DATA_PAR}
    if reducing.isdisjoint(axes.iters):
        return None
    return _refusal(
        "SCH0007", ref, "the stage would have an axis that reduces", "use spatial iterators only"
    )


@primitive
def reindex(context: Context, block: Sblock, buffer: Value) -> Ref:
    """Insert a stage between a block and a buffer, whose axes are the block's iterators.

    for i, j in grid(8, 4): B[i, j] = A[j, i] * 2
    -->                                        # buffer=("read", 0)
    for ax0, ax1 in grid(8, 4): A_reindex[ax0, ax1] = A[ax1, ax0]
    for i, j in grid(8, 4): B[i, j] = A_reindex[i, j] * 2

    The buffer is ``("read", 0)``, ``("write", 0)`` or a name. The axes are the iterators in its
    indices, in the order of the block.

    Errors: SCH0003, SCH0004, SCH0006 where the buffer is written and read in the same nest, SCH0007
    for a block that does not use one element at each point of its domain.
    """
    found = resolve_buffer(block, buffer)
    written = any(r.buffer is found for r in block.block.writes)
    how = "write" if written else "read"
    if isinstance(buffer, (list, tuple)):
        how = str(buffer[0])  # pyright: ignore[reportUnknownArgumentType]
    return _stage(block, found, how, f"{found.name}_reindex", found.scope, None)


@primitive
def reindex_cache_read(
    context: Context,
    block: Sblock,
    read_buffer_index: Value,
    storage_scope: str,
    index_map: IndexMap,
) -> Ref:
    """Copy what a block reads to a new buffer, with indices given by a map of the iterators.

    for i, j in grid(8, 4): B[i, j] = A[j, i] * 2
    -->                                        # lambda i, j: (i // 2, j, i % 2)
    for ax0, ax1 in grid(8, 4): A_local[ax0 // 2, ax1, ax0 % 2] = A[ax1, ax0]
    for i, j in grid(8, 4): B[i, j] = A_local[i // 2, j, i % 2] * 2

    Errors: SCH0003 for a map that may put elements in one place, SCH0004, SCH0006, SCH0007 for a
    block that does not read one element at each point of its domain, SCH0008.
    """
    buffer = find_accessed_buffer(block, read_buffer_index, "read")
    name = f"{buffer.name}_{storage_scope}"
    return _stage(block, buffer, "read", name, storage_scope, index_map)


@primitive
def reindex_cache_write(
    context: Context,
    block: Sblock,
    write_buffer_index: Value,
    storage_scope: str,
    index_map: IndexMap,
) -> Ref:
    """Let a block write to a new buffer, with indices given by a map of the iterators.

    for i, j in grid(8, 4): B[j, i] = A[i, j] * 2
    -->                                        # lambda i, j: (i * 4 + j,)
    for i, j in grid(8, 4): B_local[i * 4 + j] = A[i, j] * 2
    for ax0, ax1 in grid(8, 4): B[ax1, ax0] = B_local[ax0 * 4 + ax1]

    Errors: SCH0003 for a map that may put elements in one place, SCH0004, SCH0006, SCH0007 for a
    block that does not write one element of its own at each point of its domain, SCH0008.
    """
    buffer = find_accessed_buffer(block, write_buffer_index, "write")
    name = f"{buffer.name}_{storage_scope}"
    return _stage(block, buffer, "write", name, storage_scope, index_map)
