"""Check that a scheduled program means the same as before: verify, interpret, and run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import loomir
from fuzz.native import with_quick_codegen
from loomir.check.tir.verify import verify
from loomir.driver import as_module
from loomir.ir.module import IRModule
from loomir.schedule import Schedule
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc

__all__ = ["arguments_of", "same_meaning"]

EXTENT = 5
"""What a symbolic extent is; no multiple of the usual factors."""


def arguments_of(func: PrimFunc, seed: int = 0, extent: int = EXTENT) -> list[np.ndarray]:
    """Make arrays for a function's buffers: small whole numbers, whose float sums are exact."""
    rng = np.random.default_rng(seed)
    made: list[np.ndarray] = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [_extent(e, extent) for e in buffer.shape]
        made.append(rng.integers(-4, 5, shape).astype(str(buffer.dtype)))
    return made


def _extent(e: Any, extent: int) -> int:
    if isinstance(e, IntImm):
        return e.value
    assert isinstance(e, Var)
    return extent


def same_meaning(
    before: PrimFunc | IRModule,
    sch: Schedule,
    *,
    tolerance: float = 0.0,
    native: bool = True,
    checked: bool = False,
    tracked: bool = False,
    level: int = 0,
    quick: bool = False,
    seed: int = 0,
    extent: int = EXTENT,
) -> None:
    """Fail where the scheduled program is ill-formed, or gives other results than before.

    ``native`` also runs it as compiled code, at a ``level`` of optimisation or, where it is
    ``quick``, with the simplest selection of instructions and nothing kept on disk. ``tracked``
    lets the interpreter look for races of threads and reads of what nothing wrote, ``checked`` the
    compiled code, which then also looks for indices out of bounds. ``tolerance`` is for programs
    whose float results depend on the order: 0 asks for the same bits.
    """
    name = sch.func_working_on
    assert name is not None
    found = verify(sch.mod)
    assert not found, found[0]
    func = before if isinstance(before, PrimFunc) else before[name]
    after = sch.mod[name]
    assert isinstance(func, PrimFunc)
    assert isinstance(after, PrimFunc)
    wanted = arguments_of(func, seed, extent)
    loomir.interpret(func, func.name, *wanted)
    engines: dict[str, Callable[..., Any]] = {
        "interpreted": lambda *a: loomir.interpret(after, after.name, *a, track=tracked)
    }
    if native:
        engines["compiled"] = _compiled(after, checked, 0 if quick else level, quick)
    for how, run in engines.items():
        got = arguments_of(func, seed, extent)
        run(*got)
        for place, (a, b) in enumerate(zip(got, wanted, strict=True)):
            if tolerance:
                np.testing.assert_allclose(a, b, tolerance, err_msg=f"{how}, argument {place}")
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"{how}, argument {place}")


def _compiled(func: PrimFunc, checked: bool, level: int, quick: bool) -> Callable[..., Any]:
    def prepare(module: IRModule) -> dict[str, Any]:
        made = loomir.compile(module, opt_level=level, checked=checked, cache=not quick)
        return {"": lambda entry, args: made[entry](*args)}

    run = (with_quick_codegen(prepare) if quick else prepare)(as_module(func))[""]
    return lambda *args: run(func.name, args)
