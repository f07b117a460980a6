"""Readable names that are unique while they are in scope."""

from __future__ import annotations

import keyword
import re
import unicodedata
from functools import lru_cache

__all__ = ["RESERVED", "Names", "identifier"]

RESERVED = frozenset({"T", "I", "R", "cls", "range", "float"})
"""Names that printed programs use themselves."""


@lru_cache(maxsize=1024)
def identifier(hint: str) -> str:
    """Turn a name hint into a Python identifier that reads like it."""
    # Python reads identifiers in this normal form, so names must differ in it.
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", hint)) or "v"
    if name == "_":
        return "v"  # the parser takes a lone underscore for what is not used
    if not name.isidentifier():
        name = f"v{name}" if name[0] == "_" or f"v{name}".isidentifier() else "v"
    return f"{name}_" if keyword.iskeyword(name) else name


class Names:
    """The names alive at a point of a program, and all that were ever given."""

    def __init__(self) -> None:
        self._live: set[str] = set(RESERVED)
        self._ever: set[str] = set(RESERVED)
        # Where to look for the next free number of a name.
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Keep a name from being given."""
        self._live.add(name)
        self._ever.add(name)

    def take(self, hint: str, *, fresh: bool = False) -> str:
        """Return a name like ``hint`` that is not alive; ``fresh`` asks for one never given."""
        base = identifier(hint)
        taken = self._ever if fresh else self._live
        name = base
        if name in taken:
            number = self._next.get(base, 1)
            while (name := f"{base}_{number}") in taken:
                number += 1
            self._next[base] = number
        self.reserve(name)
        return name

    def release(self, name: str) -> None:
        """End the life of a name."""
        self._live.discard(name)
        if not self._next:
            return
        base, _, number = name.rpartition("_")
        if base in self._next and number.isdecimal():
            self._next[base] = min(self._next[base], int(number))
