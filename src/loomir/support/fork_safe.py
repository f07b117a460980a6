"""Locks that are free in a forked child, whichever thread had locked them in the parent.

A child has only the thread that forked. What another thread was making under such a lock is not
made in the child, which makes it again: these locks only guard what is made once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

__all__ = ["ForkSafeLock", "at_fork"]


class ForkSafeLock:
    """A lock for ``with``."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        # A thread that forked under the lock comes here with the new one, which is free.
        if self._lock.locked():
            self._lock.release()

    def renew(self) -> None:
        """Make the lock free, in a child."""
        self._lock = threading.Lock()


_locks: Final[weakref.WeakSet[ForkSafeLock]] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


def at_fork(before: Callable[[], object], after: Callable[[], object]) -> None:
    """Run one function before each fork from now on, the other after it in parent and child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
