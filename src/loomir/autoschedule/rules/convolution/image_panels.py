"""Copy an image: once with its padding, and into panels of what each tap reads of it (im2col)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.arith.fold import add, imm64, mul, product
from loomir.autoschedule.builders.evaluate import time_of, unravel_index, value_at
from loomir.autoschedule.builders.loops import allocate, loop, scratch, unroll, vectorize
from loomir.autoschedule.builders.operand_access import unravel
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.rules.convolution.recognise import Image
from loomir.ir.substitution import substitute
from loomir.loops.conditions import conjunction
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    LE,
    LT,
    Add,
    FloorMod,
    IntImm,
    Min,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["copy_image", "copy_pieces", "count_pieces", "find_pieces", "parts_of"]

_WRITTEN_OUT: Final = 16
"""Pieces of a row that are unrolled."""


def parts_of(length: int, lanes: int) -> list[tuple[int, int]]:
    """Split a range into vectors of decreasing width: (start, lanes) of each."""
    made: list[tuple[int, int]] = []
    done = 0
    while done < length:
        while lanes > length - done:
            lanes //= 2
        made.append((done, lanes))
        done += lanes
    return made


def _strip_mine(length: int, lanes: int, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
    """Strip-mine a range; call ``body`` with the first element and the lanes of each vector."""
    whole = length // lanes
    made: list[Stmt] = []
    if whole:
        made.append(loop("v", whole, lambda v: body(mul(v, imm64(lanes)), lanes)))
    done = imm64(whole * lanes)
    made += [body(add(done, imm64(i)), n) for i, n in parts_of(length - whole * lanes, lanes)]
    return seq(made)


# -- the copy ----------------------------------------------------------------------------------
def copy_image(image: Image, copy: Buffer, lanes: int) -> tuple[Stmt, str]:
    """Copy an image with its padding, row by row; also describe how the copy is shared."""
    border = image.border
    *outer, last = border.axes
    rows = product(image.lines)
    dtype = copy.dtype

    def put(
        start: PrimExpr, phase: int, first: PrimExpr, size: int, value: PrimExpr, row: Place
    ) -> Stmt:
        """Store ``size`` contiguous elements of a run from ``first`` on."""

        def lane(x: PrimExpr) -> Stmt:
            here = add(first, x)
            place = add(mul(here, imm64(image.stride)), imm64(phase))
            made = value_at(value, {**row, last.var: place})
            return BufferStore(copy, made, (add(start, here),))

        return lane(imm64(0)) if size == 1 else vectorize("lane", size, lane)

    def run(start: PrimExpr, phase: int, row: Place, inside: bool) -> Stmt:
        low, high = (border.low, border.high) if inside else (0, 0)
        low, high = (_ceil_div(x - phase, image.stride) for x in (low, high))
        made: list[Stmt] = []
        for begin, end, value in (
            (0, low, border.other),
            (low, high, border.value),
            (high, image.run, border.other),
        ):
            if end > begin:
                first = imm64(begin)

                def put_pixels(
                    i: PrimExpr, n: int, v: PrimExpr = value, f: PrimExpr = first
                ) -> Stmt:
                    return put(start, phase, add(f, i), n, v, row)

                made.append(_strip_mine(end - begin, lanes, put_pixels))
        return seq(made)

    def item(number: PrimExpr) -> Stmt:
        row = unravel_index(number, outer)
        start = mul(number, imm64(image.pitch))

        def runs(inside: bool) -> Stmt:
            places = [mul(imm64(image.run), imm64(p)) for p in range(image.stride)]
            return seq(run(add(start, place), p, row, inside) for p, place in enumerate(places))

        tests = [
            test
            for var, low, high in border.inside
            for test in (LE(low, row[var]), LT(row[var], high))
        ]
        if not tests:
            return runs(True)
        return IfThenElse(conjunction(tests), runs(True), runs(False))

    each = image.pitch * time_of(border.value, dtype) / 2
    return parallelize(rows, each, "rows of the image", item)


Place = dict[Var, PrimExpr]


def _ceil_div(size: int, step: int) -> int:
    return max(0, -(-size // step))


# -- panels ------------------------------------------------------------------------------------
def count_pieces(image: Image, width: int, lanes: int) -> int:
    """Count the contiguous pieces that a tile of ``width`` pixels has at most."""
    (pixels,) = image.product.columns
    size = pixels.size or 0
    line = image.places[-1].size or 1
    most, seen = 1, set[int]()
    for start in range(0, size, width):
        if start % line in seen and start + width <= size:
            continue
        seen.add(start % line)
        now, count = start, 0
        while now < min(size, start + width):
            now += min(lanes, line - now % line)
            count += 1
        most = max(most, count)
        if len(seen) == line:
            break
    return most


def find_pieces(
    image: Image, first: PrimExpr, width: int, lanes: int, sources: Buffer, targets: Buffer
) -> Stmt:
    """Compute for a tile the address of each piece in the image, and its place in the panel.

    Pieces are copied as full vectors: each overwrites what the one before copied beyond its line.
    """
    (pixels,) = image.product.columns
    line = image.places[-1].extent
    end = Min(add(first, imm64(width)), pixels.extent)
    count = sources.shape[0]
    assert isinstance(count, IntImm)
    now = scratch("now", (1,), DataType("int64"), scope="local")
    zero = imm64(0)

    def find_piece(p: PrimExpr) -> Stmt:
        here = BufferLoad(now, (zero,))
        place = substitute(image.shift, dict(unravel(image.places, here)))
        left = Min(imm64(lanes), Sub(line, FloorMod(here, line)))
        return IfThenElse(
            LT(here, end),
            seq(
                [
                    BufferStore(sources, place, (p,)),
                    BufferStore(targets, Sub(here, first), (p,)),
                    BufferStore(now, Add(here, left), (zero,)),
                ]
            ),
            seq(  # there are fewer: repeat the last one
                [
                    BufferStore(sources, BufferLoad(sources, (Sub(p, imm64(1)),)), (p,)),
                    BufferStore(targets, BufferLoad(targets, (Sub(p, imm64(1)),)), (p,)),
                ]
            ),
        )

    many = unroll if count.value <= _WRITTEN_OUT else loop
    place = substitute(image.shift, dict(unravel(image.places, first)))
    left = Min(imm64(lanes), Sub(line, FloorMod(first, line)))
    start = [
        BufferStore(sources, place, (zero,)),
        BufferStore(targets, zero, (zero,)),
        BufferStore(now, Add(first, left), (zero,)),
    ]
    rest = many("p", count.value - 1, lambda p: find_piece(Add(p, imm64(1))))
    return allocate([now], *start, *([rest] if count.value > 1 else []))


def copy_pieces(
    copy: Buffer,
    base: PrimExpr,
    panel: Buffer,
    slot: PrimExpr,
    row: PrimExpr,
    lanes: int,
    pieces: tuple[Buffer, Buffer],
) -> Stmt:
    """Copy the pieces of one row of a panel."""
    sources, targets = pieces
    count = sources.shape[0]
    assert isinstance(count, IntImm)

    def copy_piece(p: PrimExpr) -> Stmt:
        source = _vector(add(base, BufferLoad(sources, (p,))), lanes)
        target = _vector(add(row, BufferLoad(targets, (p,))), lanes)
        return BufferStore(panel, BufferLoad(copy, (source,)), (slot, target))

    return (unroll if count.value <= _WRITTEN_OUT else loop)("p", count.value, copy_piece)


def _vector(first: PrimExpr, lanes: int) -> PrimExpr:
    return first if lanes == 1 else Ramp(first, imm64(1), lanes)
