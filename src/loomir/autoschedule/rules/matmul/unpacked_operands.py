"""Which factors of a product are read where they are, and which are better copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.autoschedule.builders.operand_access import (
    conversions,
    plain_load,
    reads_along,
    stride_along,
)
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import FEW_STEPS, Tiles
from loomir.ir.visit import pre_order
from loomir.support.dtype import DataType
from loomir.target import Target

__all__ = ["leading", "one_depth", "rows_in_place", "vectors_in_place"]

_FEW_STRIPS: Final = 4
"""Strips of columns up to which rows are not read often enough to be copied."""

_PITCH: Final = 128
"""Bytes from step to step up to which rows that lie side by side are as near as in a copy.

17 x 17 x 4096 take half of the time that they take with a copy of such rows.
"""

_STREAM: Final = 512
"""Steps of each row of a tile that half of the first cache holds, where rows are not packed."""

_CONVERTED: Final = 2
"""Strips of columns up to which numbers are converted where they are read.

512 x 512 x 512 numbers of float16 take 0.7 of the time with rows that are converted once.
"""


def one_depth(found: Contraction) -> bool:
    """Whether the sum goes along one axis."""
    return sum(axis.size != 1 for axis in found.reduced) <= 1


def vectors_in_place(found: Contraction, lead: int) -> bool:
    """Whether the columns of the right factor can be loaded as vectors from where they are."""
    one = sum(axis.size != 1 for axis in found.columns) == 1
    load = plain_load(found.right)
    if load is None or not one or not (lead or one_depth(found)):
        return False
    last = next(axis.var for axis in found.columns if axis.size != 1)
    if any(part is last for index in load.indices[:-1] for part in pre_order(index)):
        return False
    return stride_along(found.right, found.columns) == 1


def leading(found: Contraction) -> int:
    """Count the reduced axes outside of those along which the left factor is contiguous.

    0 where the left factor had better be packed, or there is but one axis.
    """
    load = plain_load(found.left)
    reduced = found.reduced
    if load is None or one_depth(found) or any(axis.size is None for axis in reduced):
        return 0
    strides = [stride_along(found.left, [axis]) for axis in reduced]
    inner = len(reduced) - 1
    size = reduced[inner].size or 1
    while inner > 1 and strides[inner] and strides[inner - 1] == strides[inner] * size:  # type: ignore[operator]
        inner -= 1
        size *= reduced[inner].size or 1
        strides[inner] = strides[-1]
    return inner


def rows_in_place(
    found: Contraction,
    tiles: Tiles,
    sizes: tuple[int | None, int | None],
    target: Target,
    lead: int,
    later: Sequence[DataType],
) -> bool:
    """Whether numbers of the left factor are read where they are, and not packed.

    ``sizes``: the columns and steps; ``later``: what the right factor is converted to when read.
    """
    n, k = sizes
    left = found.left
    if plain_load(left) is None or (k is None and not reads_along(left, found.reduced)):
        return False
    if lead:
        return True
    strips = None if n is None else n / tiles.columns
    if conversions(left) and (later or strips is None or strips > _CONVERTED):
        return False  # each number would be converted again for every tile of columns
    few = strips is not None and strips <= _FEW_STRIPS
    near, size = target.caches[0] // 2, found.dtype.itemsize
    if reads_along(left, found.reduced):
        # Each row of a tile is a stream of its own: copying it would cost more than it saves.
        return few or tiles.rows * min(k or _STREAM, _STREAM) * size <= near
    assert k is not None
    if one_depth(found) and stride_along(left, found.rows) == 1:
        pitch = stride_along(left, found.reduced)
        if pitch and pitch * size <= _PITCH:
            return True
    return k <= FEW_STEPS or (few and tiles.rows * k * size <= near)
