"""Compare scheduled functions with the loops as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from unittest import mock

import numpy as np

import loomir
from fuzz.native import quick_codegen
from loomir.autoschedule.builders import thread_partition
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.runtime.executable import Executable
from loomir.target import Target
from loomir.tir.function import PrimFunc

RANDOM = np.random.default_rng(11)


def schedule_for(func: PrimFunc, target: str, *, tasks: bool) -> ScheduledFunction:
    """Schedule a function, as if there were much to do where ``tasks``."""
    if not tasks:
        return schedule_function(func, Target(target))
    with mock.patch.multiple(thread_partition, WORTH=0.0, TASK=20.0):
        return schedule_function(func, Target(target))


@lru_cache(maxsize=8)
def _as_written(func: PrimFunc) -> Executable:
    return loomir.compile(func, schedule=False, opt_level=0)


def assert_same_results(
    func: PrimFunc,
    *shapes: Sequence[int],
    dtype: str = "float32",
    rtol: float = 0,
    targets: Sequence[str] = ("native", "haswell"),
) -> ScheduledFunction:
    """Compare scheduled with written loops, and native code with the interpreter; return the last."""
    drawn = [np.array(RANDOM.standard_normal(shape) * 4, dtype) for shape in shapes]
    wanted = [array.copy() for array in drawn]
    _as_written(func)(*wanted)
    made = schedule_for(func, targets[0], tasks=False)
    for tasks, target in enumerate(targets):
        made = schedule_for(func, target, tasks=bool(tasks))
        assert not loomir.verify(made.func)
        interpreted = [array.copy() for array in drawn]
        loomir.interpret(made.func, func.name, *interpreted)
        native = [array.copy() for array in drawn]
        with quick_codegen():  # LLVM's passes once
            level = 0 if tasks else 2
            loomir.compile(made.func, target, opt_level=level, cache=False)(*native)
        for a, b, c in zip(wanted, interpreted, native, strict=True):
            np.testing.assert_array_equal(b, c)
            np.testing.assert_allclose(c, a, rtol=rtol, atol=rtol)
    return made


def kinds(made: ScheduledFunction) -> list[str]:
    return [plan.kind for plan in made.plans]
