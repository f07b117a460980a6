"""Element-wise stages: one run of elements, vectorised and shared between threads.

The innermost axes along which all arrays are contiguous are collapsed into a run; the others are
one loop around it. A long run is split into chunks, so that memory is read in order and each thread
has its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from loomir.arith.fold import fold_expr, imm, product
from loomir.autoschedule.builders.evaluate import (
    is_cheap_call,
    number,
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import INDEX, loop, unroll, vectorize
from loomir.autoschedule.builders.strip_mine import partial_vector_widths, strip_mine
from loomir.autoschedule.builders.thread_partition import is_worth, parallelize, task_size
from loomir.autoschedule.ir.decision import decide
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.autoschedule.rewrite.index_set_splitting import IndexRange, split_index_set, unswitch
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import BinaryOp, Call, Max, Min, PrimExpr, Var
from loomir.tir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq

__all__ = [
    "bytes_of",
    "is_heavy",
    "lies_along",
    "plan_elementwise",
    "runs_in",
    "runs_long",
    "values_join",
]


_CHOICES: Final = 2
"""Most choices that are unswitched around rows of dynamic length: each doubles the code."""
_AT_ONCE: Final = 4
"""Unroll factor of loops that look elements up one by one."""
_LITTLE: Final = 12
"""Operations, including those on indices, up to which elements are looked up one by one."""
_SHORT: Final = 4096
"""Elements of rows up to which loops count the rows, rather than a division."""

_ROLLED: Final = "LLVM vectorises the loop along the run: neighbours of a vector stay in registers"
_TRIPLES: Final = 32
"""Bytes of pixels with three channels that are separated at once, in registers of 256 bits. Twice
as many take 1.25 times the time (for Skylake, on a Zen 4), half as many up to 1.8 times (Zen 3)."""

_Place: TypeAlias = Mapping[Var, PrimExpr]


class Run(NamedTuple):
    """The axes of a stage: those counted outside, and those that form the run."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]


class _Cover(NamedTuple):
    """How the elements of a run are covered: in vectors, or by a loop of so many steps at once."""

    width: int
    text: str
    at_once: int = 0
    looks_up: bool = False


