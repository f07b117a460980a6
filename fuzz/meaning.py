"""Whether a scheduled program still means what it meant: verified, interpreted, and run."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
from loomir.ir.module import IRModule
from loomir.schedule import Schedule
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.verify import verify

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
    seed: int = 0,
    extent: int = EXTENT,
) -> None:
    """Fail where the scheduled program is ill-formed, or gives other results than before.

    ``checked`` also looks for races of threads, reads of what nothing wrote, and indices out of
    bounds. ``tolerance`` is for programs whose float results depend on the order: 0 asks for the
    same bits.
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
    engines = {"interpreted": lambda *a: loomir.interpret(after, after.name, *a)}
    if native:
        engines["compiled"] = loomir.compile(after, opt_level=0, checked=checked)[after.name]
    for how, run in engines.items():
        got = arguments_of(func, seed, extent)
        run(*got)
        for place, (a, b) in enumerate(zip(got, wanted, strict=True)):
            if tolerance:
                np.testing.assert_allclose(a, b, tolerance, err_msg=f"{how}, argument {place}")
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"{how}, argument {place}")
