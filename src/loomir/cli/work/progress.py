"""Show the current activity of a slow command on a terminal."""

from __future__ import annotations

from contextlib import ExitStack

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from typing_extensions import Self

from loomir.cli.report import Report
from loomir.support.announcing import listen

__all__ = ["Progress"]


class Progress:
    """A line on the terminal that shows the current work; nothing if there is no terminal.

    Use it in a ``with`` statement: at its end, the line disappears. It is written to standard
    error, is hidden while the report prints, and shows the stages of compiling by itself.
    """

    def __init__(self, report: Report) -> None:
        console = Console(stderr=True, highlight=False)
        self._report = report
        self._status: Status | None = None
        if console.is_terminal and not report.as_json:
            spinner = "dots" if console.encoding.startswith("utf") else "line"
            self._status = Status("", console=console, spinner=spinner)
        self._is_shown = False
        self._what = ""
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        if self._status is not None:
            self._report.before_line = self._hide
            self._exits.enter_context(listen(self._tell))
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()
        self._report.before_line = None
        self._hide()

    def step(self, what: str) -> None:
        """Show the next step."""
        self._what = what
        self._show(what)

    def _tell(self, stage: str) -> None:
        self._show(f"{self._what}: {stage}" if self._what else stage)

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))
            if not self._is_shown:
                self._is_shown = True
                self._status.start()

    def _hide(self) -> None:
        if self._status is not None and self._is_shown:
            self._is_shown = False
            self._status.stop()
