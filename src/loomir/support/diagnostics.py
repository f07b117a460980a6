"""Diagnostics: mistakes with position, reason and remedy, as text and as exceptions.

A ``CompileError`` is a mistake in the user's program, a ``RunError`` one in a call of it, and an
``InternalError`` a bug in Loomir, as its text says.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from loomir.support.fork_safe import import_module
from loomir.support.span import Span

__all__ = [
    "CompileError",
    "Diagnostic",
    "InternalError",
    "LoomirError",
    "RunError",
    "ScheduleError",
    "nearest",
    "render",
    "with_article",
    "with_count",
]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake: what is wrong, where, why, further notes, and one remedy."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    secondary: tuple[tuple[Span, str], ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""
    severity: str = field(default="error")

    def at(self, span: Span | None) -> Diagnostic:
        """Return the diagnostic with a location, unless it has one already."""
        return self if self.span is not None or span is None else replace(self, span=span)

    def as_dict(self) -> dict[str, object]:
        """Return plain data for ``--json``."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            **({} if self.span is None else _place(self.span)),
            "label": self.label,
            "secondary": [{**_place(span), "label": label} for span, label in self.secondary],
            "notes": list(self.notes),
            "help": self.help,
        }

    def __str__(self) -> str:
        return render(self)


def _place(span: Span) -> dict[str, object]:
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def render(diagnostic: Diagnostic) -> str:
    """Format a diagnostic as text: message, source line with carets, notes, help."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    width = _gutter(diagnostic)
    if diagnostic.span is not None:
        lines += _snippet(diagnostic.span, diagnostic.label, "^", width)
    elif diagnostic.label:
        lines.append(f"{' ' * width} = {diagnostic.label}")
    for span, label in diagnostic.secondary:
        lines += _snippet(span, label, "-", width)
    lines += [f"{' ' * width} = note: {note}" for note in diagnostic.notes]
    if diagnostic.help:
        lines.append(f"{' ' * width} = help: {diagnostic.help}")
    return "\n".join(lines)


def _gutter(diagnostic: Diagnostic) -> int:
    spans = [s for s, _ in diagnostic.secondary]
    if diagnostic.span is not None:
        spans.append(diagnostic.span)
    return max((len(str(s.line)) for s in spans), default=1)


def _snippet(span: Span, label: str, mark: str, width: int) -> list[str]:
    pad = " " * width
    lines = [f"{pad}--> {span}"]
    text = span.source.line(span.line)
    if text is None:
        return [*lines, f"{pad} = {label}"] if label else lines
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(text.rstrip())
    if len(text) > _LONG_LINE:
        text, start, end = _shorten_around(text, start, end)
    # Tabs are kept in the line below, so that carets align with the source.
    lead = "".join(c if c == "\t" else " " for c in text[:start])
    carets = mark * max(1, end - start)
    tail = f" {label}" if label else ""
    lines += [
        f"{pad} |",
        f"{span.line:>{width}} | {text.rstrip()}",
        f"{pad} | {lead}{carets}{tail}",
    ]
    return lines


_LONG_LINE: Final = 500
_BEFORE: Final = 100
"""How many characters of a long line are shown before the marked part."""


def _shorten_around(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Shorten a very long line to the surroundings of the marked part, and adjust its columns."""
    first = max(0, start - _BEFORE)
    last = first + _LONG_LINE
    head = "…" if first else ""
    tail = "…" if last < len(text) else ""
    move = len(head) - first
    return f"{head}{text[first:last]}{tail}", start + move, min(end, last) + move


_GUESSED: Final = 3


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt one, or None if none is close.

    Names of one or two letters only match if they differ in case.
    """
    if not isinstance(name, str):
        return None
    if len(name) < _GUESSED:
        return next((k for k in known if k != name and k.lower() == name.lower()), None)
    hits = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return hits[0] if hits else None


def with_count(number: int, one: str, many: str = "") -> str:
    """Format a number of things: ``1 axis``, ``2 axes``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def with_article(word: object) -> str:
    """Prefix a word with ``a`` or ``an``: ``an int8``, ``a uint8``, ``an ndarray``."""
    text = str(word)
    sounds_vowel = text[:1] in "aeioAEIO" or text.startswith("nd")
    return f"{'an' if sounds_vowel else 'a'} {text}"


class LoomirError(Exception):
    """The base class of all errors that Loomir raises."""


class _DiagnosedError(LoomirError):
    """An error that carries diagnostics; ``diagnostic`` is the first."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self._diagnostics = diagnostics

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All mistakes, in order."""
        return self._diagnostics

    @property
    def diagnostic(self) -> Diagnostic:
        """The first mistake."""
        return self.diagnostics[0]

    def __str__(self) -> str:
        return "\n\n".join(render(d) for d in self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows."""
        return import_module("loomir.support.uncaught.text").lines_for_notebook(self)


class CompileError(_DiagnosedError):
    """The program breaks a rule of the language."""

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic]) -> CompileError:
        """Create one error with all mistakes, in the given order."""
        return cls(*diagnostics)


class ScheduleError(CompileError):
    """A schedule primitive was refused."""

    _make: Callable[[], Diagnostic] | None = None

    @classmethod
    def defer(cls, make: Callable[[], Diagnostic]) -> ScheduleError:
        """Create an error whose text is built on demand, since a search reads few of them."""
        error = cls()
        error._make = make
        return error

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was refused and why."""
        if self._make is not None:
            self._diagnostics = (self._make(),)
            self._make = None
        return self._diagnostics


class RunError(_DiagnosedError):
    """A call was invalid, or the program failed at run time."""


class InternalError(LoomirError):
    """A bug in Loomir, never a mistake of the user."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThis is a bug in Loomir, not in your program: please report it."
        )

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows."""
        return import_module("loomir.support.uncaught.text").lines_for_notebook(self)
