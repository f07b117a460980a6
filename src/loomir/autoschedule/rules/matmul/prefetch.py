"""Software prefetch: while a tile is computed, request the cache lines that the next one reads.

A hardware prefetcher detects a stream only after several lines, and stops at the end of a page;
the rows of a tile are that short. Square products of 1024 take 0.92 of the time with software
prefetch. A prefetch costs as much as a load, so only columns and results are requested: with rows
as well, these products take 1.02 of the time, or 1.05 if two threads share the core (on a Xeon,
Emerald Rapids).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.builders.loops import loop
from loomir.autoschedule.builders.operand_access import ravel, unravel
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, Side, Source
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import Tiles, div_up
from loomir.ir.substitution import substitute
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import LT, Eq, FloorDiv, IntImm, PrimExpr, Select
from loomir.tir.stmt import Evaluate, Stmt, seq

__all__ = [
    "GROUP",
    "Fetch",
    "prefetch_columns",
    "prefetch_result",
    "prefetch_rows",
    "prefetch_stream",
    "run_in_groups",
]

GROUP: Final = 8
"""Steps that are unrolled; prefetches are distributed over groups of them."""

_LINE: Final = 64
"""Bytes of a cache line."""

_MOST_LINES: Final = 6
"""Lines to prefetch in each group at most: half as many as the group has loads."""

_AHEAD: Final = 16 << 10
"""Prefetch distance in bytes for weights that few rows read from memory, as one stream.

