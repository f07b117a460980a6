"""The text of an uncaught Loomir error: the diagnostic, without Loomir's frames.

If the error has no position, or happened in a call, the position is that of the user's code that
led to it. ``LOOMIR_TRACEBACK=full`` in the environment shows Python's own traceback.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any, Final

from loomir.support.caller_span import span_of
from loomir.support.diagnostics import (
    CompileError,
    Diagnostic,
    InternalError,
    LoomirError,
    RunError,
    render,
)
from loomir.support.span import Source, Span
from loomir.support.uncaught.frames import explain_bug

__all__ = ["explain_uncaught", "lines_for_notebook", "wants_frames"]

_OURS: Final = __name__.partition(".")[0]
# Modules that run the user's code, and are not part of it.
_RUNNERS: Final = frozenset(
    {
        "IPython",
        "asyncio",
        "concurrent",
        "contextlib",
        "functools",
        "importlib",
        "ipykernel",
        "runpy",
        "threading",
        _OURS,
    }
)
_CALLS_SHOWN: Final = 8
_RED, _GREEN, _PLAIN = "\x1b[1;31m", "\x1b[32m", "\x1b[0m"


def wants_frames() -> bool:
    """Tell whether the user wants Python's own traceback."""
    return os.environ.get("LOOMIR_TRACEBACK") == "full"


def explain_uncaught(error: CompileError | RunError) -> str:
    """Format an error for the user who wrote the code around the call."""
    found = list(error.diagnostics)
    calls = list(_user_calls(error.__traceback__))
    if calls and found:
        _, place, _ = calls[-1]
        if found[0].span is None:
            found[0] = found[0].at(place)
        elif isinstance(error, RunError) and not _is_on(found[0].span, place):
            found[0] = replace(found[0], secondary=(*found[0].secondary, (place, "in this call")))
    text = "\n\n".join(render(_rename_cells(d)) for d in found)
    outer = calls[:-1]
    if outer and found:
        listed = [f"  {_name_of(s.source.name)}:{s.line}, in {name}" for name, s, _ in outer]
        skipped = len(listed) - _CALLS_SHOWN
        if skipped > 0:
            half = _CALLS_SHOWN // 2
            listed[half:-half] = [f"  … {skipped} more calls"]
        text += "\ncalled from:\n" + "\n".join(listed)
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    return _cause_of(error) + "\n".join([text, *notes])


def _is_on(span: Span, place: Span) -> bool:
    return span.source.name == place.source.name and span.line == place.line


def _user_calls(at: TracebackType | None) -> Iterator[tuple[str, Span, FrameType]]:
    """List the calls in the user's code, outermost first."""
    while at is not None:
        frame = at.tb_frame
        home = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if home not in _RUNNERS and not frame.f_code.co_filename.startswith("<frozen"):
            name = frame.f_code.co_name
            yield name.strip("<>"), span_of(frame.f_code, at.tb_lineno, at.tb_lasti), frame
        at = at.tb_next


# -- causes ----------------------------------------------------------------------------------------
def _cause_of(error: BaseException) -> str:
    """Format the exception of the user's own code that caused the error, if there is one.

    Exceptions inside Loomir or a library are omitted, since the diagnostic covers them.
    """
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is None or isinstance(cause, LoomirError) or not _is_raised_by_user(cause):
        return ""
    frames = traceback.extract_tb(cause.__traceback__)
    own = [f for f in frames if not _is_library(f.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
    return "".join([*lines, *traceback.format_exception_only(cause)]) + "\nwhich led to:\n\n"


def _is_raised_by_user(error: BaseException) -> bool:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and not _is_library(at.tb_frame.f_code.co_filename)


def _is_library(file: str) -> bool:
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [ours, sysconfig.get_path("stdlib"), *site.getsitepackages()]
    is_compiled = file.endswith((".pxi", ".pyx"))  # extensions name the files they are made of
    return (
        is_compiled
        or file.startswith("<frozen")
        or any(file.startswith(f + os.sep) for f in folders)
    )


# -- notebooks -------------------------------------------------------------------------------------
def lines_for_notebook(error: CompileError | RunError | InternalError) -> list[str]:
    """Format an error as the lines of the traceback that IPython shows."""
    if wants_frames():
        return traceback.format_exception(error)
    if isinstance(error, InternalError):
        return explain_bug(error).splitlines()
    lines = explain_uncaught(error).splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("error[", "warning[")):
            lines[number] = f"{_RED}{line}{_PLAIN}"
        elif "= help:" in line:
            lines[number] = f"{_GREEN}{line}{_PLAIN}"
        elif line.lstrip().startswith("| ") and "^" in line:
            lines[number] = f"{_RED}{line}{_PLAIN}"
    return lines


def _rename_cells(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic in which notebook cells have the names that users see."""
    return replace(
        diagnostic,
        span=None if diagnostic.span is None else _span_in_cell(diagnostic.span),
        secondary=tuple((_span_in_cell(span), label) for span, label in diagnostic.secondary),
    )


def _span_in_cell(span: Span) -> Span:
    name = _name_of(span.source.name)
    if name == span.source.name:
        return span
    source = Source(name, span.source.text, span.source.first_line)
    return replace(span, source=source)


def _name_of(file: str) -> str:
    """Return the name of a notebook cell, such as ``Cell In[3]``; other file names unchanged."""
    shell_of: Callable[[], Any] | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if shell_of is None else shell_of()
    known = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = None if known is None else known(file)
    return file if named is None else " ".join(named)
