"""Decide which operands of a GEMM are read in place rather than packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.autoschedule.builders.operand_access import (
    conversions,
    is_contiguous_along,
    load_under_casts,
    stride_along,
)
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import FEW_STEPS, Tiles
from loomir.ir.visit import pre_order
from loomir.support.dtype import DataType
from loomir.target import Target

__all__ = [
    "can_load_columns",
    "count_leading_axes",
    "is_1d_sum",
    "is_left_unpacked",
]

_FEW_STRIPS: Final = 4
"""Strips of columns up to which rows are reused too seldom to be packed."""

_PITCH: Final = 128
"""Stride of a step in bytes up to which the rows of a tile are as close in place as packed.

17 x 17 x 4096 take half of the time of a packed copy (on a Xeon, Emerald Rapids).
"""

_STREAM: Final = 512
"""Steps of the rows of a tile that half of L1 must hold for rows to be read in place."""

_CONVERTED: Final = 2
"""Strips of columns up to which elements are converted at each read rather than once.

With rows converted once, 512 x 512 x 512 of float16 take 0.7 of the time (on a Xeon, Emerald
Rapids).
"""


def is_1d_sum(found: Contraction) -> bool:
    """Whether the sum runs over one axis of more than one value."""
    return sum(axis.size != 1 for axis in found.reduced) <= 1


def can_load_columns(found: Contraction, lead: int) -> bool:
    """Whether the micro-kernel can load vectors of columns from the unpacked right operand."""
    one = sum(axis.size != 1 for axis in found.columns) == 1
    load = load_under_casts(found.right)
    if load is None or not one or not (lead or is_1d_sum(found)):
        return False
    last = next(axis.var for axis in found.columns if axis.size != 1)
    if any(part is last for index in load.indices[:-1] for part in pre_order(index)):
        return False
    return stride_along(found.right, found.columns) == 1


def count_leading_axes(found: Contraction) -> int:
    """Count the outer reduced axes, inside of which the left operand is contiguous.

    0 where the left operand is better packed, or there is one reduced axis only.
    """
    load = load_under_casts(found.left)
    reduced = found.reduced
    if load is None or is_1d_sum(found) or any(axis.size is None for axis in reduced):
        return 0
    strides = [stride_along(found.left, [axis]) for axis in reduced]
    inner = len(reduced) - 1
    size = reduced[inner].size or 1
    while inner > 1 and strides[inner] and strides[inner - 1] == strides[inner] * size:  # type: ignore[operator]
        inner -= 1
        size *= reduced[inner].size or 1
        strides[inner] = strides[-1]
    return inner


def is_left_unpacked(
    found: Contraction,
    tiles: Tiles,
    sizes: tuple[int | None, int | None],
    target: Target,
    lead: int,
    later: Sequence[DataType],
) -> bool:
    """Whether the left operand is read in place rather than packed.

    ``sizes``: the columns and steps; ``later``: what the right operand is converted to when read.
    """
    n, k = sizes
    left = found.left
    if load_under_casts(left) is None or (
        k is None and not is_contiguous_along(left, found.reduced)
    ):
        return False
    if lead:
        return True
    strips = None if n is None else n / tiles.columns
    if conversions(left) and (later or strips is None or strips > _CONVERTED):
        return False  # each element would be converted again for every tile of columns
    few = strips is not None and strips <= _FEW_STRIPS
    near, size = target.caches[0] // 2, found.dtype.itemsize
    if is_contiguous_along(left, found.reduced):
        # Each row of a tile is a stream of its own: packing it would cost more than it saves.
        return few or tiles.rows * min(k or _STREAM, _STREAM) * size <= near
    assert k is not None
    if is_1d_sum(found) and stride_along(left, found.rows) == 1:
        pitch = stride_along(left, found.reduced)
        if pitch and pitch * size <= _PITCH:
            return True
    return k <= FEW_STEPS or (few and tiles.rows * k * size <= near)
