"""The primitive that replaces a computation by a tensor intrinsic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import children, rebuild
from loomir.loops.ranges import analyzer_for, domains, loop_range
from loomir.loops.regions import block_regions
from loomir.schedule.moving import refresh_regions
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.primitive.blockizing import blockize_nest, nest_below
from loomir.schedule.refusal import Refusal, RefusalError, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Place, primitive
from loomir.schedule.tensor_intrin import TensorIntrin, body_of
from loomir.support.diagnostics import ScheduleError
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    MatchBufferRegion,
    Range,
)
from loomir.tir.expr import LE, And, Call, IntImm, PrimExpr, Var
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    SeqStmt,
    Stmt,
)

__all__ = ["tensorize"]

_NO_MATCH: Final = "describe what the block does, or tile its loops to the shape of the intrinsic"


class _Mismatch(Exception):
    """Carries where a program is not what an intrinsic describes."""


class _View:
    """The buffer that one of a description stands for, and where it begins there."""

    def __init__(self, buffer: Buffer, starts: tuple[PrimExpr, ...]) -> None:
        self.buffer = buffer
        self.starts = starts


class _Matcher:
    """Compares a description with a program, statement by statement."""

    def __init__(self, desc: Sequence[Buffer], analyzer: Analyzer) -> None:
        self.views: dict[int, _View] = {}
        self._desc = {id(b) for b in desc}
        self._vars: dict[Var, PrimExpr] = {}
        self._inner: set[Node] = set()
        self._analyzer = analyzer
        self._expressions: list[tuple[PrimExpr, PrimExpr]] = []

    # -- statements --------------------------------------------------------------------------------
    def run(self, desc: Stmt, stmt: Stmt) -> None:
        """Compare two statements.

        Errors: _Mismatch.
        """
        stack: list[tuple[Stmt, Stmt]] = [(desc, stmt)]
        while stack:
            a, b = stack.pop()
            stack.extend(reversed(self._statement(a, b)))

    def _statement(self, a: Stmt, b: Stmt) -> list[tuple[Stmt, Stmt]]:
        if type(a) is not type(b):
            raise _Mismatch(f"{type(b).__name__} stands where {type(a).__name__} is described")
        if isinstance(a, SeqStmt) and isinstance(b, SeqStmt):
            if len(a.seq) != len(b.seq):
                raise _Mismatch(f"{len(b.seq)} statements stand where {len(a.seq)} are described")
            return list(zip(a.seq, b.seq))
        if isinstance(a, For) and isinstance(b, For):
            name = b.loop_var.name_hint
            if not structural_equal(_wide(a.extent), _wide(b.extent)):
                raise _Mismatch(
                    f"loop {name!r} runs {b.extent} times, {a.extent} times are described"
                )
            if not structural_equal(_wide(a.min), _wide(b.min)):
                raise _Mismatch(f"loop {name!r} begins at {b.min}, not at {a.min}")
            self._bind(a.loop_var, b.loop_var)
            self._analyzer.bind(b.loop_var, loop_range(b))
            return [(a.body, b.body)]
        if isinstance(a, BlockRealize) and isinstance(b, BlockRealize):
            return self._block(a, b)
        if isinstance(a, BufferStore) and isinstance(b, BufferStore):
            self._access(a, b)
            self._value(a.value, b.value)
            return []
        if isinstance(a, Evaluate) and isinstance(b, Evaluate):
            self._value(a.value, b.value)
            return []
        raise _Mismatch(f"{type(b).__name__} is not compared")

    def _block(self, a: BlockRealize, b: BlockRealize) -> list[tuple[Stmt, Stmt]]:
        name = b.block.name_hint
        kinds = [[it.iter_type for it in r.block.iter_vars] for r in (a, b)]
        if kinds[0] != kinds[1]:
            raise _Mismatch(f"the iterators of block {name!r} are of other kinds or numbers")
        for x, y in ((a.predicate, b.predicate), *zip(a.values, b.values)):
            self._value(x, y)
        for x, y in zip(a.block.iter_vars, b.block.iter_vars):
            self._bind(x.var, y.var)
            self._domain(x, y)
        for part in (a.block, b.block):
            if part.alloc_buffers or part.match_buffers:
                raise _Mismatch(f"block {part.name_hint!r} has buffers of its own")
        inner = (a.block.init, b.block.init)
        if (inner[0] is None) is not (inner[1] is None):
            raise _Mismatch(f"block {name!r} and its description do not both have an init")
        pairs: list[tuple[Stmt, Stmt]] = [(a.block.body, b.block.body)]
        if inner[0] is not None and inner[1] is not None:
            pairs.append((inner[0], inner[1]))
        return pairs

    def _domain(self, a: IterVar, b: IterVar) -> None:
        if b.dom is not None:
            self._analyzer.bind(b.var, b.dom)
            # What init asks is whether an iterator is at its start.
            if a.dom is None or not self._analyzer.can_prove_equal(a.dom.min, b.dom.min):
                raise _Mismatch(f"{b.var.name_hint!r} begins elsewhere")

    def _bind(self, a: Var, b: Var) -> None:
        self._vars[a] = b
        self._inner.add(b)

    # -- expressions -------------------------------------------------------------------------------
    def _value(self, a: PrimExpr, b: PrimExpr) -> None:
        stack: list[tuple[Node, Node]] = [(a, b)]
        while stack:
            x, y = stack.pop()
            if isinstance(x, PrimExpr) and isinstance(y, PrimExpr) and self._is_index(x, y):
                continue
            if isinstance(x, BufferLoad) and isinstance(y, BufferLoad):
                self._access(x, y)
                continue
            left, right = children(x), children(y)
            same = type(x) is type(y) and len(left) == len(right)
            if same and isinstance(x, PrimExpr) and isinstance(y, PrimExpr):
                same = x.dtype is y.dtype
            if same and isinstance(x, Call) and isinstance(y, Call):
                same = x.op is y.op
            if same and not left:
                same = structural_equal(x, y)
            if not same:
                raise _Mismatch(f"{y} stands where {x} is described")
            stack.extend(zip(left, right))

    def _is_index(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Tell whether both are the same integer of loops and iterators."""
        if not (a.dtype.is_integer and b.dtype.is_integer) or a.dtype.lanes != 1:
            return False
        if b.dtype.lanes != 1 or any(isinstance(n, (BufferLoad, Call)) for n in _parts(a)):
            return False
        if any(isinstance(n, (BufferLoad, Call)) for n in _parts(b)):
            return False
        return self._analyzer.can_prove_equal(to_int(self._map(a), b.dtype), b)

    def _map(self, expr: PrimExpr) -> PrimExpr:
        given = {
            v: to_int(self._vars[v], v.dtype)
            for v in free_definitions(expr)
            if isinstance(v, Var) and v in self._vars
        }
        return substitute(expr, given)

    def _access(self, a: BufferLoad | BufferStore, b: BufferLoad | BufferStore) -> None:
        """Find where the buffer of a description begins; it must be the same in each access."""
        mine, theirs = a.buffer, b.buffer
        missing = len(theirs.shape) - len(mine.shape)
        if id(mine) not in self._desc or missing < 0 or mine.dtype is not theirs.dtype:
            raise _Mismatch(f"{theirs.name!r} does not fit {mine.name!r} of the description")
        starts: list[PrimExpr] = list(b.indices[:missing])
        for described, index in zip(a.indices, b.indices[missing:]):
            starts.append(
                self._analyzer.simplify(sub(index, to_int(self._map(described), index.dtype)))
            )
        for start in starts:
            if start.dtype.lanes != 1 or self._inner & set(free_definitions(start)):
                raise _Mismatch(f"indices of {theirs.name!r} are not those of {mine.name!r}")
            if any(isinstance(n, BufferLoad) for n in _parts(start)):
                raise _Mismatch(f"where {theirs.name!r} is accessed is read from memory")
        known = self.views.setdefault(id(mine), _View(theirs, tuple(starts)))
        if known.buffer is not theirs or not all(
            self._analyzer.can_prove_equal(x, y) for x, y in zip(known.starts, starts)
        ):
            raise _Mismatch(f"{mine.name!r} of the description is two places of the program")


