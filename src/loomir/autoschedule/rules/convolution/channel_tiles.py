"""Choose the tiles of a convolution in vectors of output channels, and whether it is worth it."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Final

from loomir.arith.fold import FOLDS, imm64, mul, sub
from loomir.autoschedule.builders.operand_access import (
    size_of,
)
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.convolution.recognise import Image
from loomir.autoschedule.rules.matmul.tile_sizes import div_up
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.target import Target
from loomir.tir.expr import (
    IntImm,
    PrimExpr,
    Var,
)

__all__ = [
    "choose_shape",
    "compute_stride",
    "count_lines",
    "estimate_pixel_vectors",
    "is_near",
    "sort_by_stride",
    "tiles_of_block",
]

_BLOCKS: Final = 4
"""Blocks for each CPU, if there is enough work."""
_UNEVEN: Final = 1.06
"""Load imbalance of CPUs up to which blocks are not made smaller.

Each block reads all of its kernels: 512 channels of 7 x 7 take 1.05 of the time in two parts (on a
Xeon, Emerald Rapids).
"""
_TILES: Final = 16
"""Tiles of a block, whose accumulators are spilled between panels."""
_LOADS: Final = 1.2
"""Loading the vectors of a step takes as long as the products of so many pixels."""
_PANELS: Final = 0.88
"""The share of peak speed that vectors of pixels reach, with the packing of their panels."""
_LEFT_OVER: Final = 0.95
"""The share of useful work of vectors of pixels, if there are remainder pixels."""
_TAPS: Final = 4
"""Taps of a kernel from which the image may be in L3: each line is then read several times.

With one tap (256 channels of 56 x 56, stride 2), vectors of channels take twice as long (on a Xeon,
Emerald Rapids).
"""


def choose_shape(image: Image, target: Target) -> tuple[float, tuple[int, int, int]]:
    """Choose lines, pixels of each, and vectors of a tile; also estimate the share of peak speed.

    The more pixels share a load of vectors, the better. Relative to vectors of pixels, 20 x 20 of
    256 channels take 1.1 of the time in tiles of 10 pixels, 28 x 28 of 128 channels 0.9 in tiles of
    14 (on a Xeon, Emerald Rapids).
    """
    found = image.product
    m, lanes = size_of(found.rows) or 0, target.lanes(found.dtype.bits)
    width, height = image.places[-1].size or 1, count_lines(image)
    best = 0.0, (1, 1, 1)
    for vectors in range(2, 5):
        most = (target.registers - 1 - vectors) // vectors
        line = div_up(width, div_up(width, most))
        lines = min(height, max(1, most // width)) if line == width else 1
        useful = width * height / (div_up(width, line) * line * div_up(height, lines) * lines)
        useful *= m / (div_up(m, vectors * lanes) * vectors * lanes)
        for taps in image.tap_bounds:
            if line == width or taps.pixel.var is not image.places[-1].var:
                useful /= taps.share
        best = max(best, (useful * (1 - _LOADS / (line * lines)), (lines, line, vectors)))
    return best


def tiles_of_block(pieces: int, blocks: int, cores: int) -> int:
    """Choose the tiles of a block: few enough for the load of all CPUs to be balanced.

    There are so many ``blocks`` of all ``pieces``; threads share them in contiguous ranges.
    """
    least = div_up(pieces, _TILES)
    for some in range(least, pieces):
        per_part = div_up(pieces, some)
        parts = div_up(pieces, per_part)
        count = blocks * parts
        ends = [count * c // cores for c in range(cores + 1)]
        done = [n // parts * pieces + n % parts * per_part for n in ends]
        most = max(b - a for a, b in pairwise(done))
        if count >= _BLOCKS * cores and most * cores <= _UNEVEN * blocks * pieces:
            return per_part
    return div_up(pieces, max(least, min(pieces, div_up(_BLOCKS * cores, blocks))))


def count_lines(image: Image) -> int:
    """Count the lines at a constant stride from one to the next."""
    return (image.places[-2].size or 1) if len(image.places) > 1 else 1


def estimate_pixel_vectors(image: Image, target: Target) -> float:
    """Estimate the share of peak speed that vectors of pixels reach."""
    found = image.product
    n, m = size_of(found.columns) or 1, size_of(found.rows) or 1
    lanes = target.lanes(found.dtype.bits)
    useful = n / (div_up(n, lanes) * lanes)
    if 0 < n % lanes <= lanes // 4 and n > lanes:
        useful = max(useful, _LEFT_OVER)
    return useful * _PANELS * m / (m + 2)


def is_near(image: Image, shape: tuple[int, int, int], target: Target) -> bool:
    """Whether the caches can hold the image, which is read again for each set of kernels."""
    found = image.product
    size = found.dtype.itemsize
    first, second, _ = target.caches
    near = second or first * 8
    steps = size_of(found.reduced) or 1
    kernels = steps * shape[2] * target.lanes(found.dtype.bits) * size
    lines = size_of(image.places[:-1])
    copy = reduce(mul, image.lines[1:], imm64(image.pitch * size))
    copied = copy.value if isinstance(copy, IntImm) and lines is not None else near
    taps = steps // max(axis.size or 1 for axis in image.steps)
    kernels = min(kernels, 2 * first)
    if taps < _TAPS and copied > near // 2:
        return False
    return (size_of(found.rows) or 1) * steps * size <= near // 2 or copied + 2 * kernels <= near


def compute_stride(image: Image, place: PrimExpr, axis: Axis) -> int | None:
    """Compute the stride of an address along an axis, None if it is dynamic."""
    axes = (*image.product.batch, *image.steps, *image.places)
    zeros: dict[Var, PrimExpr] = {a.var: imm64(0) for a in axes}
    ends = [substitute(place, {**zeros, axis.var: imm64(i)}) for i in (0, 1)]
    moved = rewrite(sub(rewrite(ends[1], FOLDS), rewrite(ends[0], FOLDS)), FOLDS)
    return moved.value if isinstance(moved, IntImm) else None


def sort_by_stride(image: Image) -> list[Axis] | None:
    """Sort the reduced axes by their strides in the image; None if those are dynamic."""
    far = {axis.var: compute_stride(image, image.base, axis) for axis in image.steps}
    if None in far.values():
        return None
    return sorted(image.steps, key=lambda axis: -(far[axis.var] or 0))
