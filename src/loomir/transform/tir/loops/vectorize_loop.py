"""Vectorise loops of kind ``vectorized``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.fold import add, imm, mul, product, splat, sub, to_int
from loomir.ir.passes import register
from loomir.ir.visit import (
    Step,
    by_class,
    children,
    fold,
    of_classes,
    rebuild,
    rewrite,
    trampoline,
)
from loomir.support.dtype import LANES, DataType
from loomir.tir.analysis.copy_statement import fresh_copy, fresh_var
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    Add,
    BinaryOp,
    Call,
    Cast,
    CmpOp,
    IntImm,
    Let,
    LogicalOp,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from loomir.transform.tir.loops.speculative_reads import SafeReads
from loomir.transform.tir.loops.vector_safety import (
    LaneAccess,
    Loop,
    Refusal,
    cannot_vectorize,
    conflict,
    study,
)

__all__ = ["vectorize_loop"]

_FEWEST: Final = 4
"""The fewest remaining elements that form a shorter vector after full ones."""
_WIDEST: Final = 2048
"""The most bits of one vector: four of the widest registers; with more, registers run out."""

_RING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {Add: add, Sub: sub, Mul: mul}


@register(
    "tir.VectorizeLoop",
    requires={"flat_buffers", "no_blocks"},
    establishes={"no_vector_loops"},
)
def vectorize_loop(func: PrimFunc) -> PrimFunc:
    """Run the iterations of loops marked ``VECTORIZED`` as lanes of vectors, innermost first.

    The number of lanes is the largest that divides the extent; if there is none, a remainder runs
    serially. A loop becomes serial if its extent is not constant, or if running lanes at once could
    change the program: the body may fail, has effects besides stores, or branches by lane.
    """
    if not any(p.kind is ForKind.VECTORIZED for p in by_class(func.body).get(For, ())):
        return func
    bounds = Bounds()
    bounds.learn(func.body)
    pointers = frozenset(
        id(p.var) for p in by_class(func.body).get(LetStmt, ()) if p.var.dtype.is_handle
    )

    reads = SafeReads(func, bounds)

    def lower(loop: For) -> Stmt:
        if loop.kind is not ForKind.VECTORIZED:
            return loop
        made = _vectorize(loop, bounds, pointers, reads)
        return _serial(loop) if isinstance(made, Refusal) else made

    return rewrite(func, {For: lower})


def _serial(loop: For) -> For:
    return For(
        loop.loop_var,
        loop.min,
        loop.extent,
        ForKind.SERIAL,
        loop.body,
        None,
        loop.annotations,
        span=loop.span,
    )


def _vectorize(
    loop: For, bounds: Bounds, pointers: frozenset[int], reads: SafeReads
) -> Stmt | Refusal:
    if not isinstance(loop.extent, IntImm):
        return Refusal("the extent is not constant")
    if loop.loop_var.dtype.bits < 64 and not isinstance(loop.min, IntImm):
        return Refusal("the loop may run past the end of its variable's dtype")
    lanes = _lanes(loop.extent.value, loop.body)
    if lanes == 1:
        return Refusal("the extent is {}", (loop.extent.value,))
    known = study(loop)
    why = cannot_vectorize(known, reads)
    if why is not None:
        return why
    chunks, rest = divmod(loop.extent.value, lanes)
    dtype = loop.loop_var.dtype
    outer = Var(f"{loop.loop_var.name_hint}_v", dtype, span=loop.loop_var.span)
    start = loop.min if chunks == 1 else add(loop.min, mul(outer, imm(lanes, dtype)))
    lane = Ramp(start, imm(1, dtype), lanes)
    body = _Lanes(known, lanes, lane)
    main = trampoline(body.statement(loop.body))
    why = conflict(body.accesses, known, lanes, bounds, pointers)
    if why is not None:
        return why
    made: list[Stmt] = [main]
    if chunks > 1:
        zero, count = imm(0, dtype), imm(chunks, dtype)
        made = [
            For(outer, zero, count, ForKind.SERIAL, main, None, loop.annotations, span=loop.span)
        ]
    done = chunks * lanes
    while rest:
        # The remainder is half a vector, a quarter of one, and single elements.
        fitting = max((n for n in (2, 4, 8, 16) if _FEWEST <= n <= rest), default=rest)
        kind = ForKind.VECTORIZED if fitting >= _FEWEST else ForKind.SERIAL
        var = fresh_var(loop.loop_var)
        tail = fresh_copy(loop.body, {loop.loop_var: var})
        first, count = add(loop.min, imm(done, dtype)), imm(fitting, dtype)
        left = For(var, first, count, kind, tail, span=loop.span)
        vectors = _vectorize(left, bounds, pointers, reads) if kind is ForKind.VECTORIZED else left
        made.append(_serial(left) if isinstance(vectors, Refusal) else vectors)
        done, rest = done + fitting, rest - fitting
    return seq(made, loop.span)


def _lanes(extent: int, body: Stmt) -> int:
    """Choose the number of lanes: the largest that divides the extent, unless that is too small."""
    accesses: list[BufferLoad | BufferStore] = of_classes(body, BufferLoad, BufferStore)
    bits = max((access.buffer.dtype.bits for access in accesses), default=0)
    most = max(2, _WIDEST // max(bits, 8))
    fitting = [n for n in LANES if n <= min(extent, most)]
    exact = max((n for n in fitting if extent % n == 0), default=1)
    if exact >= 8 or exact == extent:
        return exact
    return max((n for n in fitting if n in (2, 4, 8, 16)), default=1)


class _Lanes:
    """Translates a loop's body to vectors; ``accesses`` lists those of shared memory."""

    def __init__(self, known: Loop, lanes: int, lane: PrimExpr) -> None:
        self.known = known
        self.lanes = lanes
        self.vector: dict[int, PrimExpr] = {id(known.loop.loop_var): lane}
        self.buffers: dict[int, Buffer] = {}
        self.accesses: list[LaneAccess] = []
        for part in of_classes(known.loop.body, Let):
            if id(part.var) in known.varying:
                self.vector[id(part.var)] = self._wide_var(part.var)

    def _wide_var(self, var: Var) -> Var:
        return Var(var.name_hint, var.dtype.with_lanes(self.lanes), span=var.span)

    # -- expressions ---------------------------------------------------------------------------
    def value(self, e: PrimExpr) -> PrimExpr:
        """Return the value of all lanes; a scalar if they agree."""
        return fold(e, self._node)

    def full(self, e: PrimExpr) -> PrimExpr:
        """Return the value of all lanes as a vector."""
        return splat(self.value(e), self.lanes)

    def _node(self, e: Any, parts: list[Any]) -> PrimExpr:
        if isinstance(e, Var):
            return self.vector.get(id(e), e)
        if isinstance(e, BufferLoad):
            return self._load(e, parts[0])
        if isinstance(e, Let) and id(e.var) in self.known.varying:
            var = self.vector[id(e.var)]
            assert isinstance(var, Var)
            return Let(var, splat(parts[0], self.lanes), parts[1], span=e.span)
        before = children(e)
        if all(a is b for a, b in zip(before, parts)):
            return e
        lanes = max(part.dtype.lanes for part in parts)
        if lanes == 1:
            return _rebuild(e, parts)
        return self._elementwise(e, parts, lanes)

    def _elementwise(self, e: Any, parts: list[PrimExpr], lanes: int) -> PrimExpr:
        kind: Any = e.__class__
        rule = _RING.get(kind) if e.dtype.is_integer else None
        if rule is not None:
            return rule(parts[0], parts[1])
        if isinstance(e, (BinaryOp, CmpOp, LogicalOp)):
            span = getattr(e, "span", None)
            return kind(*(splat(part, lanes) for part in parts), span=span)
        if isinstance(e, Cast):
            if e.value.dtype.is_integer and e.dtype.is_integer:
                return to_int(parts[0], e.dtype.with_lanes(lanes))
            return Cast(parts[0], e.dtype.with_lanes(lanes), span=e.span)
        if isinstance(e, Select):
            return self._choice(e, parts, lanes)
        if isinstance(e, Let):
            return Let(e.var, parts[0], parts[1], span=e.span)
        if isinstance(e, Shuffle):  # of scalars, since the body has no vectors
            (pick,) = e.indices
            assert isinstance(pick, IntImm)
            return parts[pick.value]
        assert isinstance(e, Call)
        if e.op is IF_THEN_ELSE:
            return self._choice(e, parts, lanes)
        args = tuple(splat(part, lanes) for part in parts)
        return Call(e.dtype.with_lanes(lanes), e.op, args, span=e.span)

    def _choice(self, e: Any, parts: list[PrimExpr], lanes: int) -> PrimExpr:
        """Select by lane; evaluating both sides has been found to be harmless."""
        condition, *values = parts
        yes, no = (splat(v, lanes) for v in values)
        if condition.dtype.lanes > 1 or isinstance(e, Select):
            return Select(condition, yes, no, span=e.span)
        return Call(yes.dtype, IF_THEN_ELSE, (condition, yes, no), span=e.span)

    def _load(self, e: BufferLoad, index: PrimExpr) -> PrimExpr:
        buffer, place = self._place(e.buffer, index, stores=False)
        if buffer is e.buffer and place is e.indices[0]:
            return e
        return BufferLoad(buffer, (place,), span=e.span)

    def _place(self, buffer: Buffer, index: PrimExpr, stores: bool) -> tuple[Buffer, PrimExpr]:
        """Return buffer and index for all lanes; memory of one iteration gets an axis of lanes."""
        if id(buffer.data) in self.known.own:
            one = index.dtype.element
            first = Ramp(imm(0, one), imm(1, one), self.lanes)
            wide = self.buffers.get(id(buffer), buffer)
            return wide, add(mul(index, imm(self.lanes, one)), first)
        if isinstance(index, Ramp):
            stride = index.stride
            step = stride.value if isinstance(stride, IntImm) else None
            self.accesses.append(LaneAccess(buffer, step, index.base, stores))
        else:
            step = 0 if index.dtype.lanes == 1 else None
            self.accesses.append(LaneAccess(buffer, step, index, stores))
        return buffer, index

    # -- statements ----------------------------------------------------------------------------
    def statement(self, s: Any) -> Step[Stmt]:
        """Translate a statement."""
        if isinstance(s, SeqStmt):
            made: list[Stmt] = []
            for part in s.seq:
                made.append((yield self.statement(part)))
            return SeqStmt(tuple(made), span=s.span)
        if isinstance(s, BufferStore):
            value = self.value(s.value)
            buffer, place = self._place(s.buffer, self.value(s.indices[0]), stores=True)
            return BufferStore(buffer, splat(value, place.dtype.lanes), (place,), span=s.span)
        if isinstance(s, LetStmt):
            return (yield self._let(s))
        if isinstance(s, For):
            body = yield self.statement(s.body)
            start, extent = self.value(s.min), self.value(s.extent)
            return rebuild(s, {"min": start, "extent": extent, "body": body})
        if isinstance(s, IfThenElse):
            condition = self.value(s.condition)
            then = yield self.statement(s.then_case)
            other = None if s.else_case is None else (yield self.statement(s.else_case))
            return IfThenElse(condition, then, other, span=s.span)
        if isinstance(s, Allocate):
            body = yield self.statement(s.body)
            size = mul(product(s.extents), imm(self.lanes, DataType("int64")))
            return rebuild(s, {"extents": (size,), "body": body})
        if isinstance(s, DeclBuffer):
            return (yield self._declare(s))
        assert isinstance(s, Evaluate)
        return Evaluate(self.value(s.value), span=s.span)

    def _let(self, s: LetStmt) -> Step[Stmt]:
        value, var = self.value(s.value), s.var
        if id(var) in self.known.varying:
            var = self._wide_var(s.var)
            self.vector[id(s.var)] = var
            value = splat(value, self.lanes)
        body = yield self.statement(s.body)
        return LetStmt(var, value, body, span=s.span)

    def _declare(self, s: DeclBuffer) -> Step[Stmt]:
        buffer = s.buffer
        if id(buffer.data) in self.known.own:
            size = mul(product(buffer.shape), imm(self.lanes, DataType("int64")))
            buffer = rebuild(buffer, {"shape": (size,)})
            self.buffers[id(s.buffer)] = buffer
        body = yield self.statement(s.body)
        return DeclBuffer(buffer, body, span=s.span)


def _rebuild(e: Any, parts: list[Any]) -> PrimExpr:
    """Rebuild a scalar node with new parts, such as indices of memory of one iteration."""
    left = iter(parts)
    changed: dict[str, object] = {}
    for name in e.child_names:
        value = getattr(e, name)
        if isinstance(value, tuple):
            changed[name] = tuple(next(left) for _ in value)  # type: ignore[misc]
        elif value is not None:
            changed[name] = next(left)
    return rebuild(e, changed)
