"""Announce the current activity to listeners, such as a command that shows it on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

__all__ = ["announce", "listen"]

Listener: TypeAlias = Callable[[str], None]

_listeners: Final[list[Listener]] = []


def announce(what: str) -> None:
    """Tell the listeners what happens next."""
    for listener in _listeners:
        listener(what)


@contextmanager
def listen(listener: Listener) -> Generator[None]:
    """Call a function with each announcement within a ``with`` statement."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
