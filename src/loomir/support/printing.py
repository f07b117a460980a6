"""The hook by which ``str(node)`` reaches the printer, which lives in a higher layer."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["set_printer", "to_text"]

_printer: list[Callable[[object], str]] = []


def set_printer(printer: Callable[[object], str]) -> None:
    """Make ``printer`` the one that ``to_text`` uses; ``script`` calls this when imported."""
    _printer[:] = [printer]


def to_text(node: object) -> str:
    """Write a node as TVMScript, or by its class name while no printer is loaded."""
    return _printer[0](node) if _printer else object.__repr__(node)
