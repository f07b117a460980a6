"""Emit one pass over a run of elements in which stages store elements and reduce terms.

Terms are reduced into several vector accumulators, so that additions do not wait for one another.
Lanes are reduced after the pass. Elements that fill no vector are handled one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from loomir.arith.fold import fold_expr, imm64, int64, product
from loomir.autoschedule.builders.evaluate import number, unravel_index, value_at, widest
from loomir.autoschedule.builders.loops import allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.reduction_ops import (
    accumulate,
    identity,
    load_vectors,
    reduce_lanes,
    reduce_vectors,
)
from loomir.autoschedule.builders.strip_mine import add_offset, partial_vector_widths, strip_mine
from loomir.autoschedule.ir.decision import decide
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rules.elementwise.elementwise import is_heavy, values_join
from loomir.autoschedule.rules.reduction.memory_streams import LoadOptions
from loomir.autoschedule.rules.reduction.narrow_sums import NarrowTerms, narrow_terms
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Cast, Min, PrimExpr, Var, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["Piece", "Place", "Walk", "may_skip", "run_pass", "run_start", "width_of"]

_MOST_LANES: Final = 64
_MOST_BITS: Final = 2048
"""Most lanes of the vectors that these loops use."""

Place = Mapping[Var, PrimExpr]

_PLAIN: Final = LoadOptions()


@dataclass(frozen=True, slots=True)
class Walk:
    """How a stage iterates over the elements of a row: its place, and the axes inside."""

    stage: Stage
    place: Place
    axes: tuple[Axis, ...]

    def combines(self) -> bool:
        """Whether the elements are combined into one."""
        return self.stage.combine is not Combine.NONE


class Piece(NamedTuple):
    """A part of a walk: a range of its collapsed run, or of its first axis where that is no run."""

    first: PrimExpr
    extent: PrimExpr


def may_skip(stage: Stage) -> bool:
    """Whether a result without terms stays unwritten, as a block initialises at the first term."""
    return bool(stage.reduced) and stage.block is not None and stage.block.init is not None


def run_start(walks: Sequence[Walk]) -> int:
    """Return the first of the axes that all walks can collapse into one run."""
    count = len(walks[0].axes)
    start = max(count - 1, 0)
    while start > 0 and all(_joins(walk, walk.axes[start - 1 :]) for walk in walks):
        start -= 1
    return start


def _joins(walk: Walk, axes: Sequence[Axis]) -> bool:
    stage = walk.stage
    if not values_join(stage.value, axes):
        return False
    return walk.combines() or values_join(BufferLoad(stage.buffer, stage.indices), axes)


def width_of(walks: Sequence[Walk], length: int | None, target: Target) -> tuple[int, int]:
    """Choose the elements of a step, and of one vector; both are 1 if order must be kept."""
    stages = [walk.stage for walk in walks]
    if any(walk.combines() and not walk.stage.free_order for walk in walks):
        return 1, 1
    if any(stage.buffer.dtype.lanes != 1 for stage in stages):
        return 1, 1  # elements are vectors themselves
    bits = max(max(8, widest(stage.value, stage.buffer.dtype)) for stage in stages)
    lanes = min(target.lanes(bits), _MOST_LANES)
    while length is not None and lanes > max(1, length):
        lanes //= 2
    if lanes < 4:
        return 1, 1
    if any(is_heavy(stage.value) for stage in stages):
        return lanes, lanes
    vectors = 2
    if any(walk.combines() for walk in walks):
        vectors = max(1, min(8, _MOST_BITS // target.vector_bits))
    width = min(lanes * vectors, _MOST_LANES, max(lanes, _MOST_BITS // bits))
    while length is not None and width > max(lanes, length):
        width //= 2

    def list_widths() -> list[int]:
        return [
            w
            for w in (lanes, 2 * lanes, 4 * lanes, 8 * lanes)
            if w <= min(_MOST_LANES, length or w)
        ]

    return decide("vector", width, list_widths), lanes


class _Sums(NamedTuple):
    """The accumulators of a walk: several vectors, one vector, and a scalar.

    The first two are used in vectors of ``part`` lanes.
    """

    wide: Buffer
    narrow: Buffer
    single: Buffer
    part: int


def run_pass(
    walks: Sequence[Walk],
    target: Target,
    piece: Piece | None = None,
    *,
    reading: LoadOptions = _PLAIN,
) -> Stmt:
    """Emit one pass over the elements of a row, or a piece of it; all walks are of equal size.

    An element of one walk is computed before the same element of the next one. ``reading`` says how
    far ahead elements are prefetched.
    """
    start = run_start(walks)
    first = walks[0]
    extents = [axis.extent for axis in first.axes]
    length = int64(product(extents[start:]))
    begin: PrimExpr = imm64(0)
    if piece is not None and start == 0:
        begin, length = piece
    known = number(length)
    if known is None and piece is not None and start == 0:
        known = number(product(extents))
    width, lanes = width_of(walks, known, target)
    heavy = any(is_heavy(walk.stage.value) for walk in walks)
    parts = partial_vector_widths(lanes, known) if heavy else []
    most = reading.lanes or _MOST_LANES
    several = known is None or known >= 2 * width
    few = narrow_terms(first.stage) if len(walks) == 1 and several else None
    sums = {k: _sums(walk, width, lanes, most) for k, walk in enumerate(walks) if walk.combines()}

    def element(outer: Sequence[PrimExpr], index: PrimExpr, walk: Walk) -> Place:
        inside = walk.axes[start:]
        where = {axis.var: i for axis, i in zip(walk.axes[:start], outer, strict=True)}
        return {**walk.place, **where, **unravel_index(index, inside)}

    def step(outer: Sequence[PrimExpr], index: PrimExpr, size: int) -> Stmt:
        made: list[Stmt] = []
        for k, walk in enumerate(walks):
            body = _element(walk, sums.get(k), size, width)

            def run_body(x: PrimExpr, walk: Walk = walk, body: _Body = body) -> Stmt:
                return body(x, element(outer, index + x, walk))

            made.append(
                run_body(imm64(0)) if size == 1 else _vectorize_in_parts(size, most, run_body)
            )
        return seq(made)

    def run(outer: Sequence[PrimExpr]) -> Stmt:
        def run_step(i: PrimExpr, size: int) -> Stmt:
            return step(outer, i, size)

        sizes = list(dict.fromkeys([width, lanes, *parts, 1]))
        if few is None or width == 1:
            return seq(strip_mine(begin, length, sizes, run_step, ahead=reading.ahead))

        few_value = few.value

        def put_term(x: PrimExpr, index: PrimExpr) -> PrimExpr:
            return value_at(few_value, element(outer, index + x, first))

        done = length // imm64(width) * imm64(width)
        vectors = _add_narrow(sums[0], few, width, (begin, length), put_term, reading.ahead)
        rest = strip_mine(add_offset(begin, done), length - done, sizes[1:], run_step)
        return seq((vectors, *rest))

    def nest(k: int, outer: tuple[PrimExpr, ...]) -> Stmt:
        if k == start:
            return run(outer)
        axis, low, extent = first.axes[k], imm64(0), extents[k]
        if piece is not None and k == 0:
            low, extent = piece
        return loop(axis.var.name_hint, extent, lambda i: nest(k + 1, (*outer, add_offset(low, i))))

    body = nest(0, ())
    if not sums:
        return body
    starts = [_begin(walks[k], s, width, lanes) for k, s in sums.items()]
    ends = [_end(walks[k], s, width, lanes) for k, s in sums.items()]
    buffers = [b for s in sums.values() for b in dict.fromkeys((s.wide, s.narrow, s.single))]
    made = allocate(buffers, *starts, body, *ends)
    skips = any(may_skip(walk.stage) for walk in walks)
    if skips and any(axis.size is None for axis in first.axes):
        return IfThenElse(imm64(0) < product(extents), made)
    return made


_Body = Callable[[PrimExpr, Place], Stmt]


def _vectorize_in_parts(size: int, most: int, one: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Emit vectors of at most so many lanes, one after the other."""
    if size <= most:
        return vectorize("lane", size, one)
    return seq(
        vectorize("lane", most, lambda x, k=k: one(add_offset(imm64(k), x)))
        for k in range(0, size, most)
    )


