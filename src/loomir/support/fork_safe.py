"""Locks and imports that work in a forked child, whichever thread owned them in the parent.

A child has only the thread that forked. Whatever another thread was creating under a
``ForkSafeLock`` does not exist in the child, which creates it again: these locks only guard what is
created once. For what cannot be created again, a fork waits: ``register_at_fork`` does this for
locks of others, ``import_module`` for modules, whose locks Python does not release in a child.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar, overload

from loomir.support.stack_space import call_with_stack

__all__ = ["ForkSafeLock", "delay_forks", "import_module", "lazy_property", "register_at_fork"]

Value = TypeVar("Value")

_PATIENCE: Final = 10.0
"""The most seconds that forks and imports wait for each other: an import that never ends must not
stop a fork for ever."""


class ForkSafeLock:
    """A lock for ``with``."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        # In a child that was forked while the lock was taken, the new lock is free.
        if self._lock.locked():
            self._lock.release()

    def renew(self) -> None:
        """Replace the lock by a free one, in a child."""
        self._lock = threading.Lock()


_locks: Final[weakref.WeakSet[ForkSafeLock]] = weakref.WeakSet()


class _Imports:
    """Excludes imports and forks from each other, among threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._depths: dict[int, int] = {}
        self._forking: set[int] = set()

    def enter(self) -> None:
        """Wait until no other thread forks, and record that this one imports."""
        me = threading.get_ident()
        with self._changed:
            if me not in self._depths:
                self._changed.wait_for(lambda: self._forking <= {me}, _PATIENCE)
            self._depths[me] = self._depths.get(me, 0) + 1

    def leave(self) -> None:
        """End what ``enter`` began."""
        me = threading.get_ident()
        with self._changed:
            self._depths[me] -= 1
            if not self._depths[me]:
                del self._depths[me]
                self._changed.notify_all()

    def pause(self) -> None:
        """Wait until no other thread imports, and keep them from it."""
        me = threading.get_ident()
        with self._changed:
            self._forking.add(me)
            self._changed.wait_for(lambda: self._depths.keys() <= {me}, _PATIENCE)

    def resume(self) -> None:
        """Let the parent's threads import again."""
        with self._changed:
            self._forking.discard(threading.get_ident())
            self._changed.notify_all()

    def renew(self) -> None:
        """Forget, in a child, the threads that it does not have."""
        me = threading.get_ident()
        self._changed = threading.Condition()
        self._depths = {thread: n for thread, n in self._depths.items() if thread == me}
        self._forking.clear()


_imports: Final = _Imports()


@contextmanager
def delay_forks() -> Generator[None]:
    """Keep forks waiting while modules are imported here."""
    _imports.enter()
    try:
        yield
    finally:
        _imports.leave()


def import_module(name: str) -> Any:
    """Import a module like ``importlib.import_module``; forks wait until it is imported."""
    found = sys.modules.get(name)
    # Python clears this when a module is completely imported.
    if found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False):
        return found
    with delay_forks():
        # From Python 3.14 on, the parser refuses to read a module in a thread with a small stack.
        return call_with_stack(importlib.import_module, name)


_hooks: Final[list[tuple[Callable[[], object], Callable[[], object]]]] = []
_passed: Final[dict[int, list[Callable[[], object]]]] = {}


def register_at_fork(before: Callable[[], object], after: Callable[[], object]) -> None:
    """Run one function before each fork from now on, the other after it in parent and child."""
    _hooks.append((before, after))


def _run_before_fork() -> None:
    # A thread that imports may need the locks that other hooks take.
    _imports.pause()
    passed = _passed[threading.get_ident()] = []
    for before, after in tuple(_hooks):
        before()
        passed.append(after)


def _run_after_fork() -> None:
    # Only those that ran before the fork: others may have been added meanwhile.
    for after in reversed(_passed.pop(threading.get_ident(), ())):
        after()


def _run_in_parent() -> None:
    _run_after_fork()
    _imports.resume()


def _run_in_child() -> None:
    for lock in list(_locks):
        lock.renew()
    _run_after_fork()
    _passed.clear()
    _imports.renew()


# logging takes its lock before each fork. Imported before our hook is registered, it does so after
# our hook has waited for imports, which may write to logs.
importlib.import_module("logging")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_run_before_fork, after_in_parent=_run_in_parent, after_in_child=_run_in_child
    )


class lazy_property(Generic[Value]):  # noqa: N801 - a decorator
    """A property that is computed on first access, and stored in its object.

    Up to Python 3.11, ``functools.cached_property`` uses a lock that all objects of a class share:
    a child that was forked while another thread had the lock would wait for ever. Here, two threads
    may both compute the value, of which one is kept.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object, owner: type) -> Value | lazy_property[Value]:
        if instance is None:
            return self
        value = self._compute(instance)
        kept: Value = vars(instance).setdefault(self._name, value)
        return kept
