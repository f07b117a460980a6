"""Stage buffers: the insertion point of a buffer's copy, and the region that it copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.arith.iterators.map import detect_iter_map
from loomir.ir.node import Node
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.accesses import Access, nest_of
from loomir.loops.bounds import find_ends, find_extreme, is_known_outside
from loomir.loops.conditions import conjuncts
from loomir.loops.dependence import find_unsafe_loop
from loomir.loops.nests import nest_over
from loomir.loops.ranges import analyzer_for, domains, loop_range
from loomir.schedule.moving import cannot_cover, parts_of, plain_indices
from loomir.schedule.nests import ranges_with_sizes, sizes_of
from loomir.schedule.refusal import Refusal, refuse, replace_part
from loomir.schedule.state import Ref
from loomir.support.diagnostics import nearest
from loomir.tir.analysis.copy_statement import definitions_in
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    Range,
    decl_buffer,
)
from loomir.tir.expr import And, Call, IntImm, Max, Min, Or, PrimExpr, Var
from loomir.tir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)

__all__ = [
    "InsertionPoint",
    "accesses_in",
    "cannot_run_at_once",
    "cannot_store_in",
    "copy_nest",
    "exactly",
    "find_accessed_buffer",
    "find_covering_box",
    "find_foreign",
    "insert_nest",
    "is_parameter",
    "is_plain",
    "is_too_large",
    "make_stage",
    "pair_blocks",
    "path_loops",
    "runs_always",
    "store_of",
    "writes_whole",
]

SCOPES: Final = ("global", "local")
"""The kinds of memory of a CPU: what ``local`` means to other machines is the same here."""


_MOST: Final = 1 << 24
"""Elements up to which a copy is never too large."""
_TIMES: Final = 64
"""How many times as large as its buffer a copy may be beyond that."""


def is_too_large(old: Sequence[PrimExpr], count: int) -> bool:
    """Tell whether so many elements are absurdly many for what a shape holds."""
    capacity = 1
    for extent in old:
        capacity *= extent.value if isinstance(extent, IntImm) else _MOST
    return count > max(_MOST, _TIMES * capacity)


def find_foreign(exprs: Sequence[PrimExpr], own: Sequence[Var]) -> Node | None:
    """Find something that expressions mention, or load, besides some variables."""
    known = set(own)
    for expr in exprs:
        for node in pre_order(expr):
            if isinstance(node, BufferLoad) or (isinstance(node, Var) and node not in known):
                return node
    return None


class InsertionPoint(NamedTuple):
    """Where a statement is inserted: before part ``at`` of what a loop or block runs."""

    ref: Ref
    at: int


# -- arguments ---------------------------------------------------------------------------------
def find_accessed_buffer(ref: Ref, given: object, how: str) -> Buffer:
    """Return a buffer that a block reads or writes, by its place among those or by its name."""
    regions = ref.block.reads if how == "read" else ref.block.writes
    names = [r.buffer.name for r in regions]
    if isinstance(given, str) and names.count(given) == 1:
        return regions[names.index(given)].buffer
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if is_number and 0 <= cast("int", given) < len(regions):
        return regions[cast("int", given)].buffer
    guess = nearest(given, names) if isinstance(given, str) else None
    shown = ", ".join(f"{n}: {name}" for n, name in enumerate(names)) or "none"
    refuse(
        Refusal(
            "SCH0003",
            "block {!r} {}s no buffer {!r}",
            (ref.block.name_hint, how, given),
            f"did you mean {guess!r}?" if guess else f"it {how}s {shown}",
            ref.stmt,
        )
    )


def cannot_store_in(ref: Ref, scope: str) -> Refusal | None:
    """Say why a buffer cannot lie in a kind of memory."""
    if scope in SCOPES:
        return None
    return Refusal(
        "SCH0008",
        "a CPU has no {!r} memory",
        (scope,),
        f"use {' or '.join(map(repr, SCOPES))}",
        ref.stmt,
    )


def make_stage(ref: Ref, buffer: Buffer, name: str, scope: str) -> Buffer:
    """Make a compact buffer of the same shape in a kind of memory, with a name of its own."""
    taken = {b.name for b in ref.scope.block.alloc_buffers}
    given, number = name, 0
    while given in taken:
        number += 1
        given = f"{name}_{number}"
    return decl_buffer(
        buffer.shape, buffer.dtype, given, scope=scope, data_alignment=buffer.data_alignment
    )


def is_parameter(ref: Ref, buffer: Buffer) -> bool:
    """Tell whether a buffer is one that callers pass."""
    return any(b.data is buffer.data for b in ref.home.func.buffer_map.values())


# -- what is copied ----------------------------------------------------------------------------
def path_loops(place: Ref, inner: Ref) -> dict[Var, Range]:
    """Return the ranges of the loops between a place and a block below it."""
    found: dict[Var, Range] = {}
    for ref in inner.list_around():
        if ref is place:
            break
        if ref.is_loop:
            found[ref.loop.loop_var] = loop_range(ref.loop)
    return dict(reversed(found.items()))


def accesses_in(ref: Ref, buffer: Buffer, *, writes: bool) -> list[Access]:
    """List what a block reads or writes of a buffer, in terms of the loops around it."""
    return [
        a
        for a in nest_of(ref.realize).accesses
        if a.buffer.data is buffer.data and a.is_write is writes
    ]


def find_covering_box(
    place: Ref, users: Sequence[Ref], buffer: Buffer, *, written: bool = False
) -> list[Range]:
    """Return a box, within the buffer, that holds what blocks below a place read of it.

    With ``written``, it holds what they write as well.
    """
    body = place.loop.body if place.is_loop else place.block.body
    hidden = {id(n) for n in definitions_in(body)}
    analyzer = analyzer_for(_ranges_in(place))
    reads = [read for ref in users for read in _reads(place, ref, buffer, written)]
    return [_axis(axis, shape, reads, hidden, analyzer) for axis, shape in enumerate(buffer.shape)]


class _Read(NamedTuple):
    """One read, in terms of the loops around a block and of its iterators, with their ranges."""

    by: tuple[tuple[Access, Mapping[Var, Range]], ...]


def _reads(place: Ref, ref: Ref, buffer: Buffer, written: bool) -> list[_Read]:
    def accesses_of(realize: BlockRealize) -> list[Access]:
        return [
            a
            for a in nest_of(realize).accesses
            if a.buffer.data is buffer.data and (written or not a.is_write)
        ]

    loops, own = path_loops(place, ref), domains(ref.block)
    by_loops = accesses_of(ref.realize)
    iters = tuple(it.var for it in ref.block.iter_vars)
    by_iters = accesses_of(BlockRealize(iters, TRUE, ref.block))
    # Reads of the block's bindings come first; they mention only its loops.
    own_count = len(by_loops) - len(by_iters)
    made = [_Read(((a, loops),)) for a in by_loops[:own_count]]
    return made + [_Read(((a, loops), (b, own))) for a, b in zip(by_loops[own_count:], by_iters)]


def _ranges_in(place: Ref) -> dict[Var, Range]:
    """Return the ranges of what is bound where a place runs its parts."""
    own = domains(place.block) if not place.is_loop else {}
    if place.is_loop:
        own = {place.loop.loop_var: loop_range(place.loop)}
    return {**ranges_with_sizes(place), **own}


def _axis(
    axis: int,
    shape: PrimExpr,
    reads: Sequence[_Read],
    hidden: set[int],
    analyzer: Analyzer,
) -> Range:
    """Return the range of an axis that holds what is read."""
    dtype = shape.dtype
    one = imm(1, dtype)
    whole = (imm(0, dtype), analyzer.simplify(sub(shape, one)))
    ends: list[tuple[PrimExpr, PrimExpr]] = []
    for read in reads:
        low, high = whole
        for access, inner in read.by:
            found = find_ends(access.region[axis], inner, analyzer)
            if found is not None and is_known_outside(found, hidden):
                low = find_extreme(Max, (to_int(found.low, dtype), low), analyzer)
                high = find_extreme(Min, (to_int(found.high, dtype), high), analyzer)
        ends.append((low, high))
    lows, highs = zip(*(ends or [whole]))
    first, last = find_extreme(Min, lows, analyzer), find_extreme(Max, highs, analyzer)
    return Range(analyzer.simplify(first), analyzer.simplify(add(sub(last, first), one)))


def exactly(place: Ref, ref: Ref, indices: Sequence[PrimExpr]) -> list[Range] | None:
    """Return the box whose elements a block accesses below a place, each of them; None: no box.

    ``indices`` are in terms of the loops around the block.
    """
    inner = path_loops(place, ref)
    realize = ref.realize
    if not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
        return None
    if not runs_always(place, ref):
        return None
    analyzer = analyzer_for(_ranges_in(place))
    found = detect_iter_map(indices, inner, check_level="surjective", analyzer=analyzer)
    if not found.ok:
        return None
    made: list[Range] = []
    for index, value in zip(found.indices, indices):
        base, extent = index.base, cast("PrimExpr", imm(1, value.dtype))
        if index.args:
            (split,) = index.args
            if not isinstance(split.scale, IntImm) or split.scale.value not in (1, -1):
                return None
            extent = split.extent
            if split.scale.value < 0:
                base = analyzer.simplify(sub(base, sub(extent, imm(1, value.dtype))))
        if any(v in inner for v in pre_order(base)):
            return None
        made.append(Range(base, extent))
    return made


def runs_always(place: Ref, ref: Ref) -> bool:
    """Tell whether nothing but loops and sequences stands between a place and a block."""
    at: Ref = ref
    while at is not place:
        above = at.parent
        assert above is not None
        body = above.loop.body if above.is_loop else above.block.body
        parts = body.seq if isinstance(body, SeqStmt) else (body,)
        if not any(p is at.stmt for p in parts):
            return False
        at = above
    return True


def is_plain(block: Block) -> bool:
    """Tell whether a block evaluates all of its loads whenever it runs."""
    return not any(
        isinstance(n, (IfThenElse, While, And, Or))
        or (isinstance(n, For) and not (isinstance(n.extent, IntImm) and n.extent.value > 0))
        or (isinstance(n, BlockRealize) and bool(conjuncts(n.predicate)))
        or (isinstance(n, Call) and getattr(n.op, "name", "") == "tir.if_then_else")
        for n in pre_order(block)
    )


def store_of(block: Block, buffer: Buffer) -> BufferStore | None:
    """Find the one element of a buffer that each instance of a block stores to."""
    found: list[BufferStore] = []
    stack: list[Stmt] = [block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, SeqStmt):
            stack.extend(node.seq)
        elif isinstance(node, LetStmt):
            stack.append(node.body)
        elif isinstance(node, BufferStore) and node.buffer is buffer:
            found.append(node)
    return found[0] if found else None


def writes_whole(ref: Ref, buffer: Buffer) -> bool:
    """Tell whether a block certainly writes all elements of a buffer."""
    store = store_of(ref.block, buffer)
    if store is None or plain_indices(ref.block, store.indices) is None:
        return False
    if cannot_cover(ref) is not None or not runs_always(ref.scope, ref):
        return False
    analyzer = analyzer_for(sizes_of(ref))
    ranges = domains(ref.block)
    for index, extent in zip(store.indices, buffer.shape):
        if isinstance(index, Var):
            dom = ranges[index]
            full = dom.extent is not None and analyzer.can_prove_equal(dom.extent, extent)
            if not full or not analyzer.can_prove_equal(dom.min, 0):
                return False
        elif not analyzer.can_prove_equal(extent, 1):
            return False
    return True


# -- the copy ----------------------------------------------------------------------------------
def copy_nest(
    source: Buffer, target: Buffer, region: Sequence[Range], name: str, *, of_region: bool
) -> tuple[Stmt, BlockRealize]:
    """Make a nest that copies a box of a buffer to the same places of another.

    With ``of_region``, the box is the domain of the block's iterators; else the buffer is.
    """
    loops: list[Var] = []
    extents: list[PrimExpr] = []
    iters: list[IterVar] = []
    values: list[PrimExpr] = []
    for axis, (r, shape) in enumerate(zip(region, source.shape)):
        assert r.extent is not None
        dtype = shape.dtype
        loop, own = Var(f"ax{axis}", dtype), Var(f"v{axis}", dtype)
        loops.append(loop)
        extents.append(to_int(r.extent, dtype))
        low = to_int(r.min, dtype)
        dom = Range(low, extents[-1]) if of_region else Range(imm(0, dtype), shape)
        iters.append(IterVar(dom, own, IterVarType.DATA_PAR))
        values.append(add(low, loop))
    at = tuple(it.var for it in iters)
    one = tuple(Range(v, imm(1, v.dtype)) for v in at)
    block = Block(
        tuple(iters),
        (BufferRegion(source, one),),
        (BufferRegion(target, one),),
        name,
        BufferStore(target, BufferLoad(source, at), at),
    )
    realize = BlockRealize(tuple(values), TRUE, block)
    return nest_over(loops, extents, realize), realize


def insert_nest(
    scope: Ref,
    place: InsertionPoint,
    nest: Stmt,
    buffers: Sequence[Buffer],
    behind: Stmt | None = None,
) -> BlockRealize:
    """Return a scope with a nest put in a place below it, and with more buffers.

    ``behind`` is put after the part before which the nest is put.
    """
    parts = [part for part, _ in parts_of(place.ref)]
    rest = parts[place.at :]
    if behind is not None:
        rest.insert(1, behind)
    body = seq([*parts[: place.at], nest, *rest])
    owner = scope.block
    if place.ref is not scope:
        made = rebuild(place.ref.loop, {"body": body})
        assert place.ref.stmt is not None
        body = _replace_part(scope.block.body, place.ref.stmt, made)
    allocated = (*owner.alloc_buffers, *buffers)
    return rebuild(
        scope.realize, {"block": rebuild(owner, {"body": body, "alloc_buffers": allocated})}
    )


def _replace_part(root: Stmt, old: Stmt, new: Stmt) -> Stmt:
    made = replace_part(root, old, new)
    assert made is not None
    return made


def pair_blocks(old: Stmt, new: Stmt) -> dict[Block, Block]:
    """Map old blocks to new ones, where only names and indices changed."""
    before = [n for n in pre_order(old) if isinstance(n, Block)]
    after = [n for n in pre_order(new) if isinstance(n, Block)]
    assert len(before) == len(after)
    return dict(zip(before, after))


def cannot_run_at_once(ref: Ref, place: Ref, made: Stmt) -> Refusal | None:
    """Say which loop around a place runs its iterations at once, and may not any more."""
    scope = ref.scope
    outer = {**ranges_with_sizes(scope), **domains(scope.block)}
    around = [place, *place.list_around()] if place.is_loop else []
    loops = around[: next((n for n, r in enumerate(around) if r is scope), 0)]
    new = {n.loop_var: n for n in pre_order(made) if isinstance(n, For)} if loops else {}
    unsafe = find_unsafe_loop([new[ref.loop.loop_var] for ref in reversed(loops)], outer)
    if unsafe is None:
        return None
    bad, why = unsafe
    at = next(ref.stmt for ref in loops if ref.loop.loop_var is bad.loop_var)
    return Refusal("SCH0006", "{}", (why,), "mark loops after copies are in their places", at)
