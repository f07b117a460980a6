"""Narrow the regions of blocks that contain loops or blocks from whole axes to tiles."""

from __future__ import annotations

from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import children, pre_order
from loomir.loops.ranges import loop_range
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, Range
from loomir.tir.expr import GE, LE, And, IntImm, Let, PrimExpr, Var
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
)

__all__ = ["narrow_regions"]

_PLAIN = (For, BlockRealize, BufferStore, SeqStmt, IfThenElse, Evaluate)


class _Box(NamedTuple):
    buffer: Buffer
    region: tuple[Range, ...]
    is_write: bool


def narrow_regions(
    block: Block, reads: tuple[BufferRegion, ...], writes: tuple[BufferRegion, ...]
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Narrow whole axes in the regions of a block to what its loops can reach.

    The regions of blocks inside are taken as they are declared.
    """
    if block.match_buffers or not _loops_in(block):
        return reads, writes
    loops: dict[Var, Range] = {}
    boxes: list[_Box] = []
    for part in (block.body,) if block.init is None else (block.init, block.body):
        if not _collect(part, loops, boxes):
            return reads, writes
    analyzer = Analyzer()
    for it in block.iter_vars:
        if it.dom is not None:
            analyzer.bind(it.var, it.dom)
    hulls: dict[tuple[int, bool], list[Range | None]] = {}
    for box in boxes:
        axes = [_hull(r, loops, analyzer) for r in box.region]
        key = (id(box.buffer), box.is_write)
        known = hulls.get(key)
        if known is not None:
            axes = [_union(a, b, analyzer) for a, b in zip(known, axes, strict=True)]
        hulls[key] = axes

    def tight(region: BufferRegion, is_write: bool) -> BufferRegion:
        axes = hulls.get((id(region.buffer), is_write))
        if axes is None:
            return region
        whole = region.buffer.whole().region
        made = tuple(
            box
            if box is not None and structural_equal(r, w) and _is_inside(box, w, analyzer)
            else r
            for r, w, box in zip(region.region, whole, axes, strict=True)
        )
        return BufferRegion(region.buffer, made)

    return tuple(tight(r, False) for r in reads), tuple(tight(r, True) for r in writes)


def _loops_in(block: Block) -> bool:
    """Tell whether there is a loop or a block in a block."""
    stack: list[Stmt] = [block.body] if block.init is None else [block.init, block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            return True
        stack.extend(part for part in children(node) if isinstance(part, Stmt))
    return False


def _collect(stmt: Stmt, loops: dict[Var, Range], boxes: list[_Box]) -> bool:
    """List accesses in terms of loops; tell whether these are all."""
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if not isinstance(node, _PLAIN):
            return False
        if isinstance(node, BlockRealize):
            given = dict(zip((it.var for it in node.block.iter_vars), node.values, strict=True))
            for regions, is_write in ((node.block.reads, False), (node.block.writes, True)):
                for region in regions:
                    placed = substitute(region, given)
                    boxes.append(_Box(placed.buffer, placed.region, is_write))
            if not all(_loads(e, boxes) for e in (*node.values, node.predicate)):
                return False
            continue
        if isinstance(node, For):
            loops[node.loop_var] = loop_range(node)
        elif isinstance(node, BufferStore):
            boxes.append(_Box(node.buffer, _point(node.indices), True))
        for part in children(node):
            if isinstance(part, Stmt):
                stack.append(part)
            elif not _loads(part, boxes):
                return False
    return True


def _point(indices: tuple[PrimExpr, ...]) -> tuple[Range, ...]:
    return tuple(Range(i, None if i.dtype.lanes != 1 else imm(1, i.dtype)) for i in indices)


def _loads(part: Node, boxes: list[_Box]) -> bool:
    for node in pre_order(part):
        if isinstance(node, Let) or (isinstance(node, Var) and node.dtype.is_handle):
            return False
        if isinstance(node, BufferLoad):
            boxes.append(_Box(node.buffer, _point(node.indices), False))
    return True


def _hull(r: Range, loops: dict[Var, Range], analyzer: Analyzer) -> Range | None:
    """Return the range of all that a range is while loops run, None if this is not known."""
    if r.extent is None or r.min.dtype.lanes != 1:
        return None
    if any(isinstance(n, BufferLoad) for n in pre_order(r)):
        return None
    low = analyzer.int_set(r.min, loops).min_value
    last = analyzer.simplify(sub(add(r.min, to_int(r.extent, r.min.dtype)), imm(1, r.min.dtype)))
    high = analyzer.int_set(last, loops).max_value
    if low is None or high is None:
        return None
    high = to_int(high, low.dtype)
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
