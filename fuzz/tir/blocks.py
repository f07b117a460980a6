"""Random blocks: iterators, reductions with init, predicates, matched regions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fuzz.tir.expressions import INT32, INT64, Context, UsableBuffer
from fuzz.tir.statements import Maker, Statements
from loomir.ir.visit import pre_order
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    TRUE,
    Add,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IterVar,
    IterVarType,
    Let,
    MatchBufferRegion,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Stmt,
    Var,
    const,
    decl_buffer,
    seq,
)
from loomir.tir.analysis.access_regions import infer_access_regions

__all__ = ["Blocks"]


def _without_names(region: BufferRegion) -> BufferRegion:
    """Return the region, or all of the buffer where it would bind a name a second time."""
    named = any(isinstance(p, Let) for p in pre_order(region))
    return region.buffer.whole() if named else region


class Blocks:
    """Draws blocks, with the loops around them."""

    def __init__(self, statements: Statements) -> None:
        self.s = statements
        self.c = statements.c
        self.exprs = statements.exprs

    def makers(self) -> list[tuple[float, Maker]]:
        """Return the kinds of blocks with their weights."""
        weight = 3.0 if self.exprs.policy.favours == "blocks" else 1.0
        return [
            (1.2 * weight, self.spatial),
            (1.2 * weight, self.reduction),
            (0.8 * weight, self.split),
            (0.8 * weight, self.matched),
            (0.6 * weight, self.allocating),
        ]

    def _block(
        self,
        axes: list[tuple[IterVar, PrimExpr]],
        body: Stmt,
        where: PrimExpr = TRUE,
        init: Stmt | None = None,
        alloc_buffers: tuple[Buffer, ...] = (),
        match_buffers: tuple[MatchBufferRegion, ...] = (),
    ) -> BlockRealize:
        self.s.has_blocks = True
        inside = {
            id(p.buffer) for p in pre_order(body) if isinstance(p, (DeclBuffer, BufferRealize))
        }
        reads, writes = (
            tuple(_without_names(r) for r in regions if id(r.buffer) not in inside)
            for regions in infer_access_regions(body, init, alloc_buffers, match_buffers)
        )
        made = Block(
            tuple(it for it, _ in axes),
            reads,
            writes,
            self.exprs.name("block"),
            body,
            init,
            alloc_buffers,
            match_buffers,
        )
        return BlockRealize(tuple(v for _, v in axes), where, made)

    def _axis(self, extent: int, dtype: DataType, kind: IterVarType) -> IterVar:
        dom = Range(const(0, dtype), const(extent, dtype))
        return IterVar(dom, Var(self.exprs.name("v"), dtype), kind)

    def _affordable(self, ctx: Context, count: int) -> bool:
        return ctx.repeat * count * 6 <= self.s.budget - self.exprs.cost

    def _loops(self, names: list[tuple[Var, int]], body: Stmt) -> Stmt:
        for name, extent in reversed(names):
            dtype = name.dtype
            body = For(name, const(0, dtype), const(extent, dtype), ForKind.SERIAL, body)
        return body

    # -- kinds ---------------------------------------------------------------------------------
    def spatial(self, ctx: Context, depth: int) -> Stmt | None:
        """Run a body for each point of a box, maybe only where a predicate holds."""
        c = self.c
        dtype = c.pick([INT32, INT32, INT64])
        extents = [c.pick([1, 2, 3, 4]) for _ in range(c.integer(1, 3))]
        total = 1
        for extent in extents:
            total *= extent
        if not self._affordable(ctx, total):
            return None
        loops = [(Var(self.exprs.name("i"), dtype), e) for e in extents]
        kind = c.pick(
            [IterVarType.DATA_PAR, IterVarType.DATA_PAR, IterVarType.ORDERED, IterVarType.OPAQUE]
        )
        axes = [(self._axis(e, dtype, kind), v) for v, e in loops]
        outer = ctx
        inner = ctx
        for (var, extent), (it, _) in zip(loops, axes, strict=True):
            outer = outer.with_index(var, 0, extent - 1)
            inner = inner.with_index(it.var, 0, extent - 1)
        inner = replace(inner, repeat=ctx.repeat * total, jumps=False)
        where = self.exprs.expr(outer, BOOL, 2) if c.chance(0.3) else TRUE
        body = self.s.block_of(inner, min(depth, 1))
        init = None
        if c.chance(0.15):
            init = self.s.store(inner, 0)
        return self._loops(loops, self._block([*axes], body, where, init))

    def split(self, ctx: Context, depth: int) -> Stmt | None:
        """Run over one axis in two loops, with a predicate where they do not divide it."""
        c = self.c
        extent, factor = c.pick([5, 7, 8, 10, 11]), c.pick([2, 3, 4])
        outer_extent = -(-extent // factor)
        if not self._affordable(ctx, outer_extent * factor):
            return None
        outer, inner = (Var(self.exprs.name("i"), INT32) for _ in range(2))
        index = Add(Mul(outer, const(factor, INT32)), inner)
        axis = self._axis(extent, INT32, IterVarType.DATA_PAR)
        here = ctx.with_index(axis.var, 0, extent - 1)
        here = replace(here, repeat=ctx.repeat * outer_extent * factor, jumps=False)
        body = self.s.block_of(here, min(depth, 1))
        made = self._block([(axis, index)], body, index < const(extent, INT32))
        loops = [(outer, outer_extent), (inner, factor)]
        if c.chance(0.3):
            loops.reverse()
        return self._loops(loops, made)

    def reduction(self, ctx: Context, depth: int) -> Stmt | None:
        """Reduce into a buffer, which init starts."""
        c = self.c
        fits = [
            k
            for k in ctx.buffers
            if k.writable and not k.pinned and all(0 < e <= 8 for e in k.extents)
        ]
        if not fits:
            return None
        known = c.pick(fits)
        dtype = c.pick([INT32, INT32, INT64])
        length, factor = c.pick([1, 2, 3, 4, 6, 8]), 1
        if length % 2 == 0 and c.chance(0.4):
            factor = 2
        total = length
        for extent in known.extents:
            total *= extent
        if not self._affordable(ctx, total):
            return None
        spatial = [(Var(self.exprs.name("i"), dtype), e) for e in known.extents]
        axes = [(self._axis(e, dtype, IterVarType.DATA_PAR), v) for v, e in spatial]
        reduced = self._axis(length, dtype, IterVarType.COMM_REDUCE)
        names, value = self._reducing(dtype, length, factor)
        inner = ctx
        for it, _ in axes:
            assert it.dom is not None
            inner = inner.with_index(
                it.var, 0, known.extents[len(inner.indices) - len(ctx.indices)] - 1
            )
        start_ctx = replace(inner, repeat=ctx.repeat * total, jumps=False)
        inner = start_ctx.with_index(reduced.var, 0, length - 1)
        at = tuple(it.var for it, _ in axes)
        element = known.buffer.dtype
        start = BufferStore(known.buffer, self.exprs.expr(start_ctx, element, 1), at)
        so_far: PrimExpr = BufferLoad(known.buffer, at)
        kinds: list[Any] = [Add, Mul, Max, Min]
        step = c.pick(kinds)(so_far, self.exprs.expr(inner, element, 2))
        body: Stmt = BufferStore(known.buffer, step, at)
        made = self._block([*axes, (reduced, value)], body, TRUE, start)
        loops = [*spatial, *names]
        if c.chance(0.3):
            loops = [*names, *spatial]
        return self._loops(loops, made)

    def _reducing(
        self, dtype: DataType, length: int, factor: int
    ) -> tuple[list[tuple[Var, int]], PrimExpr]:
        """Return the loops of a reduced axis, split or not, and the axis's value in them."""
        one = Var(self.exprs.name("k"), dtype)
        if factor == 1:
            return [(one, length)], one
        two = Var(self.exprs.name("k"), dtype)
        value = Add(Mul(one, const(factor, dtype)), two)
        return [(one, length // factor), (two, factor)], value

    def matched(self, ctx: Context, depth: int) -> Stmt | None:
        """Return a region of a buffer a name of its own."""
        c = self.c
        fits = [k for k in ctx.buffers if all(k.extents) and k.extents and not k.pinned]
        if not fits or not ctx.private:
            return None
        known = c.pick(fits)
        ranges: list[Range] = []
        lengths: list[int] = []
        for extent in known.extents:
            length = c.pick([extent, c.integer(1, extent), 1])
            least = self.exprs.index(ctx, extent - length + 1, 0)
            ranges.append(Range(least, const(length, least.dtype)))
            lengths.append(length)
        while len(lengths) > 1 and lengths[0] == 1 and c.chance(0.7):
            lengths = lengths[1:]
        source = known.buffer
        buffer = decl_buffer(lengths, source.dtype, self.exprs.name("M"), scope=source.scope)
        match = MatchBufferRegion(buffer, BufferRegion(source, tuple(ranges)))
        other = UsableBuffer(buffer, tuple(lengths), (), known.writable, known.root, passable=False)
        inner = replace(ctx, buffers=(*ctx.buffers, other), jumps=False)
        body = self.s.block_of(inner, depth)
        return self._block([], body, match_buffers=(match,))

    def allocating(self, ctx: Context, depth: int) -> Stmt | None:
        """Allocate in a block."""
        buffer, shape = self.s.fresh()
        filled = self.s.fill(ctx, buffer, shape)
        known = UsableBuffer(buffer, shape, root=id(buffer))
        inner = replace(ctx, buffers=(*ctx.buffers, known), jumps=False)
        body = self.s.block_of(inner, depth)
        return self._block([], seq([filled, body]), alloc_buffers=(buffer,))
