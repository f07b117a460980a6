"""Raise errors for invalid arguments of builder functions."""

from __future__ import annotations

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span

__all__ = ["ArgumentError", "mistake", "with_span", "wrong_argument"]


class ArgumentError(CompileError):
    """A refused argument; ``culprit`` is its value, by which the parser finds its place.

    Where that is a region of a buffer, ``axis`` may say which of its indices is meant.
    """

    culprit: object = None
    axis: int | None = None


def mistake(
    code: str,
    message: str,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    help: str,  # named after the diagnostic's field
    span: Span | None = None,
) -> CompileError:
    """Make the error of one mistake; the parser adds the place where there is none."""
    return CompileError(Diagnostic(code, message, span, label, (), notes, help))


def wrong_argument(
    culprit: object, message: str, *, help: str, code: str = "SCR0005", label: str = ""
) -> ArgumentError:
    """Make the error of a refused argument."""
    error = ArgumentError(Diagnostic(code, message, None, label, (), (), help))
    error.culprit = culprit
    return error


def with_span(error: CompileError, span: Span | None) -> CompileError:
    """Return the same error with a place for each mistake that has none."""
    if span is None or all(d.span is not None for d in error.diagnostics):
        return error
    return CompileError(*(d.at(span) for d in error.diagnostics))
