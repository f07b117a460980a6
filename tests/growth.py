"""How the time of some work grows with its size, measured so that other work does not matter."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

__all__ = ["assert_grows", "cpu_seconds"]

_ATTEMPTS: Final = 6


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of some work, without what collecting others' garbage takes."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()


def assert_grows(
    at_most: float,
    make: Callable[[int], Callable[[], object]],
    small: int,
    large: int,
) -> None:
    """Work of the ``large`` size takes ``at_most`` times the time of work of the ``small`` one.

    ``make`` prepares work of a size. The sizes take turns, and the least time of each counts: a
    busy machine lengthens times for a while, where work that grows too fast is slow every time.
    """
    best: dict[int, float] = {}
    make(small)()
    for _ in range(_ATTEMPTS):
        for size in (small, large):
            seconds = cpu_seconds(make(size))
            best[size] = min(seconds, best.get(size, seconds))
        if best[large] <= at_most * best[small]:
            return
    raise AssertionError(
        f"size {large} takes {best[large] / best[small]:.1f} times the time of size {small}, "
        f"more than {at_most}: {best[large]:.3f} s and {best[small]:.3f} s"
    )