def _wide(expr: PrimExpr) -> PrimExpr:
    return IntImm(expr.value, DataType("int64")) if isinstance(expr, IntImm) else expr


def _parts(expr: PrimExpr) -> list[Node]:
    found: list[Node] = []
    stack: list[Node] = [expr]
    while stack:
        found.append(stack.pop())
        stack.extend(children(found[-1]))
    return found


def _regions(
    ref: Ref, intrin: TensorIntrin, outer: Block, matcher: _Matcher
) -> list[MatchBufferRegion] | Refusal:
    """Return each parameter of an implementation its region, or say why it has none."""
    block = ref.stmt
    analyzer = analyzer_for(
        {
            **ranges_with_sizes(ref),
            **domains(outer),
        }
    )
    found: list[MatchBufferRegion] = []
    written = {id(r.buffer.data) for r in block_regions(outer)[1]}
    memory: list[int] = []
    for mine, theirs in zip(intrin.desc.params, intrin.impl.params):
        described, own = intrin.desc.buffer_map[mine], intrin.impl.buffer_map[theirs]
        view = matcher.views.get(id(described))
        if view is None:
            return _refusal(block, intrin, f"its description does not use {described.name!r}")
        source = view.buffer
        if source.scope != own.scope:
            return _refusal(block, intrin, f"{source.name!r} is in {source.scope} memory")
        missing = len(source.shape) - len(own.shape)
        region: list[Range] = []
        extents = [None] * missing + list(own.shape)
        for start, extent, whole in zip(view.starts, extents, source.shape):
            length = imm(1, start.dtype) if extent is None else to_int(extent, start.dtype)
            inside = And(
                LE(imm(0, start.dtype), start), LE(add(start, length), to_int(whole, start.dtype))
            )
            if not analyzer.can_prove(inside):
                return Refusal(
                    "SCH0005",
                    "the part of {!r} that {!r} uses may exceed it",
                    (source.name, intrin.name),
                    "pad the buffer, or tile loops by factors of their extents",
                    block,
                )
            region.append(Range(start, length))
        memory.append(id(source.data))
        found.append(MatchBufferRegion(_as_view(own, source), BufferRegion(source, tuple(region))))
    shared = [
        m.source.buffer.name
        for m, key in zip(found, memory)
        if memory.count(key) > 1 and key in written
    ]
    if shared:
        return _refusal(block, intrin, f"{shared[0]!r}, which it writes, is two of its parameters")
    return found


