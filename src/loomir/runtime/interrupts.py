"""Exceptions of signal handlers, such as that of Ctrl-C, that interrupted a compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["connect_interrupts", "interrupt_of"]

_connected: Final[list[Callable[[int], BaseException | None]]] = []


def connect_interrupts(take: Callable[[int], BaseException | None]) -> None:
    """Set the function that returns the exception that stopped a call; once is enough."""
    _connected.append(take)


def interrupt_of(root: int) -> BaseException | None:
    """Return the exception by which a signal handler stopped the call of ``root``, once."""
    return _connected[0](root) if _connected else None