def _add_narrow(
    sums: _Sums,
    terms: NarrowTerms,
    width: int,
    over: tuple[PrimExpr, PrimExpr],
    term_at: Callable[[PrimExpr, PrimExpr], PrimExpr],
    ahead: int,
) -> Stmt:
    """Add up all whole vectors of a range in few bits, and these sums as often as they are full."""
    begin, length = over
    part = scratch("few", (width,), terms.value.dtype, "local")
    size, most = imm64(width), imm64(terms.most)
    vectors = length // size

    def add_group(group: PrimExpr) -> Stmt:
        def add_vector(i: PrimExpr) -> Stmt:
            index = add_offset(begin, (group * most + i) * size)

            def add(x: PrimExpr) -> Stmt:
                return BufferStore(part, BufferLoad(part, (x,)) + term_at(x, index), (x,))

            return vectorize("lane", width, add)

        def clear(x: PrimExpr) -> Stmt:
            return BufferStore(part, const(0, part.dtype), (x,))

        def spill(x: PrimExpr) -> Stmt:
            value = Cast(BufferLoad(part, (x,)), sums.wide.dtype)
            return BufferStore(sums.wide, BufferLoad(sums.wide, (x,)) + value, (x,))

        count = fold_expr(Min(most, vectors - group * most))
        return allocate(
            (part,),
            vectorize("lane", width, clear),
            loop("v", count, add_vector, ahead=ahead),
            vectorize("lane", width, spill),
        )

    known = number(vectors)
    if known is not None and known <= terms.most:
        return add_group(imm64(0))
    return loop("group", (vectors + imm64(terms.most - 1)) // most, add_group)


def _sums(walk: Walk, width: int, lanes: int, most: int) -> _Sums:
    dtype = walk.stage.buffer.dtype
    single = scratch("single", (1,), dtype, "local")
    if width == 1:
        return _Sums(single, single, single, 1)
    wide = scratch("wide", (width,), dtype, "local")
    narrow = wide if lanes == width else scratch("narrow", (lanes,), dtype, "local")
    return _Sums(wide, narrow, single, min(most, width))


def _element(walk: Walk, sums: _Sums | None, size: int, width: int) -> _Body:
    stage = walk.stage

    def store(_: PrimExpr, place: Place) -> Stmt:
        indices = tuple(value_at(i, place) for i in stage.indices)
        return BufferStore(stage.buffer, value_at(stage.value, place), indices)

    if sums is None:
        return store
    acc = sums.single if size == 1 else sums.wide if size == width else sums.narrow

    def join(x: PrimExpr, place: Place) -> Stmt:
        value = accumulate(stage.combine, BufferLoad(acc, (x,)), value_at(stage.value, place))
        return BufferStore(acc, value, (x,))

    return join


def _begin(walk: Walk, sums: _Sums, width: int, lanes: int) -> Stmt:
    stage = walk.stage
    indices = tuple(value_at(i, walk.place) for i in stage.indices)
    start = BufferLoad(stage.buffer, indices) if stage.init is None else None
    if start is None:
        assert stage.init is not None
        start = value_at(stage.init, walk.place)
    made: list[Stmt] = [BufferStore(sums.single, start, (imm64(0),))]
    if width > 1:
        nothing = identity(stage.combine, stage.buffer.dtype)
        made += [
            _vectorize_in_parts(size, sums.part, lambda x, b=b: BufferStore(b, nothing, (x,)))
            for b, size in {sums.narrow: lanes, sums.wide: width}.items()
        ]
    return seq(made)


def _end(walk: Walk, sums: _Sums, width: int, lanes: int) -> Stmt:
    stage = walk.stage
    total: PrimExpr = BufferLoad(sums.single, (imm64(0),))
    if width > 1:
        how, part = stage.combine, sums.part
        vectors = reduce_vectors(
            how, load_vectors(sums.wide, width // part, part), max(1, lanes // part)
        )
        vectors = [reduce_lanes(how, vector, lanes // len(vectors)) for vector in vectors]
        if lanes < width:
            others = load_vectors(sums.narrow, len(vectors), lanes // len(vectors))
            vectors = [
                accumulate(how, vector, other)
                for vector, other in zip(vectors, others, strict=True)
            ]
        (vector,) = reduce_vectors(how, vectors)
        total = accumulate(how, total, reduce_lanes(how, vector))
    return BufferStore(stage.buffer, total, tuple(value_at(i, walk.place) for i in stage.indices))
