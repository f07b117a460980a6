"""The hook through which ``str(node)`` reaches the printer in a higher layer."""

from __future__ import annotations

from typing import Protocol

from loomir.support.argument_errors import explain_arguments

__all__ = ["Printer", "set_printer", "to_text"]


class Printer(Protocol):
    """Writes a node; ``constants`` says where large constants go, see ``to_text``."""

    def __call__(self, node: object, *, constants: str) -> str:
        """Write a node."""
        ...


_printer: list[Printer] = []


def set_printer(printer: Printer) -> None:
    """Make ``printer`` the one that ``to_text`` uses; ``script`` calls this when imported."""
    _printer[:] = [printer]


@explain_arguments
def to_text(node: object, *, constants: str = "named") -> str:
    """Write a node as TVMScript, or by its class name while no printer is loaded.

    A large constant is ``"named"`` by its digest, which reads back only where it is stored already;
    ``"stored"`` in a file of the cache as well; or written out ``"inline"``.
    """
    return _printer[0](node, constants=constants) if _printer else object.__repr__(node)
