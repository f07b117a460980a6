"""Products read where they lie, strip by strip, with what comes next fetched meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.interp import interpret
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc

RANDOM = np.random.default_rng(9)


@pytest.fixture(autouse=True)
def _few_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomir.autoschedule.rules.matmul.strips._FEWEST_ROWS", 1)


def convolution(n: int, into: int, side: tuple[int, int], out: int, dtype: str) -> PrimFunc:
    x, w = (
        te.placeholder((n, into, *side), dtype),
        te.placeholder((out, into, 1, 1), dtype, name="w"),
    )
    return te.create_prim_func([x, w, topi.conv(x, w)])


def scheduled(func: PrimFunc, target: str, constant: bool = False) -> ScheduledFunction:
    weights = frozenset({func.buffer_map[func.params[1]].data}) if constant else frozenset[Any]()
    made = schedule_function(func, Target(target), constants=weights)
    assert "strip by strip" in made.plans[-1].choices[-1]
    assert not loomir.verify(made.func)
    return made


@pytest.mark.parametrize("target", ["haswell", "native"])
@pytest.mark.parametrize(
    ("n", "into", "side", "out", "dtype"),
    [
        (1, 130, (31, 23), 5, "float32"),  # a panel of fewer steps, a strip that begins early
        (2, 29, (97, 31), 13, "float32"),  # images, one panel, rows beyond the last
        (3, 7, (160, 80), 1, "float32"),  # fewer steps than are written out
        (1, 200, (31, 23), 9, "float32"),  # an odd number of panels
        (1, 130, (16, 24), 17, "float64"),
        (1, 256, (16, 20), 64, "float32"),
    ],
)
def test_convolutions_of_single_pixels(
    n: int, into: int, side: tuple[int, int], out: int, dtype: str, target: str
) -> None:
    func = convolution(n, into, side, out, dtype)
    made = scheduled(func, target)
    x = RANDOM.standard_normal((n, into, *side)).astype(dtype)
    w = RANDOM.standard_normal((out, into, 1, 1)).astype(dtype)
    got = np.full((n, out, *side), np.nan, dtype)
    loomir.compile(made.func, target, opt_level=1, cache=False)(x, w, got)
    wanted = np.einsum("oi,nihw->nohw", w[:, :, 0, 0].astype("float64"), x.astype("float64"))
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)
    ahead = np.full_like(got, np.nan)
    run = loomir.compile(func, target, constants={"w": w}, cache=False)
    run(x, ahead)
    np.testing.assert_array_equal(ahead, got)


def test_the_interpreter_finds_the_same_numbers_and_no_place_outside() -> None:
    a, b, c = te.placeholder((7, 21)), te.placeholder((21, 430)), te.placeholder((7, 430))
    product = topi.matmul(a, b)
    out = topi.add(product, c)
    made = scheduled(te.create_prim_func([a, b, c, out]), "haswell")
    arrays = [RANDOM.standard_normal(s).astype("float32") for s in ((7, 21), (21, 430), (7, 430))]
    arrays[1][4, 17], arrays[1][5, 429] = np.nan, np.inf
    native, interpreted = (np.full((7, 430), -1, "float32") for _ in range(2))
    loomir.compile(made.func, "haswell", opt_level=1, cache=False)(*arrays, native)
    interpret(made.func, *arrays, interpreted)
    np.testing.assert_array_equal(native, interpreted)
    with np.errstate(invalid="ignore"):
        wanted = arrays[0].astype("float64") @ arrays[1] + arrays[2]
    others = np.delete(np.arange(430), [17, 429])
    np.testing.assert_allclose(native[:, others], wanted[:, others], 1e-4, 1e-4)


def test_all_of_what_comes_next_is_fetched_and_sums_stay_in_registers() -> None:
    func = convolution(1, 256, (56, 56), 64, "float32")
    made = scheduled(func, "x86-64-v4")
    assert made.func.script().count("T.prefetch") == 3 + 4  # 1 of 64 rows by vectors, and a result
    text = loomir.compile(func, "x86-64-v4", cache=False).assembly()
    assert text.count("prefetch") == 3 + 4
    assert not [line for line in text.splitlines() if "zmm" in line and "rsp" in line]


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (64, 64, 64),  # near
        (64, 4096, 4096),  # far
        (64, 1024, 196),  # the last strip would compute a seventh again
        (300, 256, 3136),  # many rows
        (1, 256, 40),  # one strip
    ],
)
def test_other_orders_for_other_sizes(m: int, k: int, n: int) -> None:
    a, b = te.placeholder((m, k)), te.placeholder((k, n))
    made = schedule_function(
        te.create_prim_func([a, b, topi.matmul(a, b)]), Target("sapphirerapids")
    )
    assert "strip by strip" not in made.plans[0].choices[-1]
