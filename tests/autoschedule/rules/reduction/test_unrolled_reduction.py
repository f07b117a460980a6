"""Windows that wrap around, repeat the last element, or leave out terms: written out, and split."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.script import from_source
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees

_TEXT = """
from loomir.script import tir as T
@T.prim_func
def window(p: T.Buffer(({h}, {w}), "{dtype}"), out: T.Buffer(({h}, {w}), "{dtype}")):
    for y, x in T.grid({h}, {w}):
        acc = {start}
        for a, b in T.grid(3, {taps}):
            {step}
        out[y, x] = {end}
"""
_WRAPPED = "p[(y + a + {h} - 1) % {h}, (x + b + {w} - {taps} // 2) % {w}]"
_CLAMPED = "p[T.min(T.max(y + a - 1, 0), {h} - 1), T.min(T.max(x + b - 2, 0), {w} - 1)]"


def window(
    step: str, h: int, w: int, *, taps: int = 3, dtype: str = "float32", end: str = "acc"
) -> PrimFunc:
    start = f'T.Cast("{dtype}", 0)'
    step = step.format(h=h, w=w, taps=taps, dtype=dtype)
    func = from_source(
        _TEXT.format(h=h, w=w, dtype=dtype, start=start, step=step, end=end, taps=taps)
    )
    assert isinstance(func, PrimFunc)
    return func


def is_written_out(func: PrimFunc) -> bool:
    plans = schedule_function(func, loomir.Target("x86-64-v4")).plans
    return len(plans) == 1 and plans[0].choices[0].endswith("terms are written out")


def numbers(h: int, w: int, dtype: str) -> np.ndarray[tuple[int, int], np.dtype[np.generic]]:
    return np.random.default_rng(h * w).integers(0, 100, (h, w)).astype(dtype)


@pytest.mark.parametrize(
    "step",
    [
        f"acc += {_WRAPPED}",
        f"acc += {_CLAMPED}",
        f"acc = T.max(acc, {_WRAPPED})",
        f"acc = T.min({_CLAMPED}, acc)",
        f"if a != 1 or b != 1:\n                acc += {_WRAPPED}",
        f"acc += {_CLAMPED} * T.Cast('{{dtype}}', a + 1)",
    ],
)
@pytest.mark.parametrize(("h", "w", "dtype"), [(5, 70, "int32"), (4, 3, "int16"), (3, 33, "int64")])
def test_windows_with_borders(step: str, h: int, w: int, dtype: str) -> None:
    func = window(step, h, w, dtype=dtype)
    assert is_written_out(func)
    data = numbers(h, w, dtype)
    agrees(func, [data, np.zeros_like(data)], targets=("native", "haswell"), always=False)


def test_floats_are_added_in_their_order() -> None:
    func = window(f"acc += {_WRAPPED}", 6, 70, taps=5, end="acc / acc + acc")
    assert is_written_out(func)
    data = np.random.default_rng(1).standard_normal((6, 70)).astype("float32")
    data[1, 5], data[2, 60], data[4] = np.nan, np.inf, -0.0
    wanted, found = np.zeros_like(data), np.zeros_like(data)
    loomir.interpret(func, "window", data, wanted)
    loomir.interpret(schedule_function(func, loomir.Target("haswell")).func, "window", data, found)
    np.testing.assert_array_equal(found, wanted)
    assert np.array_equal(np.signbit(found[4]), np.signbit(wanted[4]))


def test_windows_of_any_size() -> None:
    text = _TEXT.format(
        h='"h"', w='"w"', dtype="float32", start="T.float32(0)", end="acc", taps=3, step="{step}"
    )
    text = text.replace("    for y", "    h, w = p.shape[0], p.shape[1]\n    for y", 1)
    text = text.replace('T.grid("h", "w")', "T.grid(h, w)")
    clamped = "p[T.min(T.max(y + a - 1, 0), h - 1), T.min(T.max(x + b - 1, 0), w - 1)]"
    func = from_source(text.format(step=f"acc += {clamped}"))
    assert isinstance(func, PrimFunc)
    assert is_written_out(func)
    run, plain = loomir.compile(func), loomir.compile(func, schedule=False)
    for h, w in ((1, 1), (2, 2), (1, 40), (7, 3), (3, 131), (0, 5), (5, 0)):
        data = numbers(h, w, "float32")
        found, wanted = np.full_like(data, 7), np.full_like(data, 7)
        run(data, found)
        plain(data, wanted)
        np.testing.assert_array_equal(found, wanted)


def test_what_is_looked_up_or_long_is_not_written_out() -> None:
    table = 'acc += p[y, T.Cast("int32", p[y, (x + a) % {w}]) % {w}]'
    assert not is_written_out(window(table, 4, 64, dtype="int32"))
    assert not is_written_out(window(f"acc += {_WRAPPED}", 4, 64, taps=15))
    assert not is_written_out(window("acc += p[(x + a) % {h}, (y + b) % {w}]", 64, 64))
