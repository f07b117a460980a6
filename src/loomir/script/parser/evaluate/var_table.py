"""The parser's symbol table: a stack of scopes, and for each name a stack of its meanings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from loomir.support.span import Span
from loomir.tir.buffer import Buffer

__all__ = ["POISON", "Entry", "MutableLocal", "Poison", "VarTable", "VarTableFrame"]


class Poison:
    """What a name means whose definition was refused: using it is not reported again."""

    def __repr__(self) -> str:
        return "POISON"


POISON: Final = Poison()


class MutableLocal(NamedTuple):
    """A name that is assigned more than once: the one element of a buffer (S11)."""

    buffer: Buffer


class Entry(NamedTuple):
    """What a name means; ``kind`` says what made it, such as ``loop variable``."""

    value: object
    kind: str
    span: Span | None = None


@dataclass
class VarTableFrame:
    """A scope: the names that it binds."""

    names: list[str] = field(default_factory=list[str])


class VarTable:
    """Names and their meanings; the latest binding wins, and ends with its scope."""

    def __init__(self) -> None:
        self.frames: list[VarTableFrame] = []
        self.name2value: dict[str, list[Entry]] = {}
        self.ended: dict[str, Entry] = {}
        self.watch: Callable[[str, Entry], None] | None = None
        """Called with each name that is bound."""

    @contextmanager
    def frame(self) -> Generator[VarTableFrame, None, None]:
        """Open a scope for the body of ``with``."""
        made = VarTableFrame()
        self.frames.append(made)
        try:
            yield made
        finally:
            self.frames.pop()
            for name in made.names:
                self.ended[name] = self.name2value[name].pop()

    def add(self, name: str, entry: Entry) -> None:
        """Bind a name in the innermost scope."""
        self.add_to(self.frames[-1], name, entry)

    def add_to(self, frame: VarTableFrame, name: str, entry: Entry) -> None:
        """Bind a name in a scope."""
        frame.names.append(name)
        self.name2value.setdefault(name, []).append(entry)
        if self.watch is not None:
            self.watch(name, entry)

    def get(self, name: str) -> Entry | None:
        """Find what a name means, or None."""
        found = self.name2value.get(name)
        return found[-1] if found else None

    def names(self) -> Iterator[str]:
        """List the names in scope."""
        return (name for name, stack in self.name2value.items() if stack)

    def copy_below(self, depth: int) -> VarTable:
        """Copy the names of the outermost ``depth`` scopes, as they are now."""
        made = VarTable()
        made.name2value = {name: list(stack) for name, stack in self.name2value.items() if stack}
        for frame in reversed(self.frames[depth:]):
            for name in reversed(frame.names):
                made.name2value[name].pop()
        made.frames = [VarTableFrame(list(frame.names)) for frame in self.frames[:depth]]
        return made

    def was_defined(self, name: str) -> Entry | None:
        """Find what a name meant in a scope that has ended, or None."""
        return self.ended.get(name)
