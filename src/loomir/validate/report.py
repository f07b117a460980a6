"""The report of a comparison of schedules with their programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span

__all__ = ["FunctionReport", "ScheduleDifference", "ScheduleReport"]


@dataclass(frozen=True, slots=True)
class ScheduleDifference:
    """The first difference of a schedule from its program, and the step that caused it.

    ``argument`` is the name of an array, or ``the result``; ``index`` the first element that
    differs, None for a scalar or an error. ``written`` and ``scheduled`` are the values of the
    program as written and of its schedule: integers, fractions, infinities, NaN, or the text of an
    error.
    """

    step: str
    argument: str
    index: tuple[int, ...] | None
    written: Any
    scheduled: Any
    sizes: Mapping[str, int]
    seed: int

    def __str__(self) -> str:
        place = "" if self.index is None else f"[{', '.join(map(str, self.index))}]"
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        where = f" (with {sizes}; seed {self.seed})" if sizes else f" (seed {self.seed})"
        return (
            f"{self.argument}{place} is {_show(self.scheduled)} instead of "
            f"{_show(self.written)} after {self.step}{where}"
        )


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"about {float(value):.17g}" if _is_number(value) else text


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """The result of comparing the schedule of a function.

    ``calls`` is the number of compared calls, ``elements`` that of all compared elements.
    ``not_compared`` says what was not compared and why; ``smaller`` are sizes of the program that
    were replaced by smaller ones. ``not_scheduled``: the function has no schedule.
    """

    name: str
    calls: int = 0
    elements: int = 0
    difference: ScheduleDifference | None = None
    not_compared: tuple[str, ...] = ()
    smaller: tuple[tuple[int, int], ...] = ()
    not_scheduled: bool = False
    span: Span | None = None

    @property
    def status(self) -> str:
        """Return ``right``, ``wrong``, ``not compared``, or ``not scheduled``."""
        if self.difference is not None:
            return "wrong"
        if self.not_scheduled:
            return "not scheduled"
        return "right" if self.calls else "not compared"

    def __str__(self) -> str:
        said = self.status
        if self.difference is not None:
            said = f"wrong: {self.difference}"
        elif self.not_scheduled:
            said = "not scheduled: it runs as it is written"
        elif self.calls:
            times = "call" if self.calls == 1 else "calls"
            values = "value" if self.elements == 1 else "values"
            said = f"right: {self.elements} {values} of {self.calls} {times} are equal"
        if self.smaller:
            sizes = ", ".join(f"{new} in place of {old}" for old, new in self.smaller)
            said += f"; with {sizes}"
        return "\n  ".join([f"{self.name}: {said}", *self.not_compared])


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """The results of comparing the default schedule for a target, by function."""

    target: str
    functions: tuple[FunctionReport, ...]

    @property
    def wrong(self) -> tuple[FunctionReport, ...]:
        """Return the functions whose schedule computes something else."""
        return tuple(f for f in self.functions if f.status == "wrong")

    @property
    def not_compared(self) -> tuple[FunctionReport, ...]:
        """Return the scheduled functions of which no call was compared."""
        return tuple(f for f in self.functions if f.status == "not compared")

    @property
    def ok(self) -> bool:
        """Whether every function that is scheduled was compared, and none is wrong."""
        return not self.wrong and not self.not_compared

    def mistakes(self) -> list[Diagnostic]:
        """List the differences as errors."""
        return [
            Diagnostic(
                "SCH0011",
                f"the schedule of {f.name} for {self.target} computes something else: "
                f"{f.difference}",
                f.span,
                "this function",
                help="compile with schedule=False, and report it with the program",
            )
            for f in self.wrong
        ]

    def cautions(self) -> list[Diagnostic]:
        """List the functions that were not compared as warnings."""
        return [
            Diagnostic(
                "SCH0012",
                f"the schedule of {f.name} for {self.target} was not checked",
                f.span,
                "this function",
                notes=f.not_compared,
                help="call loomir.validate_schedule with sizes, arguments or a larger budget",
                severity="warning",
            )
            for f in self.not_compared
        ]

    def __str__(self) -> str:
        return "\n".join([f"schedule for {self.target}:", *map(str, self.functions)])
