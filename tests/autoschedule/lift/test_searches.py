"""Searches for an element and its place are two reductions, and find what the loops find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.searches import split_searches
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import draw, interpret_kinds, read_function

HEAD = """
from loomir.script import tir as T
@T.prim_func
def search(x: T.Buffer((37, 45), "{dtype}"), top: T.Buffer((37,), "{dtype}"), at: T.Buffer((37,), "int32")):
    for i in range(37):
        best = {start}
        where = T.int32(-5)
        for j in range(45):
            if {test}:
                {inner}
        top[i] = best
        at[i] = where
"""
BOTH = "best = x[i, j]; where = j"


def search(
    test: str, start: str = "x[i, 0]", inner: str = BOTH, dtype: str = "float32"
) -> PrimFunc:
    text = HEAD.format(
        test=test, start=start, inner="\n                ".join(inner.split("; ")), dtype=dtype
    )
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def values(dtype: str) -> Any:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (37, 45)).astype(dtype)
    if dtype == "float32":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] = -0.0
        x[5] = np.nan
        x[6, 0] = np.nan
    return x


CASES = [
    ("x[i, j] > best", "x[i, 0]", "float32"),
    ("x[i, j] > best", "T.float32(3)", "float32"),
    ("best >= x[i, j]", "T.float32(-3)", "float32"),
    ("x[i, j] >= best", "x[i, 0]", "float32"),
    ("best > x[i, j]", "T.float32(-2)", "float32"),
    ("x[i, j] < best", "T.int8(-3)", "int8"),
    ("x[i, j] >= best", "T.int8(3)", "int8"),
]


@pytest.mark.parametrize(("test", "start", "dtype"), CASES)
def test_the_place_is_that_of_the_loops(test: str, start: str, dtype: str):
    func = search(test, start, dtype=dtype)
    kinds = [plan.kind for plan in schedule_function(func, Target("haswell")).plans]
    assert kinds
    assert "loops as written" not in kinds
    results: list[tuple[Any, Any]] = []
    for run in (loomir.compile(func), loomir.compile(func, schedule=False, opt_level=0)):
        top, at = np.empty(37, dtype), np.empty(37, "int32")
        run(values(dtype), top, at)
        results.append((top, at))
    (top, at), (wanted, place) = results
    np.testing.assert_array_equal(at, place)
    np.testing.assert_array_equal(top.view("uint8"), wanted.view("uint8"))


@pytest.mark.parametrize(
    "inner",
    [
        "best = x[i, j] + T.float32(1); where = j",
        "best = x[i, j]; where = where + 1",
        "best = x[i, j]",
    ],
)
def test_other_updates_are_no_search(inner: str):
    assert split_searches(search("x[i, j] > best", inner=inner).body) is None


def test_a_search_among_what_it_writes_is_left():
    func = search("top[j % 37] > best", inner="best = top[j % 37]; where = j")
    assert split_searches(func.body) is not None
    moved = search("x[i, where] > best", inner="best = x[i, where]; where = j")
    assert split_searches(moved.body) is None


ARRAYS = (
    'x: T.Buffer((5, 24), "float32"), q: T.Buffer((24,), "int32"), '
    'o: T.Buffer((24,), "float32"), w: T.Buffer((24,), "int32")'
)
KEPT = {
    "an index from a table": ("x[i, j]", "i", "q[j]"),
    "an index that divides": ("x[i, j]", "i", "100 // (q[0] + 1 - j)"),
    "an element for each half": ("x[i, j]", "j // 12", "j"),
    "a place from a table": ("x[i, j]", "q[i]", "j"),
    "a place that divides": ("x[i, j % q[0]]", "i", "j"),
}


@pytest.mark.parametrize("name", KEPT)
def test_searches_that_stay_loops(name: str):
    value, place, at = KEPT[name]
    func = read_function(
        ARRAYS,
        f"""
for i, j in T.grid(5, 24):
    if {value} > o[{place}]:
        o[{place}] = {value}
        w[{place}] = {at}
""",
    )
    assert split_searches(func.body) is None
    assert interpret_kinds(func, draw(func, q=np.arange(24, dtype="int32")[::-1])) == []
