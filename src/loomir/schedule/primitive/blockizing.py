"""Primitives that turn a loop nest into a block, and that transform the iterators of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loomir.arith.fold import add, imm, mul, to_int
from loomir.arith.iterators.expr import normalize_iter_map_to_expr
from loomir.arith.iterators.index_map import IndexMap, is_bijective
from loomir.arith.iterators.subspace import DividedIter, subspace_divide
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import rebuild
from loomir.loops.conditions import conjunction, conjuncts
from loomir.loops.ranges import analyzer_for
from loomir.schedule.blocks import (
    cannot_start,
    complete_mistake,
    explain_repetition,
    explain_sharing,
    reduction_mistake,
)
from loomir.schedule.moving import refresh_regions
from loomir.schedule.nests import cannot_chain, cannot_reshape, ranges_with_sizes, sizes_of
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Place, Sblock, primitive
from loomir.support.diagnostics import LoomirError
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import IterVar, IterVarType, Range
from loomir.tir.expr import GT, IntImm, PrimExpr, Var, cast
from loomir.tir.stmt import TRUE, Block, BlockRealize, For, ForKind, Stmt

__all__ = ["BlockizedNest", "blockize", "blockize_nest", "nest_below", "transform_block_layout"]


class BlockizedNest(NamedTuple):
    """A nest as a block: what replaces it, and the inner block that references now mean."""

    realize: BlockRealize
    inner: Block


class _Parts(NamedTuple):
    """The iterators of the outer and the inner block, and what the old ones are of them."""

    outer: tuple[IterVar, ...]
    outer_values: tuple[PrimExpr, ...]
    inner: tuple[IterVar, ...]
    inner_values: tuple[PrimExpr, ...]
    given: dict[Var, PrimExpr]
    loops: dict[Var, PrimExpr]


def _kind(ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal("SCH0007", "block {!r}: {}", (ref.block.name_hint, why), advice, ref.stmt)


def nest_below(place: Ref) -> list[Ref] | Refusal:
    """Return the loops from a place on to its only block, and that block as the last."""
    path = [place]
    while path[-1].is_loop:
        body, below = path[-1].loop.body, path[-1].list_below()
        if len(below) != 1 or below[0].stmt is not body:
            return Refusal(
                "SCH0004",
                "loop {!r} contains more than one loop or block",
                (path[-1].loop.loop_var.name_hint,),
                "choose a nest of loops around one block, with nothing between them",
                path[-1].stmt,
            )
        path.append(below[0])
    return path


# -- blockize --------------------------------------------------------------------------------------
def blockize_nest(place: Ref, keep_units: bool) -> BlockizedNest | Refusal:
    """Make a block of a nest, or say why it cannot be one."""
    path = nest_below(place)
    if isinstance(path, Refusal):
        return path
    *chain, ref = path
    if ref.parent is None:
        return _kind(ref, "it is the root", "choose a loop or a block inside of it")
    if ref.block.init is not None and (why := _cannot_start_before(ref, chain)):
        return why
    parts = _divide_bindings(ref, chain, keep_units)
    if isinstance(parts, Refusal):
        return parts
    old = ref.block
    outside: list[PrimExpr] = []
    within: list[PrimExpr] = []
    inside: set[Node] = {r.loop.loop_var for r in chain}
    for condition in conjuncts(ref.realize.predicate):
        (within if set(free_definitions(condition)) & inside else outside).append(condition)
    body = rebuild(
        old,
        {"iter_vars": parts.inner, "body": substitute(old.body, parts.given), "init": None},
    )
    inner = refresh_regions(rebuild(body, {"match_buffers": substitute_all(old, parts.given)}))
    inner_predicate = conjunction([substitute(c, parts.loops) for c in within])
    nest: Stmt = BlockRealize(parts.inner_values, inner_predicate, inner)
    for around in reversed(chain):
        bounds = {"extent": substitute(around.loop.extent, parts.loops), "body": nest}
        nest = rebuild(around.loop, {"min": substitute(around.loop.min, parts.loops), **bounds})
    init = None
    if old.init is not None:
        init = _init_nest(ref, chain, parts, within)
    block = refresh_regions(Block(parts.outer, (), (), f"{old.name_hint}_o", nest, init))
    loose: set[Node] = {
        r.loop.loop_var for r in ref.loops() if not any(r is inner_loop for inner_loop in chain)
    }
    if loose & set(free_definitions(block)):
        return _kind(
            ref,
            "what it does depends on a loop outside of the nest by more than its iterators",
            "include the loop around the nest",
        )
    made = BlockRealize(parts.outer_values, conjunction(outside), block)
    if why := cannot_start(place, made, "decompose the reduction first"):
        return why
    return BlockizedNest(made, inner)


def substitute_all(block: Block, given: Mapping[Var, PrimExpr]) -> tuple[Node, ...]:
    """Replace iterators in the regions that a block matches by expressions."""
    return tuple(substitute(match, given) for match in block.match_buffers)


def _cannot_start_before(ref: Ref, chain: Sequence[Ref]) -> Refusal | None:
    """Say why init cannot run for all of a nest before the nest does."""
    advice = "decompose the reduction first, and make a block of its update"
    if not ref.block.is_reduction:
        return _kind(ref, "it has an init and no reducing iterator", advice)
    if why := explain_sharing(ref.block):
        return _kind(ref, why, advice)
    if chain and (why := explain_repetition(ref.realize, chain, chain[0])):
        return _kind(ref, why, advice)
    analyzer = analyzer_for(ranges_with_sizes(chain[0] if chain else ref))
    for around in chain:
        if not analyzer.can_prove(GT(around.loop.extent, imm(0, around.loop.extent.dtype))):
            return Refusal(
                "SCH0005",
                "loop {!r} may have no iterations, and then init would not run",
                (around.loop.loop_var.name_hint,),
                advice,
                around.stmt,
            )
    return None


def _divide_bindings(ref: Ref, chain: Sequence[Ref], keep_units: bool) -> _Parts | Refusal:
    """Divide the bindings of a block into parts outside and inside of a nest."""
    ranges = {r.loop.loop_var: Range(r.loop.min, r.loop.extent) for r in ref.loops()}
    found = subspace_divide(
        ref.realize.values,
        ranges,
        [r.loop.loop_var for r in chain],
        check_level="none",
        analyzer=analyzer_for(sizes_of(ref)),
    )
    if not found.ok:
        return Refusal(
            "SCH0005",
            "the iterators of block {!r} cannot be divided at the nest: {}",
            (ref.block.name_hint, found.errors[0].message),
            "split and reorder loops so that loops over tiles are outside of loops within tiles",
            ref.stmt,
        )
    outer: list[tuple[IterVar, PrimExpr]] = []
    inner: list[tuple[IterVar, PrimExpr]] = []
    given: dict[Var, PrimExpr] = {}
    loops: dict[Var, PrimExpr] = {}
    counts = any(it.iter_type is IterVarType.COMM_REDUCE for it in ref.block.iter_vars)
    analyzer = analyzer_for(ranges_with_sizes(ref))
    for it, part in zip(ref.block.iter_vars, found.parts):
        if ref.block.init is not None and it.iter_type is IterVarType.COMM_REDUCE:
            assert it.dom is not None
            if not analyzer.can_prove_equal(part.base, it.dom.min):
                return _kind(
                    ref, f"{it.var.name_hint!r} does not begin at its start", "decompose it first"
                )
        keep = keep_units or (counts and it.iter_type is IterVarType.COMM_REDUCE)
        high = _side(it, part.outer.extent, f"{it.var.name_hint}_o", keep)
        low = _side(it, part.inner.extent, f"{it.var.name_hint}_i", False)
        value = _count(it, part, high, low)
        given[it.var] = value
        if high is not None:
            bound = to_int(normalize_iter_map_to_expr(part.outer), it.var.dtype)
            outer.append((high, bound))
            if isinstance(bound, Var):
                loops[bound] = high.var
        if low is not None:
            inner.append((low, to_int(normalize_iter_map_to_expr(part.inner), it.var.dtype)))
    return _Parts(
        tuple(it for it, _ in outer),
        tuple(v for _, v in outer),
        tuple(it for it, _ in inner),
        tuple(v for _, v in inner),
        given,
        loops,
    )


def _side(it: IterVar, extent: PrimExpr, name: str, keep: bool) -> IterVar | None:
    """Make an iterator of one side; None if it would have one value, and need not be there."""
    if isinstance(extent, IntImm) and extent.value == 1 and not keep:
        return None
    var = Var(name, it.var.dtype)
    extent = to_int(extent, var.dtype)
    return IterVar(Range(imm(0, var.dtype), extent), var, it.iter_type)


def _count(it: IterVar, part: DividedIter, high: IterVar | None, low: IterVar | None) -> PrimExpr:
    made: PrimExpr = imm(0, it.var.dtype)
    if high is not None:
        made = mul(high.var, to_int(part.inner.extent, it.var.dtype))
    if low is not None:
        made = low.var if high is None else add(made, low.var)
    ranges = {i.var: i.dom for i in (high, low) if i is not None and i.dom is not None}
    return analyzer_for(ranges).simplify(
        add(mul(made, to_int(part.scale, made.dtype)), to_int(part.base, made.dtype))
    )


def _init_nest(ref: Ref, chain: Sequence[Ref], parts: _Parts, within: Sequence[PrimExpr]) -> Stmt:
    """Make the nest that starts all that the nest reduces."""
    old = ref.block
    assert old.init is not None
    spatial = [
        (it, v)
        for it, v in zip(parts.inner, parts.inner_values)
        if it.iter_type is IterVarType.DATA_PAR
    ]
    used = {n for _, value in spatial for n in free_definitions(value)}
    first: dict[Var, PrimExpr] = dict(parts.loops)
    for around in chain:
        if around.loop.loop_var not in used:
            first[around.loop.loop_var] = substitute(around.loop.min, first)
    starts = {
        it.var: imm(0, it.var.dtype)
        for it in parts.inner
        if it.iter_type is not IterVarType.DATA_PAR
    }
    body = substitute(substitute(old.init, parts.given), starts)
    block = refresh_regions(
        Block(tuple(it for it, _ in spatial), (), (), f"{old.name_hint}_init", body)
    )
    nest: Stmt = BlockRealize(
        tuple(v for _, v in spatial), conjunction([substitute(c, first) for c in within]), block
    )
    for around in reversed(chain):
        loop = around.loop
        if loop.loop_var in used:
            kind = ForKind.SERIAL if loop.kind is ForKind.PARALLEL else loop.kind
            low, extent = substitute(loop.min, first), substitute(loop.extent, first)
            nest = For(loop.loop_var, low, extent, kind, nest)
    return fresh_copy(nest, {})


@primitive
def blockize(context: Context, target: Place, preserve_unit_iters: bool = True) -> Ref:
    """Turn a nest into a block, so that code outside sees tiles instead of elements.

    for i0 in range(4):
        for i1 in range(8): B[i0 * 8 + i1] = A[i0 * 8 + i1]
    -->                                        # of loop i1
    for i0 in range(4):
        with block("B_o"):                     # reads A[v * 8:v * 8 + 8]
            v = i0
            for i1 in range(8): B[v * 8 + i1] = A[v * 8 + i1]

    The name of the new block ends in ``_o``; references to the old block stay valid for the inner
    one. The init of a reduction becomes a nest in the init of the new block. Without
    ``preserve_unit_iters``, the new block has no iterators of extent 1.

    Errors: SCH0004 for a nest around several blocks, SCH0005 where iterators have no parts outside
    and inside of the nest, SCH0006, SCH0007.
    """
    made = blockize_nest(target, preserve_unit_iters)
    if isinstance(made, Refusal):
        refuse(made)
    block = nest_below(target)
    assert not isinstance(block, Refusal)
    target.home.replace(target, made.realize, {block[-1].block: made.inner})
    return target.home.ref(made.realize)


# -- transform_block_layout ------------------------------------------------------------------------
def cannot_transform_block(ref: Ref, index_map: IndexMap) -> Refusal | None:
    """Say why a block cannot run over other iterators."""
    block, loops = ref.block, ref.loops()
    count = len(block.iter_vars)
    if len(index_map.initial_indices) != count:
        return Refusal(
            "SCH0003",
            "the map takes {} indices, but block {!r} has {} iterators",
            (len(index_map.initial_indices), block.name_hint, count),
            "pass a map of the block's iterators",
            ref.stmt,
        )
    if why := (complete_mistake(block) and reduction_mistake(block)):
        return _kind(ref, why, "choose a block whose instances may run in any order")
    nest = loops[len(loops) - count :] if count else []
    bound = [r.loop.loop_var for r in nest]
    same = len(bound) == count and all(a is b for a, b in zip(bound, ref.realize.values))
    if not count or not same or ref.parent is not nest[-1] or nest[-1].loop.body is not ref.stmt:
        return Refusal(
            "SCH0004",
            "block {!r} is not bound to the loops right around it, one by one",
            (block.name_hint,),
            "transform the block before its loops are split, fused or reordered",
            ref.stmt,
        )
    if why := cannot_chain(nest):
        return why
    for loop in nest:
        if why := cannot_reshape(loop):
            return why
    if conjuncts(ref.realize.predicate):
        return _kind(ref, "it runs under a condition", "choose a block that always runs")
    inside: set[Node] = set(bound)
    extents: list[PrimExpr] = []
    for it, loop in zip(block.iter_vars, nest):
        assert it.dom is not None
        extent = it.dom.extent
        plain = (
            extent is not None
            and isinstance(it.dom.min, IntImm)
            and it.dom.min.value == 0
            and isinstance(loop.loop.min, IntImm)
            and loop.loop.min.value == 0
            and analyzer_for(sizes_of(ref)).can_prove_equal(loop.loop.extent, extent)
        )
        if not plain or set(free_definitions(loop.loop.extent)) & inside:
            return Refusal(
                "SCH0005",
                "loop {!r} does not run over the domain of {!r} from 0 on",
                (loop.loop.loop_var.name_hint, it.var.name_hint),
                "choose a block whose loops cover its whole domain",
                loop.stmt,
            )
        assert extent is not None
        extents.append(extent)
    if set(free_definitions(block)) & inside:
        return _kind(ref, "it uses a variable of an outer loop", "choose another block")
    return _cannot_map(ref, index_map, extents)


def _cannot_map(ref: Ref, index_map: IndexMap, extents: Sequence[PrimExpr]) -> Refusal | None:
    analyzer = analyzer_for(sizes_of(ref))
    if not is_bijective(_convert_map(index_map, ref.block), extents, analyzer=analyzer):
        return Refusal(
            "SCH0005",
            "{} is not a bijective map of iterators of extents ({})",
            (index_map, ", ".join(map(str, extents))),
            "use an index map that splits by factors of extents, fuses and reorders",
            ref.stmt,
        )
    kinds = dict(zip(index_map.initial_indices, (it.iter_type for it in ref.block.iter_vars)))
    for final in index_map.final_indices:
        mixed = {kinds[v] for v in free_definitions(final) if isinstance(v, Var) and v in kinds}
        if len(mixed) > 1:
            return Refusal(
                "SCH0006",
                "{} mixes a spatial and a reducing iterator",
                (final,),
                "keep spatial and reducing iterators separate",
                ref.stmt,
            )
    return None


@primitive
def transform_block_layout(context: Context, block: Sblock, index_map: IndexMap) -> None:
    """Transform a block's iterators by an index map.

    for i in range(8):
        for j in range(4): B[i, j] = A[i, j]
    -->                                        # lambda i, j: (i * 4 + j,)
    for x in range(32): B[x // 4, x % 4] = A[x // 4, x % 4]

    Buffers stay as they are. If the order of reduction iterators changes, so does that of float
    sums.

    Errors: SCH0003, SCH0004 where loops around it were changed before, SCH0005 for a map without an
    inverse, SCH0006 for one that mixes kinds of iterators, SCH0007.
    """
    if why := cannot_transform_block(block, index_map):
        refuse(why)
    old = block.block
    nest = block.loops()[len(block.loops()) - len(old.iter_vars) :]
    extents = [r.loop.extent for r in nest]
    analyzer = analyzer_for(sizes_of(block))
    index_map = _convert_map(index_map, old)
    try:
        back = index_map.inverse(extents, analyzer=analyzer)
        shape = index_map.map_shape(extents, analyzer=analyzer)
    except LoomirError as error:
        refuse(Refusal("SCH0005", "{}", (str(error),), "use another map", block.stmt))
    kinds = dict(zip(index_map.initial_indices, (it.iter_type for it in old.iter_vars)))
    iters: list[IterVar] = []
    bound: list[Var] = []
    for place, (final, extent) in enumerate(zip(index_map.final_indices, shape)):
        own = [kinds[v] for v in free_definitions(final) if isinstance(v, Var) and v in kinds]
        var = back.initial_indices[place]
        dom = Range(imm(0, var.dtype), cast(extent, var.dtype))
        iters.append(
            IterVar(dom, Var(f"v{place}", var.dtype), own[0] if own else IterVarType.DATA_PAR)
        )
        bound.append(Var(f"i{place}", var.dtype))
    inverse = back.map_indices(
        [it.var for it in iters], analyzer=analyzer_for({it.var: it.dom for it in iters if it.dom})
    )
    given = {it.var: cast(i, it.var.dtype) for it, i in zip(old.iter_vars, inverse)}
    made = refresh_regions(
        rebuild(
            old,
            {
                "iter_vars": tuple(iters),
                "body": substitute(old.body, given),
                "init": None if old.init is None else substitute(old.init, given),
            },
        )
    )
    nested: Stmt = BlockRealize(tuple(bound), TRUE, made)
    for var, it in zip(reversed(bound), reversed(iters)):
        assert it.dom is not None
        assert it.dom.extent is not None
        nested = For(var, imm(0, var.dtype), it.dom.extent, ForKind.SERIAL, nested)
    if why := cannot_start(nest[0], nested, "decompose the reduction first"):
        refuse(why)
    block.home.replace(nest[0], nested, {old: made})


def _convert_map(index_map: IndexMap, block: Block) -> IndexMap:
    """Return the map for indices of the dtypes that a block's iterators have."""
    names = zip(index_map.initial_indices, block.iter_vars)
    own = tuple(Var(var.name_hint, it.var.dtype) for var, it in names)
    return IndexMap(own, index_map.map_indices(own))
