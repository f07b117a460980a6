"""Neighbouring results lie in lanes where they read neighbours, or are computed from their places."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.script import from_source
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, interpret_kinds, read_function


@T.prim_func
def nearest(p: T.Buffer((9, 2), "float32"), out: T.Buffer((5, 70), "float32")):
    for y, x in T.grid(5, 70):
        least = T.float32(1e30)
        for k in range(9):
            dy = T.cast(y, "float32") - p[k, 0]
            dx = T.cast(x, "float32") - p[k, 1]
            least = T.min(least, dy * dy + dx * dx)
        out[y, x] = least


@T.prim_func
def sums(p: T.Buffer((9, 2), "float32"), out: T.Buffer((5, 70), "float32")):
    for y, x in T.grid(5, 70):
        s = T.float32(0)
        for k in range(9):
            s += T.cast(y, "float32") * p[k, 0]
        out[y, x] = s


_BINS = """
from loomir.script import tir as T
@T.prim_func
def bins(edges: T.Buffer(({terms},), "float32"), x: T.Buffer(({rows},), "float32"), out: T.Buffer(({rows},), "int32")):
    for i in range({rows}):
        n = T.int32(0)
        for k in range({terms}):
            if x[i] >= edges[k]:
                n += 1
        out[i] = n
"""


def bins(rows: int, terms: int) -> PrimFunc:
    func = from_source(_BINS.format(rows=rows, terms=terms))
    assert isinstance(func, PrimFunc)
    return func


def first_choice(func: PrimFunc) -> str:
    (plan,) = schedule_function(func, loomir.Target("x86-64-v4")).plans
    return plan.choices[0]


@pytest.mark.parametrize("func", [nearest, sums], ids=["nearest", "sums"])
def test_results_of_their_places(func: PrimFunc) -> None:
    points = np.random.default_rng(0).uniform(0, 70, (9, 2)).astype("float32")
    agrees(
        func, [points, np.zeros((5, 70), "float32")], targets=("native", "haswell"), always=False
    )


def test_results_computed_from_their_places_lie_in_lanes() -> None:
    assert "neighbours along x are combined in registers" in first_choice(nearest)


@pytest.mark.parametrize(("rows", "terms"), [(70, 33), (5, 33), (64, 1), (300, 200)])
def test_results_of_few_terms(rows: int, terms: int) -> None:
    random = np.random.default_rng(rows)
    edges = np.sort(random.standard_normal(terms)).astype("float32")
    x = random.standard_normal(rows).astype("float32")
    x[:2] = np.nan, edges[0]
    agrees(
        bins(rows, terms),
        [edges, x, np.zeros(rows, "int32")],
        targets=("native", "haswell"),
        always=False,
    )


def test_results_of_few_terms_lie_in_lanes_and_terms_of_many_do() -> None:
    assert "neighbours along i are combined in registers" in first_choice(bins(70, 33))
    assert first_choice(bins(70, 3000)).startswith("rows over i")
    assert first_choice(bins(5, 33)).startswith("rows over i")


def test_strides_that_are_known_at_run_time():
    func = read_function(
        'a: T.handle, o: T.Buffer((30,), "float32")',
        """
m = T.int64()
x = T.match_buffer(a, (30, m, 4), "float32")
for i in range(30):
    o[i] = T.float32(0)
    for k in range(3):
        o[i] += x[i, 0, k]
""",
    )
    for m in (1, 2):
        x = np.arange(30 * m * 4, dtype="float32").reshape(30, m, 4)
        assert interpret_kinds(func, [x, np.zeros(30, "float32")]) == ["reduction"]
