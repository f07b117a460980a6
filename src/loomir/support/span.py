"""Positions in a source text."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["Source", "Span"]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A text and the name that errors give it (a path, or ``<string>``).

    ``first_line`` is the number of the text's first line in the named file; ``told`` has the
    warnings issued so far: code, message and line.
    """

    name: str
    text: str
    first_line: int = 1
    told: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]], repr=False)

    def line(self, number: int) -> str | None:
        """Return the line of that number in the file, or None outside of the text."""
        lines = _lines_of(self.text)
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else None


@lru_cache(maxsize=8)
def _lines_of(text: str) -> list[str]:
    """Return the lines of a text; cached, since many lines of one text are needed."""
    return text.splitlines()


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text: lines and columns from 1, the end exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
