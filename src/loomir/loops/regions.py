"""Derive the regions of blocks: those around loops and blocks are narrowed to tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import children, pre_order, rebuild, rewrite
from loomir.loops.bounds import find_ends
from loomir.loops.ranges import analyzer_for, domains, loop_range
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.buffer import BufferLoad, BufferRegion, Range
from loomir.tir.expr import GE, LE, And, IntImm, Let, Var
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)

__all__ = ["KEPT", "block_regions", "box_of", "narrow_regions"]

_PLAIN = (For, BlockRealize, BufferStore, SeqStmt, IfThenElse, Evaluate)


KEPT: Final = 512
"""How many blocks and nests are cached: an edit leaves most of a program unchanged."""
Regions: TypeAlias = tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]
"""What a block reads, and what it writes."""


@lru_cache(maxsize=KEPT)
def block_regions(block: Block) -> Regions:
    """Return what a block reads and writes, by what it does and not by what it declares.

    What a reduction updates counts as read as well.
    """
    body = block.body if block.init is None else seq((block.init, block.body))
    body = rewrite(body, {Block: _declare_accesses})  # blocks inside may declare anything
    return _regions(rebuild(block, {"body": body, "init": None}))


def _regions(block: Block) -> Regions:
    found = infer_access_regions(block.body, None, block.alloc_buffers, block.match_buffers)
    return narrow_regions(block, *found)


def _declare_accesses(block: Block) -> Block:
    """Return a block that declares what it does."""
    body = block.body if block.init is None else seq((block.init, block.body))
    reads, writes = _regions(rebuild(block, {"body": body, "init": None}))
    return rebuild(block, {"reads": reads, "writes": writes})


def box_of(node: BufferLoad | BufferStore) -> BufferRegion:
    """Return an element as a box, all of an axis whose index is a vector."""
    pairs = zip(node.indices, node.buffer.whole().region)
    box = (whole if i.dtype.lanes != 1 else Range(i, imm(1, i.dtype)) for i, whole in pairs)
    return BufferRegion(node.buffer, tuple(box))


def narrow_regions(
    block: Block, reads: tuple[BufferRegion, ...], writes: tuple[BufferRegion, ...]
) -> Regions:
    """Narrow whole axes in the regions of a block to what its loops can reach.

    The regions of blocks inside are taken as they are declared.
    """
    if block.match_buffers or not _loops_in(block):
        return reads, writes
    loops: dict[Var, Range] = {}
    found: tuple[list[BufferRegion], list[BufferRegion]] = [], []
    for part in (block.body,) if block.init is None else (block.init, block.body):
        if not _collect(part, loops, *found):
            return reads, writes
    analyzer = analyzer_for(domains(block))

    def narrow(
        regions: Iterable[BufferRegion], boxes: list[BufferRegion]
    ) -> Iterator[BufferRegion]:
        hulls: dict[int, list[Range | None]] = {}
        for box in boxes:
            axes = [_hull(r, loops, analyzer) for r in box.region]
            known = hulls.get(id(box.buffer))
            if known is not None:
                axes = [_union(a, b, analyzer) for a, b in zip(known, axes, strict=True)]
            hulls[id(box.buffer)] = axes
        for region in regions:
            axes = hulls.get(id(region.buffer))
            yield region if axes is None else tighten(region, axes)

    def tighten(region: BufferRegion, axes: list[Range | None]) -> BufferRegion:
        whole = region.buffer.whole().region
        made = tuple(
            box
            if box is not None and structural_equal(r, w) and _is_inside(box, w, analyzer)
            else r
            for r, w, box in zip(region.region, whole, axes, strict=True)
        )
        return BufferRegion(region.buffer, made)

    return tuple(narrow(reads, found[0])), tuple(narrow(writes, found[1]))


def _loops_in(block: Block) -> bool:
    """Tell whether there is a loop or a block in a block."""
    stack: list[Stmt] = [block.body] if block.init is None else [block.init, block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            return True
        stack.extend(part for part in children(node) if isinstance(part, Stmt))
    return False


def _collect(
    stmt: Stmt,
    loops: dict[Var, Range],
    reads: list[BufferRegion],
    writes: list[BufferRegion],
) -> bool:
    """List accesses in terms of loops; tell whether these are all."""
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if not isinstance(node, _PLAIN):
            return False
        if isinstance(node, BlockRealize):
            given = dict(zip((it.var for it in node.block.iter_vars), node.values, strict=True))
            reads += [substitute(region, given) for region in node.block.reads]
            writes += [substitute(region, given) for region in node.block.writes]
            if not all(_loads(e, reads) for e in (*node.values, node.predicate)):
                return False
            continue
        if isinstance(node, For):
            loops[node.loop_var] = loop_range(node)
        elif isinstance(node, BufferStore):
            writes.append(box_of(node))
        for part in children(node):
            if isinstance(part, Stmt):
                stack.append(part)
            elif not _loads(part, reads):
                return False
    return True


def _loads(part: Node, reads: list[BufferRegion]) -> bool:
    for node in pre_order(part):
        if isinstance(node, Let) or (isinstance(node, Var) and node.dtype.is_handle):
            return False
        if isinstance(node, BufferLoad):
            reads.append(box_of(node))
    return True


def _hull(r: Range, loops: dict[Var, Range], analyzer: Analyzer) -> Range | None:
    """Return the range of all that a range is while loops run, None if this is not known."""
    if r.extent is None or r.min.dtype.lanes != 1:
        return None
    if any(isinstance(n, BufferLoad) for n in pre_order(r)):
        return None
    ends = find_ends(r, loops, analyzer)
    if ends is None:
        return None
    low, high = ends.low, to_int(ends.high, ends.low.dtype)
    if any(v in loops for e in (low, high) for v in free_definitions(e)):
        return None
    extent = analyzer.simplify(add(sub(high, low), imm(1, low.dtype)))
    return Range(analyzer.simplify(low), extent)


def _union(a: Range | None, b: Range | None, analyzer: Analyzer) -> Range | None:
    if a is None or b is None or a.extent is None or b.extent is None:
        return None
    if structural_equal(a, b):
        return a
    dtype = a.min.dtype
    start = analyzer.simplify(sub(to_int(b.min, dtype), a.min))
    gap = analyzer.simplify(sub(add(start, to_int(b.extent, dtype)), to_int(a.extent, dtype)))
    if not isinstance(start, IntImm) or not isinstance(gap, IntImm):
        return None
    low = a.min if start.value >= 0 else to_int(b.min, dtype)
    end = add(a.min, to_int(a.extent, dtype))
    if gap.value > 0:
        end = add(to_int(b.min, dtype), to_int(b.extent, dtype))
    return Range(low, analyzer.simplify(sub(end, low)))


def _is_inside(box: Range, whole: Range, analyzer: Analyzer) -> bool:
    assert box.extent is not None
    assert whole.extent is not None
    end = add(box.min, to_int(box.extent, box.min.dtype))
    limit = to_int(whole.extent, box.min.dtype)
    return analyzer.can_prove(And(GE(box.min, imm(0, box.min.dtype)), LE(end, limit)))