def _as_view(own: Buffer, source: Buffer) -> Buffer:
    """Return a parameter's buffer as one that may lie anywhere in a source."""
    offset = None if isinstance(own.elem_offset, IntImm) else own.elem_offset
    aligned = math.gcd(own.data_alignment, source.data_alignment)
    return rebuild(own, {"elem_offset": offset, "data_alignment": aligned})


def _refusal(at: Stmt | None, intrin: TensorIntrin, why: str) -> Refusal:
    return Refusal(
        "SCH0007", "this is not what {!r} computes: {}", (intrin.name, why), _NO_MATCH, at
    )


def _make_tensorized(ref: Ref, outer: BlockRealize, intrin: TensorIntrin) -> Refusal | BlockRealize:
    """Make the block that runs an implementation, or say why it would do something else."""
    block = outer.block
    if block.alloc_buffers or block.match_buffers:
        return _refusal(ref.stmt, intrin, "the block has buffers of its own")
    desc, impl = body_of(intrin.desc), body_of(intrin.impl)
    known = domains(block)
    buffers = list(intrin.desc.buffer_map.values())
    matcher = _Matcher(buffers, analyzer_for({**ranges_with_sizes(ref), **known}))
    try:
        matcher.run(desc.body, block.body)
    except _Mismatch as different:
        return _refusal(ref.stmt, intrin, str(different))
    regions = _regions(ref, intrin, block, matcher)
    if isinstance(regions, Refusal):
        return regions
    views = {intrin.impl.buffer_map[p]: m.buffer for p, m in zip(intrin.impl.params, regions)}
    made = rebuild(
        block,
        {
            "body": substitute(impl.body, views),
            "alloc_buffers": tuple(substitute(b, views) for b in impl.alloc_buffers),
            "match_buffers": tuple(regions),
            "annotations": {**block.annotations, **impl.annotations},
        },
    )
    copied = fresh_copy(rebuild(outer, {"block": made}), {})
    assert isinstance(copied, BlockRealize)
    return rebuild(copied, {"block": refresh_regions(copied.block)})


@primitive
def tensorize(
    context: Context,
    block_or_loop: Place,
    tensor_intrin: str,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace a block, or the nest of a loop, by an equivalent tensor intrinsic.

    for i in range(4):
        with block("B_o"):
            v = i
            for j in range(8): B[v * 8 + j] = A[v * 8 + j] * 2
    -->
    for i in range(4):
        with block("B_o"):
            v = i
            X = match_buffer(A[v * 8:v * 8 + 8])
            Y = match_buffer(B[v * 8:v * 8 + 8])
            Y[ramp(0, 1, 8)] = X[ramp(0, 1, 8)] * 2

    The code must equal the description that ``TensorIntrin.register`` was given, up to names; its
    buffers may be boxes in larger ones, each at one position. A loop becomes a block first, as by
    ``blockize``.

    Errors: SCH0001 for an unknown name, SCH0005 where a box may reach beyond its buffer, SCH0007
    where something else is computed; those of ``blockize``.
    """
    try:
        intrin = TensorIntrin.get(tensor_intrin)
    except ScheduleError as error:
        found = error.diagnostic
        raise RefusalError(
            Refusal(found.code, "{}", (found.message,), found.help or "", block_or_loop.stmt)
        ) from None
    assert intrin is not None
    if block_or_loop.is_loop:
        path = nest_below(block_or_loop)
        made = blockize_nest(block_or_loop, preserve_unit_iters)
        if isinstance(made, Refusal):
            refuse(made)
        assert not isinstance(path, Refusal)
        outer, old = made.realize, path[-1].block
    else:
        outer, old = block_or_loop.realize, block_or_loop.block
    placed = _make_tensorized(block_or_loop, outer, intrin)
    if isinstance(placed, Refusal):
        refuse(placed)
    block_or_loop.home.replace(block_or_loop, placed, {old: placed.block})
