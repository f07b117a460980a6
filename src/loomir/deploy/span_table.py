"""Source positions as plain data, each with the lines of text that errors show, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.support.span import Source, Span

__all__ = ["SpanTable", "read_spans"]


class SpanTable:
    """Numbers spans, and stores the source lines that errors show."""

    def __init__(self) -> None:
        self._numbers: dict[Span, int] = {}
        self._sources: dict[int, int] = {}
        self._listed: list[Source] = []
        self._lines: list[dict[int, str]] = []
        self._texts: list[list[str]] = []

    def number(self, span: Span) -> int:
        """Return the number of a span."""
        found = self._numbers.get(span)
        if found is None:
            found = self._numbers[span] = len(self._numbers)
            source = self._sources.get(id(span.source))
            if source is None:
                source = self._sources[id(span.source)] = len(self._listed)
                self._listed.append(span.source)
                self._lines.append({})
                self._texts.append(span.source.text.splitlines())
            index = span.line - span.source.first_line
            if 0 <= index < len(self._texts[source]):
                self._lines[source][span.line] = self._texts[source][index]
        return found

    def optional(self, span: Span | None) -> int | None:
        """Return the number of a span, None for None."""
        return None if span is None else self.number(span)

    def data(self) -> dict[str, object]:
        """Return all spans as plain data."""
        return {
            "sources": [
                [source.name, sorted(lines.items())]
                for source, lines in zip(self._listed, self._lines, strict=True)
            ],
            "spans": [
                [self._sources[id(s.source)], s.line, s.column, s.end_line, s.end_column]
                for s in self._numbers
            ],
        }


def read_spans(data: Mapping[str, Any]) -> list[Span]:
    """Return the spans of ``SpanTable.data``, by number."""
    sources = [_source(name, lines) for name, lines in data["sources"]]
    rows: list[list[int]] = data["spans"]
    return [Span(sources[row[0]], *row[1:5]) for row in rows]


def _source(name: str, lines: Sequence[tuple[int, str]]) -> Source:
    if not lines:
        return Source(name, "")
    known = dict(lines)
    first, last = min(known), max(known)
    # Lines in which no span begins are never shown.
    return Source(name, "\n".join(known.get(n, "") for n in range(first, last + 1)), first)
