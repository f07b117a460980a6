"""Programs that other campaigns draw, compared with their default schedules for any machine.

Their judge is the interpreter, on the program as it was before anything was scheduled.

- ``constructs`` uses all of the language.
- ``nests`` are plain loops with odd indices, triangles, recurrences and conditions.
- ``primitives`` are programs that a user has scheduled by hand: loops are split, fused, reordered
  and marked, blocks are moved, cached, tensorized and laid out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.choices import SeedChoices
from fuzz.families.cases import Case, fresh
from fuzz.nests.generate import nests_of_seed
from fuzz.schedule.generate import sequence_of_seed
from fuzz.schedule.meaning import arguments_of
from fuzz.scheduling import may_regroup
from fuzz.tir.generate import program_of_seed
from fuzz.tir.program import ArraySpec, Program
from loomir.driver import as_module
from loomir.interp import Interpreter
from loomir.interp.machine import OutOfStepsError
from loomir.ir.module import IRModule
from loomir.runtime.errors import RunError
from loomir.tir.function import PrimFunc

__all__ = ["constructs", "nests", "primitives"]

_TRIES: Final = 1_000_003
"""What lies between a seed and the next one where its program cannot be judged."""
_STEPS: Final = 100_000
"""Instructions of a program."""


def constructs(seed: int) -> Case:
    """Draw the case of a seed: a program of all constructs."""
    return _other("constructs", seed, program_of_seed)


def nests(seed: int) -> Case:
    """Draw the case of a seed: plain loops."""
    return _other("nests", seed, nests_of_seed)


def _other(family: str, seed: int, draw: Callable[[int], Program]) -> Case:
    number = seed
    while True:
        case = _judged(family, number, seed, draw(number))
        if case is not None:
            return case
        number += _TRIES


def _judged(family: str, number: int, seed: int, program: Program) -> Case | None:
    """Make the case of a program; None where it fails, or gives something else than arrays."""
    arrays = [spec for spec in program.arguments if isinstance(spec, ArraySpec)]
    choices = SeedChoices(f"{family} {number}")
    how = choices.weighted([(5.0, "random"), (2.0, "special"), (1.0, "equal")])
    arguments = program.make_arguments(choices, how)
    if any(spec.tolerance for spec in arrays):
        return None
    if any(may_regroup(func) for func in program.module.functions.values()):
        specs = program.arguments
        arguments = [_whole(a, s) for a, s in zip(arguments, specs, strict=True)]
    return _interpreted(family, seed, program.module, program.module, program.entry, arguments)


def _whole(argument: Any, spec: object) -> Any:
    """Put small whole numbers into an array of floats, whose sums are then exact in any order."""
    if isinstance(spec, ArraySpec) and spec.dtype.is_float:
        with np.errstate(all="ignore"):
            argument[...] = np.nan_to_num(argument.astype(np.float64)) % 4 // 1
    return argument


def primitives(seed: int) -> Case:
    """Draw the case of a seed: a program that steps of a schedule have changed."""
    number = seed
    while True:
        made = sequence_of_seed(number, close=False)
        assert not made.wrong, made.wrong
        func, case = made.program.func, None
        if not made.program.tolerance:
            arguments = arguments_of(func, seed, 1 + seed % 23)
            before = as_module(func)
            case = _interpreted("primitives", seed, before, made.sch.mod, func.name, arguments)
        if case is not None:
            return case
        number += _TRIES


def _interpreted(
    family: str, seed: int, before: IRModule, module: IRModule, entry: str, arguments: list[Any]
) -> Case | None:
    """Make the case of a module that must do what another one does."""
    func = before[entry]
    assert isinstance(func, PrimFunc)
    after = [fresh(argument) for argument in arguments]
    try:
        with np.errstate(all="ignore"):
            Interpreter(before, steps=_STEPS).call(entry, after, {})
    except (RunError, OutOfStepsError):
        return None
    expected = [a if isinstance(a, np.ndarray) else None for a in after]
    return Case(family, seed, module, entry, tuple(arguments), tuple(expected))
