"""One element of all is searched for in lanes, and the result is that of the loop in order."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.script import from_source
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees

LEAST = """
@T.prim_func
def search(x: T.Buffer((300,), "{dtype}"), o: T.Buffer((1,), "{dtype}")):
    best = {start}
    for i in range(1, 300):
        if x[i] {than} best:
            best = x[i]
    o[0] = best
"""

PLACE = """
@T.prim_func
def search(x: T.Buffer((300,), "{dtype}"), o: T.Buffer((1,), "int64")):
    best = {start}
    at = T.int64(0)
    for i in range(1, 300):
        if x[i] {than} best:
            best = x[i]
            at = T.cast(i, "int64") * 2 + 1
    o[0] = at
"""

GRID = """
@T.prim_func
def search(x: T.Buffer((5, 6, 10), "{dtype}"), o: T.Buffer((1,), "int32")):
    best = {start}
    at = 0
    for i, j, k in T.grid(5, 6, 10):
        if x[i, j, k] {than} best:
            best = x[i, j, k]
            at = i * 10000 + j * 100 + k
    o[0] = at
"""


def program(text: str, than: str, dtype: str, start: str) -> PrimFunc:
    func = from_source(text.format(than=than, dtype=dtype, start=start))
    assert isinstance(func, PrimFunc)
    return func


def inputs(dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    plain = random.standard_normal(300)
    some = plain.copy()
    some[random.integers(0, 300, 100)] = np.nan
    zeros = np.where(random.random(300) < 0.5, 0.0, -0.0)
    below = -np.abs(plain)
    below[[50, 40, 200]] = 0.0, -0.0, 0.0
    ties = random.integers(0, 3, 300).astype("float64")
    first = plain.copy()
    first[0] = np.nan
    infinite = np.full(300, -np.inf)
    return [
        a.astype(dtype)
        for a in (plain, some, zeros, -zeros, below, -below, ties, first, infinite, -infinite)
    ]


@pytest.mark.parametrize("than", [">", ">=", "<", "<="])
@pytest.mark.parametrize("text", [LEAST, PLACE, GRID], ids=["element", "place", "place of three"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_element_is_that_of_the_loop_in_order(text: str, than: str, dtype: str):
    shape = (5, 6, 10) if text is GRID else (300,)
    result = dtype if text is LEAST else "int32" if text is GRID else "int64"
    for start in ("x[0, 0, 0]" if text is GRID else "x[0]", f'T.cast(0.0, "{dtype}")'):
        func = program(text, than, dtype, start)
        plain = loomir.compile(func, schedule=False)
        run = loomir.compile(func)
        for x in inputs(dtype):
            wanted, got = np.zeros(1, result), np.zeros(1, result)
            plain(x.reshape(shape), wanted)
            run(x.reshape(shape), got)
            np.testing.assert_array_equal(got, wanted)
            if text is LEAST:
                np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("text", [LEAST, PLACE, GRID])
def test_it_is_searched_for_in_vectors(text: str):
    func = program(text, ">", "float32", "x[0, 0, 0]" if text is GRID else "x[0]")
    made = schedule_function(func, loomir.Target("haswell"))
    kinds = {plan.kind for plan in made.plans}
    assert kinds <= {"element-wise", "rows", "reduction in two steps"}
    assert "T.vectorized" in made.func.script()
    x = np.random.default_rng(1).standard_normal((5, 6, 10) if text is GRID else 300)
    out = np.zeros(1, "float32" if text is LEAST else "int32" if text is GRID else "int64")
    agrees(func, [x.astype("float32"), out], targets=("native", "haswell"), rtol=0)


def test_long_searches_are_shared_between_threads():
    text = LEAST.replace("300", "300000")
    made = schedule_function(program(text, "<", "float32", "x[0]"), loomir.Target("haswell"))
    assert "T.parallel" in made.func.script()
