"""Report an exception of a user's file as a mistake at the line that raised it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from loomir.script.parser.convert import parse_text
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.support.span import Source, Span

__all__ = ["ask", "explain_failures"]

_SHOWN = 500
"""The most characters of a message that are shown."""


@contextmanager
def explain_failures(path: Path | str | None, way: str = "") -> Generator[None]:
    """Run code of a file. Errors: SCR0001 if it is not Python, CLI0011 for exceptions.

    Errors of programs, which have a location already, pass unchanged. ``way`` says how to see the
    exception in Python, by default by running the file.
    """
    try:
        yield
    except LoomirError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, which must not end the command
        file = str(path or "the file")
        if isinstance(error, SyntaxError) and error.filename == file:
            parse_text(Source(file, _text(file)))  # raises with the location and a remedy
        raise _explain(error, file, way or f"run `python {file}`") from error


def ask(file: ModuleType | None, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function that a file defines. Errors: CLI0011."""
    way = f"call {getattr(function, '__name__', 'it')} in Python"
    with explain_failures(getattr(file, "__file__", None), way):
        return function(*args, **named)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _explain(error: BaseException, file: str, way: str) -> CompileError:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    what = "".join(traceback.format_exception_only(error)).strip()
    what = what if len(what) <= _SHOWN else f"{what[:_SHOWN]}…"
    span, notes = None, ()
    if own:
        span = _line(own[-1], file)
        if frames[-1] is not own[-1]:
            notes = (f"raised in {frames[-1].filename}:{frames[-1].lineno}, which this line calls",)
    return CompileError(
        Diagnostic(
            "CLI0011",
            f"{Path(file).name} raises {what}",
            span,
            "here" if own else "",
            notes=notes,
            help=f"fix it; {way}, which shows the whole traceback",
        )
    )


def _line(frame: traceback.FrameSummary, file: str) -> Span | None:
    source = Source(file, _text(file))
    number = frame.lineno or 0
    line = source.line(number)
    if line is None or not line.strip():
        return None
    start = len(line) - len(line.lstrip()) + 1
    return Span(source, number, start, number, len(line.rstrip()) + 1)
