"""What a search found: a line for each task, and the gain of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loomir.autoschedule.ir.decision import Choice
from loomir.tuning.database import Database

__all__ = ["TaskResult", "Trial", "TuningResult"]


class TaskResult(NamedTuple):
    """The best schedule of a kernel; ``choices`` are empty if that is the default one.

    Times are seconds of a call, None if the kernel could not be measured (``why``).
    """

    name: str
    program: str
    calls: int
    trials: int
    failed: int
    wrong: int
    default_seconds: float | None
    seconds: float | None
    choices: Mapping[str, Choice]
    why: str = ""

    @property
    def speedup(self) -> float:
        """Return the speed-up of the best schedule over the default one."""
        if not self.seconds or not self.default_seconds:
            return 1.0
        return self.default_seconds / self.seconds


class Trial(NamedTuple):
    """One measurement, for showing progress; ``best`` is the best speed-up so far."""

    task: str
    number: int
    status: str
    speedup: float
    best: float


class TuningResult(NamedTuple):
    """The results of all kernels of a program, and where their records are."""

    tasks: tuple[TaskResult, ...]
    database: Database
    seconds: float

    @property
    def speedup(self) -> float:
        """Return the speed-up of all kernels together, by the times of one call of each."""
        measured = [t for t in self.tasks if t.seconds and t.default_seconds]
        before = sum(t.calls * (t.default_seconds or 0.0) for t in measured)
        after = sum(t.calls * (t.seconds or 0.0) for t in measured)
        return before / after if after else 1.0

    def __str__(self) -> str:
        lines: list[str] = []
        for task in self.tasks:
            times = f" x {task.calls}" if task.calls > 1 else ""
            head = f"{task.name}{times}: {task.trials} trials"
            bad = [
                f"{count} {what}"
                for count, what in ((task.failed, "failed"), (task.wrong, "wrong"))
                if count
            ]
            head += f" ({', '.join(bad)})" if bad else ""
            if task.seconds is None or task.default_seconds is None:
                lines.append(f"{head}; not measured: {task.why}")
                continue
            was, now = _show(task.default_seconds), _show(task.seconds)
            if not task.choices:
                lines.append(f"{head}; the default schedule is best: {was}")
                continue
            choices = ", ".join(f"{key} = {value}" for key, value in task.choices.items())
            lines.append(f"{head}; {was} -> {now}, {task.speedup:.2f} times as fast: {choices}")
        lines.append(f"all: {self.speedup:.2f} times as fast, found in {self.seconds:.1f} s")
        return "\n".join(lines)


def _show(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"
