"""What a command is doing, on a terminal, while it takes its time."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.status import Status
from typing_extensions import Self

from loomir.cli.report import Report

__all__ = ["Progress"]


class Progress:
    """A line on the terminal that says what is being done; nothing where there is no terminal.

    Use it in a ``with`` statement: at its end, the line disappears. It stands on the standard
    error, and steps aside while the report prints.
    """

    def __init__(self, report: Report) -> None:
        console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        if console.is_terminal and not report.as_json:
            self._status = Status("", console=console, spinner=_spinner(console))
            report.before_line = self._clear
        self._report = report
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
        self._report.before_line = None

    def step(self, what: str) -> None:
        """Say what comes now."""
        if self._status is not None:
            self._status.update(what.replace("[", "\\["))
            if not self._shown:
                self._shown = True
                self._status.start()

    def stage(self, name: str, *_: Any) -> None:
        """Say which stage of compiling is done: for ``on_stage`` of a pipeline."""
        self.step(name)

    def _clear(self) -> None:
        if self._status is not None and self._shown:
            self._shown = False
            self._status.stop()


def _spinner(console: Console) -> str:
    """Return a picture that the terminal can show."""
    return "dots" if console.encoding.startswith("utf") else "line"
