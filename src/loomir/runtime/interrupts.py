"""Exceptions of signal handlers, such as that of Ctrl-C, that interrupted a compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["connect_interrupts", "interrupt_of"]

_connected: Final[list[Callable[[int], BaseException | None]]] = []


def connect_interrupts(take: Callable[[int], BaseException | None]) -> None:
    """Name what gives the exception that stopped a call, by its root; once is enough."""
    _connected.append(take)


def interrupt_of(root: int) -> BaseException | None:
    """Return what the handler of a signal raised and stopped that call by, once."""
    return _connected[0](root) if _connected else None
