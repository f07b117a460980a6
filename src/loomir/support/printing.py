"""The hook through which ``str(node)`` reaches the printer in a higher layer."""

from __future__ import annotations

from typing import Protocol

from loomir.support.argument_errors import explain_arguments

__all__ = ["Printer", "set_printer", "to_text"]


class Printer(Protocol):
    """Prints a node; ``constants`` says where large constants go, see ``to_text``."""

    def __call__(self, node: object, *, constants: str) -> str:
        """Print a node."""
        ...


_printer: list[Printer] = []


def set_printer(printer: Printer) -> None:
    """Make ``printer`` the one that ``to_text`` uses; ``script`` calls this when imported."""
    _printer[:] = [printer]


@explain_arguments
def to_text(node: object, *, constants: str = "named") -> str:
    """Return a node as TVMScript, or its class name while no printer is loaded.

    Large constants are ``"named"`` by their digests, which can be read back only if they are stored
    already; or also ``"stored"`` in files of the cache; or written ``"inline"``.
    """
    return _printer[0](node, constants=constants) if _printer else object.__repr__(node)
