"""Compare scheduled functions with the functions as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from unittest import mock

import numpy as np
import numpy.typing as npt

import loomir
from fuzz.native import quick_codegen
from loomir.autoschedule.builders import thread_partition
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.autoschedule.ir.plan import Plan
from loomir.interp import Interpreter
from loomir.runtime.executable import Executable
from loomir.target import Target
from loomir.tir.function import PrimFunc

__all__ = ["agrees", "forget", "interpret_both", "scheduled"]


def scheduled(func: PrimFunc, *, tasks: bool = False, target: str = "native") -> ScheduledFunction:
    """Schedule a function; with ``tasks`` as if there were much to do."""
    if not tasks:
        return schedule_function(func, Target(target))
    with mock.patch.multiple(thread_partition, WORTH=0.0, TASK=20.0):
        return schedule_function(func, Target(target))


# What one function becomes is asked for again with arrays of other sizes.
@lru_cache(maxsize=16)
def _made(func: PrimFunc, tasks: bool, target: str) -> ScheduledFunction:
    made = scheduled(func, tasks=tasks, target=target)
    assert not loomir.verify(made.func)
    return made


@lru_cache(maxsize=16)
def _interpreter(func: PrimFunc) -> Interpreter:
    return Interpreter(func)


@lru_cache(maxsize=16)
def _native(func: PrimFunc, target: str, level: int) -> Executable:
    return loomir.compile(func, target, opt_level=level, schedule=False, cache=False)


def forget() -> None:
    """Forget what functions became: what they become may depend on what a test has changed."""
    for known in (_made, _interpreter, _native):
        known.cache_clear()


def agrees(
    func: PrimFunc,
    arrays: Sequence[npt.NDArray[np.generic]],
    *,
    rtol: float = 1e-5,
    ulps: int = 0,
    targets: Sequence[str] = ("native",),
    kinds: Sequence[str] | None = None,
    always: bool = True,
) -> None:
    """Compare the scheduled function with the function as it is written, with and without tasks.

    ``always``: it is scheduled for little work too. The interpreter and native code agree on what is scheduled to so many units in the last place.
    """
    wanted = [array.copy() for array in arrays]
    _interpreter(func).call(func.name, wanted, {})
    level = 2  # once; what LLVM's passes make of the same loops as tasks shows nothing more
    for tasks, target in [(False, targets[0]), *[(True, target) for target in targets]]:
        made = _made(func, tasks, target)
        if not made.plans and not tasks and not always:
            continue
        assert made.plans
        if kinds is not None and not tasks:
            assert [plan.kind for plan in made.plans] == list(kinds)
        interpreted = [array.copy() for array in arrays]
        _interpreter(made.func).call(func.name, interpreted, {})
        native = [array.copy() for array in arrays]
        with quick_codegen():  # code is made when it is called first
            _native(made.func, target, level)(*native)
        level = 0
        for a, b, c in zip(wanted, interpreted, native, strict=True):
            np.testing.assert_allclose(b.astype("float64"), a.astype("float64"), rtol, rtol)
            if ulps:
                np.testing.assert_array_max_ulp(b, c, ulps)
            else:
                np.testing.assert_array_equal(b, c)


def interpret_both(
    func: PrimFunc,
    arrays: Sequence[npt.NDArray[np.generic]],
    *,
    target: str = "haswell",
    tasks: bool = False,
    rtol: float = 1e-5,
) -> tuple[Plan, ...]:
    """Compare the scheduled function with the function as written, by the interpreter only.

    Return its plans. The target may be a machine that is not at hand.
    """
    made = scheduled(func, target=target, tasks=tasks)
    assert not loomir.verify(made.func)
    wanted, got = ([array.copy() for array in arrays] for _ in range(2))
    Interpreter(func).call(func.name, wanted, {})
    Interpreter(made.func).call(func.name, got, {})
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b.astype("float64"), a.astype("float64"), rtol, rtol)
    return made.plans
