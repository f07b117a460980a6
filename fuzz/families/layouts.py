"""Memory layouts of arguments: contiguous, with gaps, transposed, reversed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzz.choices import Choices

__all__ = ["laid", "strides_of"]

_GAP = 55


def strides_of(c: Choices, shape: Sequence[int]) -> tuple[int, ...]:
    """Draw the strides of an array that is not packed, in elements."""
    order = list(range(len(shape)))
    if c.chance(0.6):
        order = [order.pop(c.integer(0, len(order) - 1)) for _ in range(len(order))]
    steps, room = [0] * len(order), 1
    for at in reversed(order):
        room *= c.weighted([(5, 1), (1, 2), (1, 3)])
        steps[at] = -room if c.chance(0.25) else room
        room = room * max(1, shape[at]) + c.weighted([(4, 0), (1, 1), (1, 3)])
    return tuple(steps)


def laid(c: Choices, content: Any, strides: Sequence[int]) -> Any:
    """Put a content into an array of strides in elements; packed where there are none."""
    if not strides:
        return content.copy()
    spans = [max(0, n - 1) * s for n, s in zip(content.shape, strides, strict=True)]
    low, high = sum(min(0, x) for x in spans), sum(max(0, x) for x in spans)
    base = np.full(high - low + 1 + c.integer(0, 3), _GAP, content.dtype)
    size = content.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(
        base[-low:], content.shape, tuple(s * size for s in strides)
    )
    view[...] = content
    return view
