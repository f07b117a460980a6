"""Convert positions: lines and columns from 1 in characters, and UTF-16 units of editors."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.support.span import Span

__all__ = ["Place", "from_units", "lines_of", "place_of", "to_units", "word_at"]

_END: Final = re.compile("\r\n|\r|\n")


class Place(NamedTuple):
    """A range of a text: the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def move(self, lines: int) -> Place:
        """Return the range moved down by some lines."""
        return self._replace(line=self.line + lines, end_line=self.end_line + lines)

    def holds(self, line: int, column: int) -> bool:
        """Tell whether a position is in the range."""
        return (self.line, self.column) <= (line, column) <= (self.end_line, self.end_column)

    @classmethod
    def of_node(cls, node: ast.stmt) -> Place:
        """Return the place of a statement, with its decorators."""
        decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(d.lineno for d in decorators)])
        return cls(first, 1, node.end_lineno or first, (node.end_col_offset or 0) + 1)

    @classmethod
    def of_offsets(cls, text: str, start: int, end: int) -> Place:
        """Return the place of a word by its offsets in the text."""
        line = text.count("\n", 0, start) + 1
        first = text.rfind("\n", 0, start) + 1
        return cls(line, start - first + 1, line, end - first + 1)


def lines_of(text: str) -> list[str]:
    """Split a text into lines like editors and Python."""
    return _END.split(text)


def place_of(span: Span) -> Place:
    """Return the place of a span."""
    return Place(span.line, span.column, span.end_line, span.end_column)


def to_units(line: str, column: int) -> int:
    """Return the number of UTF-16 units before a column."""
    return len(line[: column - 1].encode("utf-16-le", "surrogatepass")) // 2


def from_units(line: str, units: int) -> int:
    """Return the column after so many UTF-16 units."""
    raw = line.encode("utf-16-le", "surrogatepass")[: 2 * units]
    return len(raw.decode("utf-16-le", "ignore")) + 1


def word_at(line: str, column: int) -> tuple[str, int, int]:
    """Return the dotted name up to the word at a column, and the range of that word."""
    start = end = column - 1
    while start > 0 and (line[start - 1].isalnum() or line[start - 1] == "_"):
        start -= 1
    while end < len(line) and (line[end].isalnum() or line[end] == "_"):
        end += 1
    first = start
    while first > 0 and (line[first - 1].isalnum() or line[first - 1] in "._"):
        first -= 1
    return line[first:end], start + 1, end + 1
