"""Output of commands: text for people, one JSON object for machines."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from loomir.support.diagnostics import (
    CompileError,
    Diagnostic,
    InternalError,
    LoomirError,
    RunError,
)
from loomir.support.fork_safe import import_module, lazy_property

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Report", "fail", "guard_output", "showable"]


_ASCII: Final = str.maketrans(
    {
        **dict.fromkeys("─━═╌┄", "-"),
        **dict.fromkeys("│┃║", "|"),
        **dict.fromkeys("┌┐└┘┏┓┗┛├┤┬┴┼┡┩┢┪┳┻╇╈╋┠┨", "+"),
        **dict.fromkeys("█▉▊▋▌▍▎▏", "#"),
        "…": "...",
        "×": "x",
        "µ": "u",
        "–": "-",
    }
)


class Report:
    """Prints facts at once for people, or collects them and prints JSON at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.facts: dict[str, Any] = {}
        self.before_line: Callable[[], None] | None = None
        """A callback before each printed line."""

    @lazy_property
    def _console(self) -> Console:
        """The console, which is loaded with the first line."""
        return _make_console(stderr=False)

    def line(self, text: str, style: str = "") -> None:
        """Print a line for people."""
        if not self.as_json:
            if self.before_line is not None:
                self.before_line()
            with guard_output():
                self._console.print(_make_text(showable(text, self._console.encoding), style))

    def fact(self, key: str, value: Any) -> None:
        """Record a fact for JSON."""
        self.facts[key] = value

    def finish(self) -> None:
        """Print the JSON object if one was requested."""
        with guard_output():
            if self.as_json:
                sys.stdout.write(json.dumps(self.facts, indent=2) + "\n")
            sys.stdout.flush()


def _make_console(*, stderr: bool) -> Console:
    """Make a console, whose package takes half of the time of ``--help``, which needs none."""
    made: type[Console] = import_module("rich.console").Console
    return made(stderr=stderr, highlight=False, soft_wrap=True)


def _make_text(text: str = "", style: str = "") -> Text:
    made: type[Text] = import_module("rich.text").Text
    return made(text, style=style)


def showable(text: str, encoding: str) -> str:
    """Replace characters that an encoding lacks: lines of tables by ASCII ones."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text


@contextmanager
def guard_output() -> Generator[None]:
    """Report an output that cannot be written; a closed pipe needs no message."""
    try:
        if sys.stdout is None:  # it was closed
            raise OSError(errno.EBADF, "it is closed")
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        why = f"cannot write what is to be printed: {error.strerror}"
        fail(CompileError(Diagnostic("CLI0009", why, help="send the output elsewhere")), False)


def fail(error: LoomirError, as_json: bool, summary: str = "") -> NoReturn:
    """Print mistakes and exit with status 1 (2 for a bug of Loomir); ``summary`` counts them."""
    diagnostics: tuple[Diagnostic, ...] = ()
    if isinstance(error, (CompileError, RunError)):
        diagnostics = error.diagnostics
    if as_json:
        listed = [d.as_dict() for d in diagnostics] or [{"message": str(error)}]
        with guard_output():
            sys.stdout.write(json.dumps({"ok": False, "diagnostics": listed}, indent=2) + "\n")
            sys.stdout.flush()
    else:
        console = _make_console(stderr=True)
        for index, diagnostic in enumerate(diagnostics):
            console.print(_colour(showable(str(diagnostic), console.encoding)))
            if index + 1 < len(diagnostics):
                console.print()
        if not diagnostics:
            console.print(_make_text(showable(str(error), console.encoding)))
        elif summary or len(diagnostics) > 1:
            text = summary or f"{len(diagnostics)} mistakes"
            console.print(_make_text(f"\n{showable(text, console.encoding)}", "bold"))
    raise typer.Exit(2 if isinstance(error, InternalError) else 1)


def _colour(text: str) -> Text:
    """Colour a rendered diagnostic: its message, carets and remedy."""
    out = _make_text()
    for number, line in enumerate(text.splitlines()):
        style = ""
        if number == 0:
            style = "bold red"
        elif "= help:" in line:
            style = "green"
        elif line.lstrip().startswith("| ") and "^" in line:
            style = "red"
        out.append(line, style).append("\n")
    out.rstrip()
    return out
