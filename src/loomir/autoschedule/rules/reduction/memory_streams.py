"""Choose vector widths and prefetches for passes that are bound by memory or the last-level cache.

NumPy's large arrays begin 16 bytes after a cache line. A vector that is as long as a line is then
in two lines, and waits for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.autoschedule.builders.evaluate import widest
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.rules.elementwise.elementwise import is_heavy
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.buffer import BufferLoad

__all__ = ["LoadOptions", "choose_load_options"]

_HALF_LINE: Final = 256
"""Bits of half a cache line: however an array is aligned, half of such vectors are in one line.

From memory, a norm of 4096 x 768 numbers takes 0.7 of the time of whole lines, as much as aligned
whole lines take. From L2 it takes 1.3 of the time (on a Xeon, Emerald Rapids).
"""

_AHEAD: Final = 16 << 10
"""Prefetch distance in bytes for passes that only read one stream.

Sums of 4096 x 4096 numbers take 0.9 of the time on one core, 0.7 on two (on a Xeon, Emerald
Rapids).
"""


class LoadOptions(NamedTuple):
    """How elements are loaded: prefetch distance and lanes of a vector; 0 is the default."""

    ahead: int = 0
    lanes: int = 0

    def texts(self) -> list[str]:
        """Describe the choice."""
        made = [f"what lies {self.ahead} elements ahead is fetched into the caches"]
        made = made if self.ahead else []
        if self.lanes:
            made.append(f"vectors of {self.lanes} come from memory: longer ones lie in two lines")
        return made


def choose_load_options(
    stages: Sequence[Stage], elements: int | None, target: Target, *, only: bool
) -> LoadOptions:
    """Choose how a pass reads its elements; ``only``: no other pass runs between its rows."""
    moved = elements and elements * sum(map(_bytes_of, stages))
    if moved is None or moved <= target.caches[1]:
        return LoadOptions()
    if any(is_heavy(stage.value) for stage in stages):
        return LoadOptions()
    bits = max(max(8, widest(stage.value, stage.buffer.dtype)) for stage in stages)
    if only and all(stage.reduced for stage in stages) and moved > max(target.caches):
        return LoadOptions(ahead=_AHEAD * 8 // bits)
    return LoadOptions(lanes=_HALF_LINE // bits if target.lanes(bits) * bits > _HALF_LINE else 0)


def _bytes_of(stage: Stage) -> int:
    """Return the bytes that a stage reads and stores for an element."""
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    read = {load.buffer: load.dtype.bits for load in loads}
    return (sum(read.values()) + (0 if stage.reduced else stage.buffer.dtype.bits)) // 8
