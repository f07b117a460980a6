"""Collect the mistakes of a text, to report all of them at once."""

from __future__ import annotations

from collections.abc import Iterable

from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.span import Span

__all__ = ["Mistakes", "guess"]


class Mistakes:
    """The mistakes and warnings found so far."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def add(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        *,
        secondary: tuple[tuple[Span, str], ...] = (),
        notes: tuple[str, ...] = (),
        help: str,  # named after the diagnostic's field
    ) -> None:
        """Note a mistake."""
        self.found.append(Diagnostic(code, message, span, label, secondary, notes, help))

    def warn(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        *,
        notes: tuple[str, ...] = (),
        help: str,  # named after the diagnostic's field
    ) -> None:
        """Note something that is legal and may surprise."""
        self.warnings.append(
            Diagnostic(code, message, span, label, (), notes, help, severity="warning")
        )

    def settle(self) -> None:
        """Raise the mistakes, if there are any, in the order of the text."""
        if self.found:
            raise CompileError.of(sorted(self.found, key=_place))


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    span = diagnostic.span
    return (0, 0) if span is None else (span.line, span.column)


def guess(name: str, known: Iterable[str], otherwise: str) -> str:
    """Ask whether a name near the one written was meant, or else say ``otherwise``."""
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else otherwise
