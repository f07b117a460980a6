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
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc

__all__ = [
    "agrees",
    "draw",
    "forget",
    "interpret_both",
    "interpret_kinds",
    "read_function",
    "scheduled",
]

_Array = npt.NDArray[np.generic]


def read_function(params: str, body: str) -> PrimFunc:
    """Read a function from its parameters and its statements."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    head = f"from loomir.script import tir as T\n@T.prim_func\ndef main({params}):\n"
    func = from_source(head + lines + "\n")
    assert isinstance(func, PrimFunc)
    return func


def draw(func: PrimFunc, **given: _Array) -> list[_Array]:
    """Draw arrays of small numbers for the parameters of a function, but for those ``given``."""
    random = np.random.default_rng(7)
    made: list[_Array] = []
    for buffer in func.buffer_map.values():
        if buffer.name in given:
            made.append(given[buffer.name])
            continue
        shape = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
        assert len(shape) == len(buffer.shape)
        lanes = [buffer.dtype.lanes] if buffer.dtype.lanes > 1 else []
        drawn = random.integers(-9, 10, (*shape, *lanes))
        made.append(drawn.astype(str(buffer.dtype.element)))
    return made


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


def interpret_kinds(
    func: PrimFunc, arrays: Sequence[_Array], *, target: str = "haswell", rtol: float = 0
) -> list[str]:
    """Compare as ``interpret_both`` does, with and without tasks; return the kinds of the plans."""
    interpret_both(func, arrays, target=target, tasks=True, rtol=rtol)
    return [plan.kind for plan in interpret_both(func, arrays, target=target, rtol=rtol)]


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
