"""Let Python look for cycles of garbage less often while programs are made.

Passes make millions of nodes and no cycles; to look for some took a seventh of their time.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from loomir.support.fork_safe import ForkSafeLock

__all__ = ["collect_seldom"]

_EACH: Final = 50_000
"""New objects before a garbage collection, instead of Python's default of 700 or 2,000."""
_lock: Final = ForkSafeLock()
_inside: Final[list[tuple[int, int, int]]] = []
"""The thresholds to restore, one entry for each caller that is inside."""


@contextmanager
def collect_seldom() -> Generator[None, None, None]:
    """Collect garbage rarely within a ``with`` statement, in all threads.

    If the user has disabled collection or changed the threshold, that is kept.
    """
    with _lock:
        first, *others = gc.get_threshold()
        _inside.append(_inside[0] if _inside else (first, others[0], others[1]))
        if 0 < first < _EACH:
            gc.set_threshold(_EACH, *others)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside and gc.get_threshold()[0] == _EACH:
                gc.set_threshold(*before)