8 x 4096 x 4096 take 0.65 of the time without prefetch, and half of the time of panels read at four
places at once; with a distance of 4 KB they take 0.8 (on a Xeon, Emerald Rapids).
"""

_INT32: Final = DataType("int32")
_FIRST, _SECOND = 3, 2
"""The cache level (locality) to fetch into: a strip of columns is larger than L1."""
_DATA: Final = 1
"""The kind of cache to fetch into: the data cache, not that of instructions."""

Fetch: TypeAlias = Callable[[PrimExpr], Stmt]
"""Emits the prefetches of a group of steps."""


def _prefetch_line(
    element: BufferLoad, offset: PrimExpr, *, writes: bool = False, near: bool = False
) -> Stmt:
    pointer: PrimExpr = call_builtin("address_of", element)
    if not (isinstance(offset, IntImm) and offset.value == 0):
        pointer = call_builtin("handle_add_byte_offset", pointer, offset)
    cache = _FIRST if writes or near else _SECOND
    how = [IntImm(value, _INT32) for value in (int(writes), cache, _DATA)]
    return Evaluate(call_builtin("prefetch", pointer, *how))


def _prefetch_lines(element: BufferLoad, first: PrimExpr, lines: int) -> Fetch:
    """Prefetch ``lines`` contiguous lines in each group, beginning with the ``first`` group."""

    def group(g: PrimExpr) -> Stmt:
        begin = mul(add(first, g), imm64(lines * _LINE))
        return seq(_prefetch_line(element, add(begin, imm64(i * _LINE))) for i in range(lines))

    return group


def prefetch_columns(
    right: Side,
    batch: PrimExpr,
    strip: tuple[PrimExpr, PrimExpr],
    tile: tuple[PrimExpr, PrimExpr],
    per_block: int,
    panel: tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr],
) -> Fetch | None:
    """Prefetch the columns of the next strip: each tile of rows takes its share of them.

    ``panel``: its number, the number of panels, its first step and its depth. After the last strip
    of a block comes the first one of the next panel.
    """
    if right.source is not Source.WHOLE or right.packed is None:
        return None
    packed, (across, slot) = right.packed, strip
    lines = div_up(GROUP * right.width * packed.dtype.itemsize, _LINE * per_block)
    if lines > _MOST_LINES:
        return None
    number, panels, start, depth = panel
    column = ravel(across, right.per_block, slot)
    last = Eq(add(slot, imm64(1)), right.tiles_of(across))
    after = Select(last, mul(across, imm64(right.per_block)), add(column, imm64(1)))
    begin: PrimExpr = start
    if not (isinstance(panels, IntImm) and panels.value <= 1):
        more = LT(add(number, imm64(1)), panels)
        begin = Select(last, Select(more, add(start, depth), imm64(0)), start)
    element = BufferLoad(packed, (ravel(batch, right.tiles, after), begin, imm64(0)))
    return _prefetch_lines(element, mul(tile[1], FloorDiv(depth, imm64(GROUP))), lines)


def prefetch_stream(right: Side, batch: PrimExpr, tile: PrimExpr, start: PrimExpr) -> Fetch:
    """Prefetch at a distance of ``_AHEAD`` bytes in each group, in one stream of panels.

    Panels of all columns are contiguous: what is beyond a tile belongs to the next one. Tiles of
    rows but the first prefetch lines that are cached already, which delays no product.
    """
    assert right.packed is not None
    element = BufferLoad(right.packed, (ravel(batch, right.tiles, tile), start, imm64(0)))
    size = GROUP * right.width * right.packed.dtype.itemsize

    def group(g: PrimExpr) -> Stmt:
        begin = add(mul(g, imm64(size)), imm64(_AHEAD))
        places = [add(begin, imm64(i)) for i in range(0, size, _LINE)]
        return seq(_prefetch_line(element, place, near=True) for place in places)

    return group


def prefetch_rows(first: BufferLoad, rows: int, steps: int) -> Fetch:
    """Prefetch the next ``rows`` of a matrix, which ``steps`` long rows lie behind ``first``.

    Each group of steps asks for its share of them, as one stream.
    """
    size = first.dtype.itemsize
    lines = div_up(rows * GROUP * size, _LINE)

    def group(g: PrimExpr) -> Stmt:
        begin = add(imm64(rows * steps * size), mul(g, imm64(lines * _LINE)))
        return seq(_prefetch_line(first, add(begin, imm64(i * _LINE))) for i in range(lines))

    return group


def prefetch_result(
    found: Contraction,
    inner: Set[Buffer],
    batch: PrimExpr,
    places: tuple[AxesAtOffset, AxesAtOffset],
    tiles: Tiles,
) -> Stmt:
    """Prefetch for writing the lines of a tile in the last result that lives on."""
    kept = [part for part in (found.stage, *found.epilogue) if part.buffer not in inner]
    if not kept:
        return seq(())
    stored = kept[-1]
    step = max(tiles.lanes, _LINE // stored.buffer.dtype.itemsize)

    def row(r: PrimExpr) -> Stmt:
        made: list[Stmt] = []
        for c in range(0, tiles.columns, step):
            place = {**unravel(found.batch, batch), **places[0](r), **places[1](imm64(c))}
            place.update({var: substitute(whole, place) for var, whole in found.cut.items()})
            indices = tuple([substitute(index, place) for index in stored.indices])
            made.append(_prefetch_line(BufferLoad(stored.buffer, indices), imm64(0), writes=True))
        return seq(made)

    return loop("r", tiles.rows, row)


def run_in_groups(
    depth: PrimExpr, body: Callable[[PrimExpr], Stmt], fetches: Sequence[Fetch]
) -> Stmt:
    """Run all steps of a panel in groups, each of which issues some prefetches first."""
    size = imm64(GROUP)
    whole = imm64(depth.value // GROUP) if isinstance(depth, IntImm) else FloorDiv(depth, size)

    def group(g: PrimExpr) -> Stmt:
        steps = loop("k", size, lambda k: body(ravel(g, GROUP, k)), at_once=GROUP)
        return seq([*[fetch(g) for fetch in fetches], steps])

    done = mul(whole, size)
    rest = sub(depth, done)
    groups = loop("group", whole, group)
    if isinstance(rest, IntImm) and rest.value == 0:
        return groups
    return seq([groups, loop("k", rest, lambda k: body(add(done, k)))])
