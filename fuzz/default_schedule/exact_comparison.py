"""Compare scheduled loops with the loops as written, on other floats, without rounding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from fuzz.families.cases import Case, fresh, is_graph
from loomir.interp import ExactRun, Interpreter
from loomir.ir.module import IRModule
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.validate import validate_schedule

__all__ = ["as_written", "differs", "has_floats", "kernels_differ"]

_BUDGET: Final = 60_000
"""Instructions of a call of a kernel."""


def has_floats(case: Case) -> bool:
    """Whether something may be rounded: of integers, one run says all."""
    arrays = [np.asarray(a) for a in (*case.arguments, *case.expected) if a is not None]
    return is_graph(case) or any(array.dtype.kind not in "biu" for array in arrays)


def kernels_differ(case: Case, target: Target) -> str:
    """Say how a kernel of a graph differs from its schedule; else nothing."""
    report = validate_schedule(case.module, target, seeds=[case.seed], budget=_BUDGET)
    return "; ".join(map(str, report.wrong))


def differs(case: Case, made: IRModule, steps: int | None = None) -> str:
    """Say where scheduled loops give another number than the loops as written; else nothing.

    Errors: OutOfStepsError where one of them takes more instructions than ``steps``.
    """
    wanted, arguments = as_written(case, steps)
    interpreter = Interpreter(made, exact=True, steps=steps)
    found = interpreter.run_exact(case.entry, [fresh(a) for a in arguments])
    for number, (one, other) in enumerate(zip(wanted.contents, found.contents, strict=True)):
        if one is None:
            continue
        for place in np.argwhere(np.asarray(one != other, bool)):
            at = tuple(place.tolist())
            if one[at] == one[at] or other[at] == other[at]:  # all NaNs are the same
                return f"exactly, argument {number}{list(at)} is {other[at]}, not {one[at]}"
    return ""


def as_written(case: Case, steps: int | None = None) -> tuple[ExactRun, Sequence[Any]]:
    """Run the loops as they are written; return the arguments as well. Errors: OutOfStepsError."""
    return _written(_Known(case), steps)


class _Known:
    """A case by its identity, which lasts while it is looked at for several targets."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.case is other.case

    def __hash__(self) -> int:
        return hash((self.case.family, self.case.seed))


@lru_cache(maxsize=1)
def _written(known: _Known, steps: int | None) -> tuple[ExactRun, Sequence[Any]]:
    case = known.case
    assert isinstance(case.module[case.entry], PrimFunc)
    numbers = np.random.default_rng(case.seed)
    arguments = [_with_floats(fresh(a), numbers) for a in case.arguments]
    run = Interpreter(case.module, exact=True, steps=steps)
    return run.run_exact(case.entry, [fresh(a) for a in arguments]), arguments


def _with_floats(argument: Any, numbers: Any) -> Any:
    """Put other floats of the same signs into an array: so large that sums of products round."""
    if not isinstance(argument, np.ndarray):
        return argument
    array = cast("Any", argument)
    if array.dtype.kind not in "biu":
        whole = numbers.integers(1, 1000, array.shape)
        with np.errstate(all="ignore"):
            array[...] = np.where(array < 0, -whole, whole)
    return array
