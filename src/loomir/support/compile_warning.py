"""Warn about what the user probably did not intend, although the program runs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from loomir.support.diagnostics import Diagnostic, render

__all__ = ["CompileWarning", "caution", "users_depth"]


class CompileWarning(UserWarning):
    """The program is valid, but probably not what its author meant; the text is a diagnostic."""


def caution(diagnostics: Iterable[Diagnostic]) -> None:
    """Issue warnings to the caller of Loomir; a warning about a source text only once."""
    for found in diagnostics:
        if found.span is not None:
            known = (found.code, found.message, found.span.line)
            told = found.span.source.told
            if known in told:
                continue
            told.add(known)
        warnings.warn(render(found), CompileWarning, stacklevel=users_depth())


def users_depth() -> int:
    """Count the frames of Loomir above the user's: the ``stacklevel`` of warnings."""
    depth = 1
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("loomir."):
        frame = frame.f_back
        depth += 1
    return depth
