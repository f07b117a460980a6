"""Compare one call of two programs, run without rounding: results must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from loomir.interp import ExactRun, Interpreter
from loomir.ir.module import IRModule
from loomir.support.diagnostics import RunError
from loomir.validate.arguments import fresh

__all__ = ["Difference", "Outcome", "compare_outcomes", "outcome_of", "size_of"]


class Outcome(NamedTuple):
    """The result of a call, or the error that it raised."""

    run: ExactRun | None
    error: RunError | None = None

    @property
    def code(self) -> str:
        """The code of the error, or an empty text."""
        return "" if self.error is None else self.error.diagnostic.code


class Difference(NamedTuple):
    """The first value that differs."""

    argument: str
    place: tuple[int, ...] | None
    one: Any
    other: Any


def outcome_of(module: IRModule, name: str, arguments: Sequence[Any], steps: int) -> Outcome:
    """Run a function without rounding. Errors: OutOfStepsError."""
    interpreter = Interpreter(module, exact=True, steps=steps)
    try:
        return Outcome(interpreter.run_exact(name, [fresh(a) for a in arguments]))
    except RunError as error:
        return Outcome(None, error)


def size_of(outcome: Outcome) -> int:
    """Count the values of a result and its arrays."""
    if outcome.run is None:
        return 1
    found = sum(0 if part is None else part.size for part in outcome.run.contents)
    return int(found) + (outcome.run.result is not None)


def compare_outcomes(names: Sequence[str], one: Outcome, other: Outcome) -> Difference | None:
    """Find the first value that differs; errors must have the same code."""
    if one.run is None or other.run is None:
        if one.code == other.code:
            return None
        return Difference("the call", None, _describe(one), _describe(other))
    if not _is_equal(one.run.result, other.run.result):
        return Difference("the result", None, one.run.result, other.run.result)
    for name, a, b in zip(names, one.run.contents, other.run.contents, strict=True):
        if a is None:
            continue
        wrong = np.asarray(a != b, bool)
        if not wrong.any():
            continue
        for place in np.argwhere(wrong):
            index = tuple(int(i) for i in place)
            if not _is_equal(a[index], b[index]):
                return Difference(name, index, a[index], b[index])
    return None


def _is_equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def _describe(outcome: Outcome) -> str:
    if outcome.error is None:
        return "no error"
    return f"{outcome.code}: {outcome.error.diagnostic.message}"