def plan_elementwise(stage: Stage, target: Target) -> Plan | None:
    """Plan a stage that combines nothing; None for others, and for empty ones."""
    if stage.combine is not Combine.NONE or any(axis.size == 0 for axis in stage.axes):
        return None
    run = runs_in(stage)
    lanes = target.lanes(max(8, widest(stage.value, stage.buffer.dtype)))
    heavy = is_heavy(stage.value)
    length, count = product(a.extent for a in run.inner), product(a.extent for a in run.outer)
    known, rows = number(length), number(count)
    cover = _choose_cover(stage, run, lanes, heavy, target)
    width = cover.width

    def store(value: PrimExpr, row: _Place, element: PrimExpr) -> Stmt:
        table = {**row, **unravel_index(element, run.inner)}
        indices = tuple(value_at(i, table) for i in stage.indices)
        return BufferStore(stage.buffer, value_at(value, table), indices)

    def store_range(row: _Place, first: PrimExpr, size: PrimExpr, value: PrimExpr) -> Stmt:
        left = number(size)
        if left == 0:
            return seq(())
        if cover.looks_up and isinstance(value, BufferLoad):
            return _cover_by_steps(lambda e: store(value, row, first + e), size)
        if cover.at_once:
            return loop("i", size, lambda i: store(value, row, first + i), at_once=cover.at_once)
        parts: Sequence[int] = ()
        if left is not None:
            parts = partial_vector_widths(width, left)
        elif known is None:
            parts = [lanes, *partial_vector_widths(lanes, lanes)][:: 1 if heavy else 2]
        return _cover_by_vectors(lambda e: store(value, row, first + e), size, width, parts)

    def piece(row: _Place, first: PrimExpr, size: PrimExpr) -> Stmt:
        return choose_loops(stage.value, row, first, size, _CHOICES if known is None else 0)

    def choose_loops(
        value: PrimExpr, row: _Place, first: PrimExpr, size: PrimExpr, most: int
    ) -> Stmt:
        choice = unswitch(value, {axis.var for axis in run.inner}) if most else None
        if choice is not None:
            yes, no = (choose_loops(v, row, first, size, most - 1) for v in choice[1:])
            return IfThenElse(value_at(choice.condition, row), yes, no)
        ranges = _split_run(value, stage, run)
        if len(ranges) == 1:
            return store_range(row, first, size, ranges[0].value)
        made: list[Stmt] = []
        for low, high, part in ranges:
            begin = first if number(low) == 0 else fold_expr(Max(first, low))
            end = fold_expr(Min(first + size, high))
            length = fold_expr(Max(end - begin, imm(0, INDEX)))
            made.append(store_range(row, begin, length, part))
        return seq(made)

    each = time_of(stage.value, stage.buffer.dtype)
    chunk = max(1, task_size(each) // width) * width
    choices = [cover.text]
    elements = None if known is None or rows is None else known * rows
    large = elements is None or is_worth(elements * each)
    if known is None and rows != 1:
        stmt, how = _chunk_rows(run, (length, count), chunk, each, piece)
    elif large and (known is None or known >= 2 * chunk):
        cut = imm(chunk, INDEX)
        pieces = (length + imm(chunk - 1, INDEX)) // cut
        stmt, how = parallelize(
            count * pieces,
            each * chunk,
            f"chunks of {chunk} elements",
            lambda t: piece(
                unravel_index(t // pieces, run.outer),
                (t % pieces) * cut,
                Min(cut, length - (t % pieces) * cut),
            ),
        )
    else:
        assert known is not None
        stmt, how = _rows(run, known, each, lambda row: piece(row, imm(0, INDEX), length))
    moved = None if elements is None else elements * bytes_of(stage)
    return Plan("element-wise", stmt, (*choices, how), None, moved)


def _choose_cover(stage: Stage, run: Run, lanes: int, heavy: bool, target: Target) -> _Cover:
    if not heavy and _looks_up(stage, run):
        return _Cover(1, "elements are looked up one by one", _AT_ONCE, looks_up=True)
    if _has_neighbours(stage, run, lanes):
        return _Cover(1, _ROLLED, 1)
    width = _width(stage, run, lanes, target)
    return _Cover(width, _run_text(run, width, lanes, target))


def _width(stage: Stage, run: Run, lanes: int, target: Target) -> int:
    """Choose how many elements of a run are computed at once."""
    # A math function is a chain of dependent operations. With registers enough for the constants of
    # two, two at a time take 0.75 (silu) to 1.0 (exp) of the time (on a Xeon, Emerald Rapids).
    known = number(product(axis.extent for axis in run.inner))
    width = lanes if is_heavy(stage.value) and target.registers < 32 else 2 * lanes
    if known is not None and known < width:
        width = 1 if known < lanes else lanes
    if width > 1 and (known is None or known >= _TRIPLES) and _has_triples(stage, run, target):
        width = _TRIPLES

    def list_widths() -> list[int]:
        return [w for w in (lanes // 2, lanes, 2 * lanes, 4 * lanes) if 1 < w <= (known or w)]

    return decide("vector", width, list_widths)


def _chunk_rows(
    run: Run,
    extents: tuple[PrimExpr, PrimExpr],
    chunk: int,
    each: float,
    piece: Callable[[_Place, PrimExpr, PrimExpr], Stmt],
) -> tuple[Stmt, str]:
    """Cut rows of dynamic length into chunks, or group as many rows as make a chunk."""
    length, count = extents
    size, one = imm(chunk, INDEX), imm(1, INDEX)
    pieces, rows = Var("pieces", INDEX), Var("rows", INDEX)

    def task(t: PrimExpr) -> Stmt:
        start, first = (t // pieces) * rows, (t % pieces) * size
        left = Min(size, length - first)
        return loop(
            "row",
            Min(rows, count - start),
            lambda r: piece(unravel_index(start + r, run.outer), first, left),
        )

    how = f"chunks of {chunk} elements, or as many rows as make one"
    tasks = ((count + (rows - one)) // rows) * pieces
    stmt, text = parallelize(tasks, each * chunk, how, task)
    many = Max(one, size // Max(length, one))
    stmt = LetStmt(rows, many, stmt)
    return LetStmt(pieces, Max(one, (length + (size - one)) // size), stmt), text


def _rows(run: Run, known: int, each: float, row: Callable[[_Place], Stmt]) -> tuple[Stmt, str]:
    """Run ``row`` for all rows; nested loops count short ones, which is cheaper than dividing."""
    start, length = len(run.outer), known
    while start > 1 and length * (run.outer[start - 1].size or _SHORT) < _SHORT:
        start -= 1
        length *= run.outer[start].size or 1
    outer = run.outer[:start]
    inner = [axis for axis in run.outer[start:] if axis.size != 1]
    once: _Place = {axis.var: imm(0, INDEX) for axis in run.outer[start:] if axis.size == 1}

    def inside(k: int, place: _Place) -> Stmt:
        if k == len(inner):
            return row(place)
        axis = inner[k]
        return loop(
            axis.var.name_hint, axis.extent, lambda i: inside(k + 1, {**place, axis.var: i})
        )

    count = product(axis.extent for axis in outer)
    return parallelize(
        count, each * length, "rows", lambda r: inside(0, {**once, **unravel_index(r, outer)})
    )


def _split_run(value: PrimExpr, stage: Stage, run: Run) -> list[IndexRange]:
    """Split a run where its conditions change, so that none of them varies within a vector."""
    wide = [axis for axis in run.inner if axis.size != 1]
    parted = split_index_set(value, stage.axes, wide[0]) if len(wide) == 1 else None
    return parted or [IndexRange(imm(0, INDEX), imm(0, INDEX), value)]


def _cover_by_vectors(
    store: Callable[[PrimExpr], Stmt], size: PrimExpr, width: int, parts: Sequence[int]
) -> Stmt:
    """Cover elements ``[0, size)`` by vectors, and the rest by parts of them and one by one."""

    def store_vector(first: PrimExpr, lanes: int) -> Stmt:
        return store(first) if lanes == 1 else vectorize("lane", lanes, lambda x: store(first + x))

    sizes = list(dict.fromkeys([width, *(part for part in parts if part < width), 1]))
    return seq(strip_mine(imm(0, INDEX), size, sizes, store_vector))


def _cover_by_steps(store: Callable[[PrimExpr], Stmt], size: PrimExpr) -> Stmt:
    """Cover elements ``[0, size)`` one by one, several in a step of the loop.

    They are written out here: LLVM's passes over loops are not run where nothing is computed.
    """

    def store_several(first: PrimExpr, count: int) -> Stmt:
        return unroll("step", count, lambda x: store(first + x)) if count > 1 else store(first)

    return seq(strip_mine(imm(0, INDEX), size, (_AT_ONCE, 1), store_several))


def _looks_up(stage: Stage, run: Run) -> bool:
    """Whether a run only looks elements up by indices that do not lie side by side.

    Such runs are scalar. Where indices lie side by side, each is loaded by itself, and what is
    looked up makes vectors: a table of 256 numbers then takes 0.8 of the time of a scalar loop for
    65,536 bytes, and half if the numbers are converted to bytes (on a Zen 4).
    """
    found = by_class(stage.value)
    if sum(len(nodes) for cls, nodes in found.items() if issubclass(cls, BinaryOp)) > _LITTLE:
        return False
    names = {axis.var for axis in run.inner}
    indices = [
        inner
        for load in found.get(BufferLoad, ())
        for index in load.indices
        for inner in by_class(index).get(BufferLoad, ())
        if any(v in names for i in inner.indices for v in by_class(i).get(Var, ()))
    ]
    return any(_stride(inner, run.inner[-1].var, stage.axes) != 1 for inner in indices)


def _has_neighbours(stage: Stage, run: Run, lanes: int) -> bool:
    """Whether a long run reads elements beside each other from the same rows, as stencils do.

    LLVM's vectoriser keeps a vector for the next iteration, and shifts it into the neighbours: a
    Laplacian of 512 x 512 numbers takes 0.85 of the time (on a Zen 4).
    """
    length = number(product(axis.extent for axis in run.inner))
    found = by_class(stage.value)
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    if (length is not None and length < 2 * lanes) or len(run.inner) != 1 or Call in found:
        return False
    if any(load.dtype is not stage.buffer.dtype for load in loads) or stage.buffer.dtype.bits < 32:
        return False
    rows: dict[tuple[object, ...], set[int]] = {}
    for load in loads:
        forms = [affine_form(index, stage.axes) for index in load.indices]
        if not forms or any(form is None for form in forms):
            return False
        *outer, last = [form for form in forms if form is not None]
        if run.inner[0].var in last.terms:
            place = number(last.rest)
            key = (load.buffer, *((*form.terms.items(), str(form.rest)) for form in outer))
            rows.setdefault(key, set()).add(0 if place is None else place)
    return any(place + 1 in places for places in rows.values() for place in places)


def _has_triples(stage: Stage, run: Run, target: Target) -> bool:
    """Whether a run loads every third byte, as of pixels, and bytes are not permuted at once."""
    if target.has("avx512_vbmi") or not run.inner:
        return False
    last = run.inner[-1].var
    return any(
        load.dtype.bits == 8 and not load.buffer.strides and _stride(load, last, stage.axes) == 3
        for load in by_class(stage.value).get(BufferLoad, ())
    )


def _stride(load: BufferLoad, along: Var, axes: Sequence[Axis]) -> int | None:
    """Return the distance of neighbours along an axis in elements, None if it is not constant."""
    stride = 0
    for index, extent in zip(load.indices, load.buffer.shape):
        form, size = affine_form(index, axes), number(extent)
        if form is None or (stride and size is None):
            return None
        stride = stride * (size or 1) + form.terms.get(along, 0)
    return stride


def is_heavy(value: PrimExpr) -> bool:
    """Whether a value calls math functions, which need registers of their own."""
    return any(
        not all(map(is_cheap_call, nodes))
        for cls, nodes in by_class(value).items()
        if issubclass(cls, Call)
    )


def bytes_of(stage: Stage) -> int:
    """Count the bytes that a stage loads and stores for an element."""
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    return (stage.buffer.dtype.bits + sum(load.dtype.bits for load in loads)) // 8


def _run_text(run: Run, width: int, lanes: int, target: Target) -> str:
    names = ", ".join(axis.var.name_hint for axis in run.inner)
    if width == 1:
        return f"the run over {names} is shorter than a vector"
    registers = "one register" if width <= lanes else f"{width // lanes} registers"
    return f"vectors of {width} elements ({registers} of {target.vector_bits} bits) along {names}"


def runs_in(stage: Stage) -> Run:
    """Split axes into outer ones and the run: the last ones in memory, collapsed if they can be."""
    placed = [a for a in storage_order(stage) if a.size != 1]
    unit = tuple(a for a in stage.axes if a.size == 1)
    if not placed:
        return Run(unit, ())
    start = len(placed) - 1
    while start > 0 and _joins(stage, placed[start - 1 :]):
        start -= 1
    return Run((*unit, *placed[:start]), tuple(placed[start:]))


def runs_long(stage: Stage, target: Target) -> bool:
    """Whether the run of a stage may fill a vector, and is contiguous in all arrays."""
    inner = runs_in(stage).inner
    length = number(product(axis.extent for axis in inner))
    lanes = target.lanes(max(8, widest(stage.value, stage.buffer.dtype)))
    if not inner or (length is not None and length < lanes):
        return False
    return _lie_side_by_side(stage, inner[-1])


def _lie_side_by_side(stage: Stage, last: Axis) -> bool:
    for load in by_class(stage.value).get(BufferLoad, ()):
        if not load.indices:
            continue  # one element for all
        *outer, along = (affine_form(index, stage.axes) for index in load.indices)
        if along is None or along.terms.get(last.var, 1) != 1:
            return False
        if any(form is None or last.var in form.terms for form in outer):
            return False
    return True


def _joins(stage: Stage, axes: Sequence[Axis]) -> bool:
    """Whether each array is contiguous along the axes as if they were one, or does not use them."""
    return lies_along(stage.buffer, stage.indices, axes) and values_join(stage.value, axes)


def values_join(value: PrimExpr, axes: Sequence[Axis]) -> bool:
    """Whether each load is contiguous along the axes as if they were one, or does not use them."""
    names = {axis.var for axis in axes}

    def shorten(load: BufferLoad) -> PrimExpr:
        lies = lies_along(load.buffer, load.indices, axes)
        return Var("element", load.dtype) if lies else load

    left = rewrite(value, {BufferLoad: shorten})
    return not any(v in names for v in by_class(left).get(Var, ()))


def lies_along(buffer: Buffer, indices: Sequence[PrimExpr], axes: Sequence[Axis]) -> bool:
    """Whether the last indices are just the axes, all but the first covering whole dimensions."""
    if buffer.strides or len(indices) < len(axes):
        return False
    tail = len(indices) - len(axes)
    for index, axis in zip(indices[tail:], axes):
        if index is not axis.var:
            return False
    shape = buffer.shape[tail + 1 :]
    return all(
        axis.size is not None and number(extent) == axis.size
        for extent, axis in zip(shape, axes[1:])
    )
