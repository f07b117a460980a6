"""Check that a block may move: what surrounds it, and which blocks produce and consume its data."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.iterators.map import detect_iter_map
from loomir.ir.visit import children, map_children, pre_order, rebuild
from loomir.loops.accesses import Nest, nest_of
from loomir.loops.ranges import analyzer_for, loop_range
from loomir.loops.regions import block_regions, narrow_regions
from loomir.schedule.blocks import complete_mistake, reduction_mistake
from loomir.schedule.nests import sizes_of
from loomir.schedule.refusal import Refusal
from loomir.schedule.state import Ref
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType, MatchBufferRegion
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt

__all__ = [
    "cannot_cover",
    "cannot_feed",
    "common_place",
    "inner_buffer",
    "part_with",
    "parts_of",
    "plain_indices",
    "refresh_regions",
    "remove_block",
    "repeatable",
    "users",
]


def cannot_cover(ref: Ref) -> Refusal | None:
    """Say why a block does not certainly run at each point of its domain."""
    realize = ref.realize
    loops = {r.loop.loop_var: loop_range(r.loop) for r in ref.loops()}
    analyzer = analyzer_for(sizes_of(ref))
    found = detect_iter_map(
        realize.values,
        loops,
        realize.predicate,
        # What is summed twice is another sum; what is stored twice is the same.
        check_level="bijective" if realize.block.is_reduction else "surjective",
        analyzer=analyzer,
    )
    why = str(found.errors[0].message) if found.errors else ""
    for it, made in zip(realize.block.iter_vars, found.indices):
        if it.dom is None or it.dom.extent is None:
            continue
        extent: PrimExpr = IntImm(1, it.var.dtype)
        scale: PrimExpr = extent
        if made.args:
            extent, scale = made.args[0].extent, made.args[0].scale
        same = (
            analyzer.can_prove_equal(made.base, it.dom.min)
            and analyzer.can_prove_equal(extent, it.dom.extent)
            and analyzer.can_prove_equal(scale, 1)
        )
        if not same:
            why = why or f"{it.var.name_hint!r} does not take each value of its domain"
    if not why:
        return None
    return Refusal(
        "SCH0007",
        "block {!r} does not run exactly once for each point of its domain: {}",
        (realize.block.name_hint, why),
        "choose a block whose loops cover its whole domain",
        realize,
    )


def inner_buffer(ref: Ref) -> Buffer | Refusal:
    """Return the buffer that a block writes, if it writes one that only its scope knows."""
    _, writes = block_regions(ref.block)
    name = ref.block.name_hint
    allocated = {id(b) for b in ref.scope.block.alloc_buffers}
    if len(writes) != 1 or id(writes[0].buffer) not in allocated:
        return Refusal(
            "SCH0007",
            "block {!r} does not only write one buffer of its scope",
            (name,),
            "choose a block that computes an intermediate result",
            ref.stmt,
        )
    return writes[0].buffer


def plain_indices(block: Block, indices: Sequence[PrimExpr]) -> dict[Var, int] | None:
    """Say which axis each spatial iterator is the index of, None if indices are else.

    Iterators of one value need not be an index, and an index may be a constant.
    """
    axes: dict[Var, int] = {}
    own = {it.var: it for it in block.iter_vars}
    for axis, index in enumerate(indices):
        if isinstance(index, Var):
            it = own.get(index)
            if index in axes or it is None or it.iter_type is not IterVarType.DATA_PAR:
                return None
            axes[index] = axis
        elif not isinstance(index, IntImm):
            return None
    for it in block.iter_vars:
        if it.iter_type is IterVarType.DATA_PAR and it.var not in axes:
            extent = None if it.dom is None else it.dom.extent
            if not (isinstance(extent, IntImm) and extent.value == 1):
                return None
    return axes


def common_place(a: Ref, b: Ref) -> Ref:
    """Return the innermost loop or block around both of two references of one scope."""
    above = {id(r) for r in (a, *a.list_around())}
    return next(r for r in (b, *b.list_around()) if id(r) in above)


def parts_of(place: Ref) -> list[tuple[Stmt, Nest]]:
    """List the statements that a loop or block runs one after the other, with their accesses."""
    body = place.loop.body if place.is_loop else place.block.body
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    return [(part, nest_of(part)) for part in parts]


def part_with(parts: Sequence[tuple[Stmt, Nest]], place: Ref, inner: Ref) -> int:
    """Return the number of the part in which a reference below ``place`` stands."""
    path = [inner, *inner.list_around()]
    below = path[next(n for n, r in enumerate(path) if r is place) - 1]
    for number, (part, _) in enumerate(parts):
        if any(node is below.stmt for node in _outside_blocks(part)):
            return number
    return len(parts)


def _outside_blocks(stmt: Stmt) -> list[Stmt]:
    found: list[Stmt] = []
    stack = [stmt]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, (For, BlockRealize)) or (node is stmt and isinstance(node, For)):
            stack.extend(s for s in children(node) if isinstance(s, Stmt))
    return found


def users(scope: Ref, buffer: Buffer) -> tuple[list[Ref], list[Ref], str]:
    """List the blocks of a scope that write and that read a buffer, and who else may touch it."""
    writers: list[Ref] = []
    readers: list[Ref] = []
    for ref in scope.blocks():
        reads, writes = block_regions(ref.block)
        if any(r.buffer.data is buffer.data for r in writes):
            writers.append(ref)
        elif any(r.buffer.data is buffer.data for r in reads):
            readers.append(ref)
    return writers, readers, _describe_other_use(scope.block.body, buffer)


def _describe_other_use(body: Stmt, buffer: Buffer) -> str:
    """Name a use of a buffer that is no load or store of a block."""
    stack: list[Stmt] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            continue
        if isinstance(node, BufferStore) and node.buffer.data is buffer.data:
            return "a statement outside of blocks writes it"
        for part in children(node):
            if isinstance(part, Stmt):
                stack.append(part)
            elif any(
                isinstance(n, BufferLoad) and n.buffer.data is buffer.data for n in pre_order(part)
            ):
                return "a statement outside of blocks reads it"
    for node in pre_order(body):
        if node is buffer.data:
            return "its pointer is used"
        if isinstance(node, MatchBufferRegion) and node.source.buffer.data is buffer.data:
            return "a view of it is used"
        if isinstance(node, (BufferLoad, BufferStore)):
            other = node.buffer
            if other.data is buffer.data and other is not buffer:
                return "another buffer has its memory"
    return ""


def repeatable(ref: Ref) -> str:
    """Say why running instances of a block again could change something; empty if not."""
    return complete_mistake(ref.block) and reduction_mistake(ref.block)


def cannot_feed(
    ref: Ref, place: Ref, first: int, last: int, besides: Buffer | None = None
) -> Refusal | None:
    """Say why what a block reads is not the same anywhere from one part of ``place`` to another.

    ``first`` and ``last`` are numbers of parts: what it reads may be written before these only, by
    blocks that always write the same; ``besides`` is looked at elsewhere.
    """
    reads, _ = block_regions(ref.block)
    wanted = {id(r.buffer.data): r.buffer for r in reads if r.buffer is not besides}
    for number, (_, nest) in enumerate(parts_of(place)):
        if nest.obstacle and (place.is_loop or first <= number <= last):
            return Refusal(
                "SCH0006",
                "block {!r} cannot be moved past code with unknown effects: {}",
                (ref.block.name_hint, nest.obstacle),
                "move it to a place with nothing else in between",
                ref.stmt,
            )
        for access in nest.accesses:
            if not access.is_write or id(access.buffer.data) not in wanted:
                continue
            if first <= number <= last and not _is_only_writer(ref, access.buffer):
                return _change_refusal(ref, access.buffer, "is written between there and here")
    if place.is_loop:  # what other iterations leave must be the same as well
        for buffer in wanted.values():
            writers, _, other = users(ref.scope, buffer)
            inside = [w for w in writers if w is not ref and place in w.list_around()]
            if (other and inside) or any(repeatable(w) for w in inside):
                return _change_refusal(
                    ref, buffer, "is written by something that may change it again"
                )
    return None


def _is_only_writer(ref: Ref, buffer: Buffer) -> bool:
    """Tell whether a block is the only one of its scope that writes a buffer."""
    writers, _, other = users(ref.scope, buffer)
    return not other and all(w is ref for w in writers)


def _change_refusal(ref: Ref, buffer: Buffer, why: str) -> Refusal:
    return Refusal(
        "SCH0006",
        "{!r}, which block {!r} reads, {}",
        (buffer.name, ref.block.name_hint, why),
        "move the block to a place before what changes its operands",
        ref.stmt,
    )


def remove_block(root: Stmt, leaf: Stmt) -> Stmt | None:
    """Remove a block from a statement, with the loops that become empty; None if all do."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        if node is leaf:
            return _remove_empty(leaf, above)
        inner = (*above, node)
        if not isinstance(node, BlockRealize) or node is root:
            stack.extend((s, inner) for s in children(node) if isinstance(s, Stmt))
    return root


def _remove_empty(leaf: Stmt, above: tuple[Stmt, ...]) -> Stmt | None:
    old: Stmt = leaf
    made: Stmt | None = None
    for owner in reversed(above):
        if made is None:
            if isinstance(owner, SeqStmt):
                rest = tuple(s for s in owner.seq if s is not old)
                made = rest[0] if len(rest) == 1 else SeqStmt(rest)
            elif isinstance(owner, Block):
                made = rebuild(owner, {"body": SeqStmt(())})
        else:
            made = _put(owner, old, made)
        old = owner
    return made


def _put(owner: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return map_children(owner, lambda part: new if part is old else part)


def refresh_regions(block: Block) -> Block:
    """Return a block that declares what it reads and writes now."""
    reads, writes = infer_access_regions(
        block.body, block.init, block.alloc_buffers, block.match_buffers
    )
    reads, writes = narrow_regions(block, reads, writes)
    return rebuild(block, {"reads": reads, "writes": writes})
