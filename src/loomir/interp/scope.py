"""The slots of a function's variables at run time."""

from __future__ import annotations

from typing import NoReturn

from loomir.interp.machine import FIRST_SLOT
from loomir.interp.memory import Tracker
from loomir.interp.numbers import ROUNDED, Numbers
from loomir.ir.node import Node
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var

__all__ = ["Scope", "refuse"]


def refuse(message: str, help: str, span: Span | None) -> NoReturn:
    """Raise an error for a rule of the language that is only checked before a run."""
    raise CompileError(Diagnostic("TIR0401", message, span=span, help=help))


class Scope:
    """The slots of names, and which names are visible at this point of the function.

    ``trackers`` lists the running parallel loops if memory is watched for races and uninitialised
    reads, else it is None. With ``flat``, a declared buffer with one axis extends over its whole
    memory, in both directions. With ``exact``, int64 arithmetic does not wrap: a result that does
    not fit raises ``InexactResult``. ``numbers`` is the arithmetic of floats.
    """

    def __init__(
        self,
        trackers: list[Tracker] | None = None,
        flat: bool = False,
        exact: bool = False,
        numbers: Numbers = ROUNDED,
    ) -> None:
        self.trackers = trackers
        self.flat = flat
        self.exact = exact
        self.numbers = numbers
        self.size = FIRST_SLOT
        self._slots: dict[int, int] = {}
        self._visible: set[int] = set()
        self._kept: list[Node] = []
        self._buffers: dict[int, list[Buffer]] = {}

    def fresh(self) -> int:
        """Return a slot without a name."""
        self.size += 1
        return self.size - 1

    def bind(self, name: Node) -> int:
        """Make a variable or buffer visible, and return its slot."""
        key = id(name)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self.fresh()
            self._kept.append(name)
        self._visible.add(key)
        if isinstance(name, Buffer):
            self._buffers.setdefault(id(name.data), []).append(name)
        return slot

    def unbind(self, name: Node) -> None:
        """End the scope of a name."""
        self._visible.discard(id(name))
        if isinstance(name, Buffer):
            self._buffers[id(name.data)].remove(name)

    def knows(self, name: Node) -> bool:
        """Tell whether a name is visible."""
        return id(name) in self._visible

    def slot(self, name: Var, span: Span | None = None) -> int:
        """Return the slot of a visible variable."""
        if id(name) not in self._visible:
            refuse(
                f"variable {name.name_hint!r} is used where nothing binds it",
                "bind it around this place, or use another variable",
                span or name.span,
            )
        return self._slots[id(name)]

    def buffer_slot(self, buffer: Buffer) -> int | None:
        """Return the slot of a buffer, or None if only its data variable is visible."""
        return self._slots[id(buffer)] if id(buffer) in self._visible else None

    def buffer_of(self, data: Var) -> Buffer | None:
        """Return the first declared buffer with this data variable."""
        found = self._buffers.get(id(data))
        return found[0] if found else None
