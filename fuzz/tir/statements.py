"""Random statements with one meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fuzz.tir.expressions import INT32, INT64, Context, Expressions, Helper, Place, UsableBuffer
from fuzz.tir.functions import inexact_names
from loomir.ir.module import GlobalVar
from loomir.ir.visit import of_classes
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    BUILTINS,
    TRUE,
    Add,
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    IterVarType,
    LetStmt,
    Max,
    Min,
    Mul,
    Or,
    PointerType,
    PrimExpr,
    PrimType,
    Range,
    Stmt,
    StringImm,
    Sub,
    Var,
    While,
    call_builtin,
    const,
    decl_buffer,
    seq,
)

__all__ = ["Maker", "Statements"]

Maker = Callable[[Context, int], Stmt | None]
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z")


class Statements:
    """Draws statements for one program; a maker that cannot make anything gives None."""

    def __init__(self, exprs: Expressions, budget: int) -> None:
        self.exprs = exprs
        self.c = exprs.choices
        self.budget = budget
        self.maths: UsableBuffer | None = None
        self.has_blocks = False
        favours = self.favours = exprs.policy.favours
        self.makers: list[tuple[float, Maker]] = [
            (4.0, self.store),
            (2.0 * (3 if favours == "vectors" else 1), self.vector_store),
            (5.0 * (2 if favours == "loops" else 1), self.loop),
            (0.4 * (12 if favours == "stencil" else 1), self.stencil),
            (1.5 * (4 if favours == "parallel" else 1), self.parallel_loop),
            (1.5, self.choice),
            (1.2, self.let),
            (0.8, self.while_loop),
            (0.6, self.holds),
            (0.4, self.attribute),
            (1.0, self.allocation),
            (0.6, self.alias),
            (0.3, self.realized),
            (1.0, self.call),
            (0.3, self.evaluate),
            (0.9, self.jump),
            (0.4, self.early_return),
            (0.5, self.math_store),
        ]

    # -- sequences -----------------------------------------------------------------------------
    def several(self, ctx: Context, depth: int) -> list[Stmt]:
        """Draw one to four statements, or more where they are small loops."""
        counts = [
            [(3.0, 1), (2.0, 2)],
            [(3.0, 1), (3.0, 2), (1.0, 3)],
            [(3.0, 1), (4.0, 2), (2.0, 3), (1.0, 4)],
        ]
        count = self.c.weighted(counts[self.exprs.policy.size])
        if self.favours == "loops" and depth >= 2:
            count += self.c.integer(1, 3)
        return [self.statement(ctx, depth) for _ in range(count)]

    def block_of(self, ctx: Context, depth: int) -> Stmt:
        """Draw a body."""
        return seq(self.several(ctx, depth))

    def statement(self, ctx: Context, depth: int) -> Stmt:
        """Draw a statement."""
        spent = self.exprs.cost > self.budget or self.exprs.drawn > self.exprs.most
        if depth > 0 and not spent:
            for _ in range(4):
                made = self.c.weighted(self.makers)(ctx, depth - 1)
                if made is not None:
                    return made
        return self.store(ctx, 0) or Evaluate(const(0, INT32))

    # -- stores --------------------------------------------------------------------------------
    def _writable(self, ctx: Context) -> list[UsableBuffer]:
        return [k for k in ctx.buffers if k.writable and all(k.extents)]

    def store(self, ctx: Context, depth: int) -> Stmt | None:
        """Store into an element."""
        return self._store(ctx, 1)

    def vector_store(self, ctx: Context, depth: int) -> Stmt | None:
        """Store into several elements of the last axis."""
        return self._store(ctx, self.c.pick([2, 4, 8]))

    def _store(self, ctx: Context, lanes: int) -> Stmt | None:
        fits = self._writable(ctx)
        if not fits:
            return None
        known = self.c.pick(fits)
        indices = self.exprs.access(ctx, known, lanes)
        if indices is None:
            return None
        if self.exprs.cost + ctx.repeat * lanes * 20 > self.budget:
            value = self.exprs.leaf(ctx, known.buffer.dtype.with_lanes(lanes))
        else:
            value = self.exprs.expr(ctx, known.buffer.dtype.with_lanes(lanes))
        return BufferStore(known.buffer, value, indices)

    def math_store(self, ctx: Context, depth: int) -> Stmt | None:
        """Store the result of a function that engines may round differently."""
        known = self.maths
        if known is None or not ctx.private or ctx.vectorized:
            return None
        name = self.c.pick(inexact_names())
        dtype = known.buffer.dtype
        args = [self.exprs.expr(ctx, dtype, 1) for _ in range(BUILTINS[name].arity or 1)]
        indices = self.exprs.access(ctx, known, 1)
        return (
            None
            if indices is None
            else BufferStore(known.buffer, call_builtin(name, *args), indices)
        )

    # -- loops ---------------------------------------------------------------------------------
    def _bounds(self, ctx: Context) -> tuple[Var, PrimExpr, PrimExpr, int, int] | None:
        """Draw a loop variable, its bounds, and their values: the start, and how many times."""
        c = self.c
        names = [i for i in ctx.indices if i.low == i.high and i.var.name_hint.startswith("n")]
        if names and c.chance(0.3):
            known = c.pick(names)
            dtype, count = known.var.dtype, known.low
            start, extent = 0, known.var
            least: PrimExpr = const(0, dtype)
        else:
            dtype = c.pick([INT32, INT32, INT32, INT64, DataType("int16"), DataType("uint8")])
            start = c.weighted([(5, 0), (1, c.integer(1, 4))])
            if start == 0 and dtype.is_int and c.chance(0.05):
                start = -c.integer(1, 4)
            extents = [e for k in ctx.buffers for e in k.extents if 0 < e <= 32] or [4]
            small = [1, 2, 3, 4]
            count = c.pick(small if self.favours == "loops" else [*extents, *extents, *small])
            if c.chance(0.04):
                count = 0
            least, extent = const(start, dtype), const(count, dtype)
            if dtype.is_int and c.chance(0.02):
                extent, count = const(-3, dtype), 0
        if ctx.repeat * max(count, 1) * 4 > self.budget - self.exprs.cost:
            return None
        name = Var(self.exprs.name("i"), dtype)
        return name, least, extent, start, count

    def _inside(self, ctx: Context, var: Var, start: int, count: int) -> Context:
        inner = ctx.with_index(var, start, start + count - 1)
        return replace(inner, repeat=ctx.repeat * max(count, 1))

    def loop(self, ctx: Context, depth: int) -> Stmt | None:
        """Loop in order, written as serial or unrolled."""
        bounds = self._bounds(ctx)
        if bounds is None:
            return None
        var, least, extent, start, count = bounds
        kind = self.c.weighted([(5, ForKind.SERIAL), (1, ForKind.UNROLLED)])
        inner = self._inside(ctx, var, start, count)
        inner = replace(inner, jumps=kind is ForKind.SERIAL)
        return For(var, least, extent, kind, self.block_of(inner, depth))

    def stencil(self, ctx: Context, depth: int) -> Stmt | None:
        """Combine the neighbours along an axis, into another array or in place."""
        c = self.c
        fits = [k for k in self._writable(ctx) if not k.pinned and max((*k.extents, 0)) >= 3]
        if not fits:
            return None
        to = c.pick(fits)
        axis = c.pick([a for a, e in enumerate(to.extents) if e >= 3])
        count = to.extents[axis] - 2
        if ctx.repeat * count * 12 > self.budget - self.exprs.cost:
            return None
        var = Var(self.exprs.name("i"), c.pick([INT32, INT64]))
        here = self._inside(ctx, var, 1, count)
        drawn = self.exprs.access(here, to, 1, 0)
        like = [k for k in ctx.buffers if k.buffer.dtype is to.buffer.dtype]
        source = c.pick([k for k in like if k.extents == to.extents and not k.pinned] or [to])
        if drawn is None:
            return None

        def at(shift: int) -> tuple[PrimExpr, ...]:
            moved = var if shift == 0 else Add(var, const(shift, var.dtype))
            return (*drawn[:axis], moved, *drawn[axis + 1 :])

        kinds: list[Any] = [Add, Sub, Mul, Max, Min]
        value: PrimExpr = BufferLoad(source.buffer, at(-1))
        for shift in (0, 1):
            value = c.pick(kinds)(value, BufferLoad(source.buffer, at(shift)))
        if c.chance(0.5):
            value = c.pick(kinds)(value, self.exprs.expr(here, value.dtype, 1))
        self.exprs.cost += here.repeat * 5
        kind = c.weighted([(4, ForKind.SERIAL), (1, ForKind.UNROLLED)])
        body = BufferStore(to.buffer, value, at(0))
        return For(var, const(1, var.dtype), const(count, var.dtype), kind, body)

    def parallel_loop(self, ctx: Context, depth: int) -> Stmt | None:
        """Loop in any order: each iteration has elements of its own, or only reads."""
        c, bounds = self.c, self._bounds(ctx)
        if bounds is None:
            return None
        var, least, extent, start, count = bounds
        kind = c.pick(
            [
                ForKind.PARALLEL,
                ForKind.PARALLEL,
                ForKind.VECTORIZED,
                ForKind.VECTORIZED,
                ForKind.THREAD_BINDING,
            ]
        )
        inner = replace(
            self._inside(ctx, var, start, count),
            buffers=self._iteration_arrays(ctx, var, start, start + count),
            jumps=False,
            returns=None,
            private=False,
            vectorized=ctx.vectorized or kind is ForKind.VECTORIZED,
        )
        body = self.block_of(inner, depth)
        if c.chance(0.1):
            key = c.pick(["thread_extent", "virtual_thread"])
            if start == 0 and isinstance(extent, IntImm) and count > 0:
                return AttrStmt(var, key, extent, body)
        thread = None
        if kind is ForKind.THREAD_BINDING:
            inside = {
                f.thread_binding.thread_tag for f in of_classes(body, For) if f.thread_binding
            }
            free = [tag for tag in THREADS if tag not in inside]  # a thread has one index
            if free:
                thread = IterVar(None, var, IterVarType.THREAD_INDEX, c.pick(free))
            else:
                kind = ForKind.PARALLEL
        return For(var, least, extent, kind, body, thread)

    def _iteration_arrays(
        self, ctx: Context, var: Var, start: int, stop: int
    ) -> tuple[UsableBuffer, ...]:
        """Return what iterations may use: of each memory an axis of their own, or no writing."""
        kept: list[UsableBuffer] = []
        by_root: dict[int, list[UsableBuffer]] = {}
        for known in ctx.buffers:
            by_root.setdefault(known.root, []).append(known)
        for group in by_root.values():
            known = self.c.pick(group)
            taken = {p.axis for p in known.pinned}
            free = [
                axis
                for axis, extent in enumerate(known.extents)
                if axis not in taken and start >= 0 and stop <= extent
            ]
            if known.writable and free and self.c.chance(0.75):
                place = Place(self.c.pick(free), var)
                kept.append(replace(known, pinned=(*known.pinned, place), passable=False))
            elif known.writable and known.pinned:
                # Others of the outer loop's iterations stay independent; these only read.
                kept.append(replace(known, writable=False, passable=False))
            else:
                kept += [replace(k, writable=False, passable=False) for k in group]
        return tuple(kept)

    def while_loop(self, ctx: Context, depth: int) -> Stmt | None:
        """Count down in memory of its own."""
        if ctx.vectorized:
            return None
        count = self.c.integer(0, 5)
        if ctx.repeat * (count + 1) * 4 > self.budget - self.exprs.cost:
            return None
        dtype = self.c.pick([INT32, INT64, DataType("uint8")])
        counter = decl_buffer((1,), dtype, self.exprs.name("count"), scope="local")
        at = (IntImm(0, INT32),)
        left = counter[0]
        assert isinstance(left, PrimExpr)
        inner = replace(ctx, repeat=ctx.repeat * max(count, 1), jumps=True)
        down = BufferStore(counter, Sub(left, const(1, dtype)), at)
        condition = self.c.pick([left > 0, left.not_equal(0), left])
        body = While(condition, seq([down, self.block_of(inner, depth)]))
        first = BufferStore(counter, const(count, dtype), at)
        return self._allocated(counter, seq([first, body]))

    # -- choices, names, notes -----------------------------------------------------------------
    def choice(self, ctx: Context, depth: int) -> Stmt | None:
        """Choose between two bodies."""
        condition = self.exprs.expr(ctx, BOOL)
        then = self.block_of(ctx, depth)
        other = self.block_of(ctx, depth) if self.c.chance(0.5) else None
        return IfThenElse(condition, then, other)

    def let(self, ctx: Context, depth: int) -> Stmt | None:
        """Name a value; of some, what they can be is known."""
        if self.c.chance(0.4) and ctx.indices:
            bound = self.c.pick([3, 4, 8])
            name = Var(self.exprs.name("v"), self.c.pick([INT32, INT64]))
            value = call_builtin(
                "bitwise_and", self.exprs.expr(ctx, name.dtype, 2), const(bound - 1, name.dtype)
            )
            inner = ctx.with_index(name, 0, max(bound - 1, 3))
        else:
            name = Var(self.exprs.name("v"), self.exprs.dtype())
            value = self.exprs.expr(ctx, name.dtype)
            inner = replace(ctx, scalars=(*ctx.scalars, name))
        return LetStmt(name, value, self.block_of(inner, depth))

    def holds(self, ctx: Context, depth: int) -> Stmt | None:
        """Assert what holds, or anything in a program that may fail."""
        condition = self.exprs.expr(ctx, BOOL, 2)
        if not self.exprs.may_fail:
            known = [i for i in ctx.indices if i.low <= i.high]
            if known:
                one = self.c.pick(known)
                sure: PrimExpr = one.var >= const(
                    max(one.low, one.var.dtype.min_value), one.var.dtype
                )
            else:
                sure = IntImm(1, BOOL)
            condition = Or(sure, condition)
        message = self.c.pick([StringImm("this holds"), StringImm('"{}" %d\n'), const(7, INT32)])
        return AssertStmt(condition, message, self.block_of(ctx, depth))

    def attribute(self, ctx: Context, depth: int) -> Stmt | None:
        """Leave a note for the compiler."""
        key = self.c.pick(["pragma_unroll_explicit", "volatile_scope", "storage_alignment"])
        node: Any = ctx.buffers[0].buffer.data if ctx.buffers else StringImm("note")
        return AttrStmt(node, key, const(1, INT32), self.block_of(ctx, depth))

    def evaluate(self, ctx: Context, depth: int) -> Stmt | None:
        """Evaluate and forget."""
        return Evaluate(self.exprs.expr(ctx, self.exprs.dtype()))

    def jump(self, ctx: Context, depth: int) -> Stmt | None:
        """Leave a loop, or its iteration."""
        if not ctx.jumps:
            return None
        name = self.c.pick(["break_loop", "continue_loop"])
        return IfThenElse(self.exprs.expr(ctx, BOOL, 2), Evaluate(call_builtin(name)))

    def early_return(self, ctx: Context, depth: int) -> Stmt | None:
        """Leave the function."""
        if ctx.returns is None:
            return None
        value = self.exprs.expr(ctx, ctx.returns, 2)
        return IfThenElse(self.exprs.expr(ctx, BOOL, 2), Evaluate(call_builtin("ret", value)))

    # -- memory --------------------------------------------------------------------------------
    def fresh(
        self, dtype: DataType | None = None, *, data: bool = True
    ) -> tuple[Buffer, tuple[int, ...]]:
        """Make a buffer of a small constant shape."""
        c = self.c
        rank = c.weighted([(1, 0), (5, 1), (3, 2), (1, 3)])
        shape = tuple(c.pick([1, 2, 3, 4, 8]) for _ in range(rank))
        scope = c.pick(["global", "local"])
        buffer = decl_buffer(shape, dtype or self.exprs.dtype(), self.exprs.name("T"), scope=scope)
        return buffer, shape

    def fill(self, ctx: Context, buffer: Buffer, shape: tuple[int, ...]) -> Stmt:
        """Write every element."""
        names = [Var(self.exprs.name("f"), INT32) for _ in shape]
        inner = ctx
        for name, extent in zip(names, shape, strict=True):
            inner = self._inside(inner, name, 0, extent)
        body: Stmt = BufferStore(buffer, self.exprs.expr(inner, buffer.dtype, 1), tuple(names))
        for name, extent in zip(reversed(names), reversed(shape), strict=True):
            body = For(name, const(0, INT32), const(extent, INT32), ForKind.SERIAL, body)
        return body

    def _allocated(self, buffer: Buffer, body: Stmt) -> Stmt:
        extents = buffer.shape or (IntImm(1, INT32),)
        inner = DeclBuffer(buffer, body)
        return Allocate(buffer.data, buffer.dtype, extents, TRUE, inner)

    def _with(self, ctx: Context, buffer: Buffer, shape: tuple[int, ...]) -> Context:
        return replace(ctx, buffers=(*ctx.buffers, UsableBuffer(buffer, shape, root=id(buffer))))

    def allocation(self, ctx: Context, depth: int) -> Stmt | None:
        """Allocate, fill, and use."""
        buffer, shape = self.fresh()
        filled = self.fill(ctx, buffer, shape)
        body = self.block_of(self._with(ctx, buffer, shape), depth)
        return self._allocated(buffer, seq([filled, body]))

    def realized(self, ctx: Context, depth: int) -> Stmt | None:
        """Allocate as tensor expressions do."""
        buffer, shape = self.fresh()
        filled = self.fill(ctx, buffer, shape)
        body = self.block_of(self._with(ctx, buffer, shape), depth)
        bounds = tuple(Range(const(0, INT32), const(e, INT32)) for e in shape)
        return BufferRealize(buffer, bounds, TRUE, seq([filled, body]))

    def alias(self, ctx: Context, depth: int) -> Stmt | None:
        """Return memory another shape."""
        fits = [k for k in ctx.buffers if k.passable and all(k.extents) and not k.pinned]
        if not fits or not ctx.private:
            return None
        known = self.c.pick(fits)
        total = 1
        for extent in known.extents:
            total *= extent
        offset = self.c.integer(0, total - 1) if self.c.chance(0.3) else 0
        shape = (total - offset,)
        if offset == 0 and total % 2 == 0 and self.c.chance(0.5):
            shape = self.c.pick([(2, total // 2), (total // 2, 2)])
        buffer = decl_buffer(
            shape,
            known.buffer.dtype,
            self.exprs.name("D"),
            data=known.buffer.data,
            elem_offset=offset or None,
        )
        other = replace(known, buffer=buffer, extents=shape, passable=False)
        inner = replace(ctx, buffers=(*ctx.buffers, other))
        return DeclBuffer(buffer, self.block_of(inner, depth))

    # -- calls ---------------------------------------------------------------------------------
    def call(self, ctx: Context, depth: int) -> Stmt | None:
        """Call a function that takes buffers."""
        fits = [h for h in self.exprs.helpers if h.buffers]
        if not fits:
            return None
        helper = self.c.pick(fits)
        if self.exprs.cost + ctx.repeat * helper.cost > self.budget:
            return None
        arrays = self._arrays_for(ctx, helper)
        if arrays is None:
            return None
        self.exprs.cost += ctx.repeat * helper.cost
        scalars = [self.exprs.expr(ctx, d, 1) for d in helper.scalars]
        returned = helper.returns or DataType("void")
        made = Call(returned, GlobalVar(helper.func.name), (*arrays, *scalars))
        if helper.returns is None:
            return Evaluate(made)
        name = Var(self.exprs.name("v"), helper.returns)
        inner = replace(ctx, scalars=(*ctx.scalars, name))
        return LetStmt(name, made, self.block_of(inner, depth))

    def _arrays_for(self, ctx: Context, helper: Helper) -> list[Var] | None:
        used: set[int] = set()
        arrays: list[Var] = []
        for dtype, shape in helper.buffers:
            found = next(
                (
                    k
                    for k in ctx.buffers
                    if k.passable
                    and k.writable
                    and not k.pinned
                    and k.root not in used
                    and k.buffer.dtype is dtype
                    and k.extents == shape
                ),
                None,
            )
            if found is None:
                return None
            used.add(found.root)
            arrays.append(found.buffer.data)
        return arrays


def pointer_to(dtype: DataType) -> PointerType:
    """Return the type of a pointer."""
    return PointerType(PrimType(dtype))
