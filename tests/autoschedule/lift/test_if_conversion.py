"""What joins on a condition: several sums behind one, and no branch where none is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.visit import by_class
from loomir.script import tir as T
from loomir.tir.expr import Select
from loomir.tir.function import PrimFunc
from tests.autoschedule.equivalence import schedule_for
from tests.autoschedule.rules.reduction.test_ordered_sums import exactly

RANDOM = np.random.default_rng(8)


@T.prim_func
def mean_of_some(
    x: T.Buffer((37, 45), "float32"), k: T.Buffer((37, 45), "bool"), y: T.Buffer((37,), "float32")
) -> None:
    for i in range(37):
        s = T.alloc_buffer((1,), "float32")
        c = T.alloc_buffer((1,), "int32")
        s[0] = T.float32(0)
        c[0] = 0
        for j in range(45):
            if k[i, j]:
                s[0] = s[0] + x[i, j]
                c[0] = c[0] + 1
        y[i] = s[0] / T.Cast("float32", T.max(c[0], 1))


@T.prim_func
def mean_of_rows(xs: T.handle, ks: T.handle, ys: T.handle) -> None:
    n, m = T.int64(), T.int64()
    x = T.match_buffer(xs, (n, m), "float64")
    k = T.match_buffer(ks, (n, m), "int8")
    y = T.match_buffer(ys, (n, 2), "float64")
    for i in range(n):
        y[i, 0] = T.float64(0)
        y[i, 1] = T.float64(-1)
        for j in range(m):
            if k[i, j] > T.int8(0):
                y[i, 0] = y[i, 0] + x[i, j]
                y[i, 1] = y[i, 1] + x[i, j] * x[i, j]


def values(*shape: int, dtype: str = "float32") -> Any:
    made = RANDOM.standard_normal(shape).astype(dtype)
    made.flat[::7] = -0.0
    made.flat[3::11] = np.inf
    made.flat[5::13] = -np.inf
    return made


def test_a_sum_and_a_count() -> None:
    x, k = values(37, 45), RANDOM.integers(0, 2, (37, 45)).astype(bool)
    k[3], k[4] = False, True
    exactly(mean_of_some, x, k, np.zeros(37, "float32"))
    plans = schedule_for(mean_of_some, "native", tasks=False).plans
    found = [s.name for plan in plans for s in plan.stages if Select in by_class(s.value)]
    assert found == ["s", "c"]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (19, 33), (40, 7)])
def test_sizes_known_when_it_runs(shape: tuple[int, int]) -> None:
    k = RANDOM.integers(-1, 2, shape).astype("int8")
    out = np.full((shape[0], 2), 7.0)
    exactly(mean_of_rows, values(*shape, dtype="float64"), k, out)


@T.prim_func
def behind_the_end(
    x: T.Buffer((9, 20), "float32"), y: T.Buffer((9,), "float32"), n: T.Buffer((9,), "int32")
) -> None:
    for i in range(9):
        y[i] = T.float32(0)
        for j in range(40):
            if j < n[i]:
                y[i] = y[i] + x[i, j]


@T.prim_func
def it_asks_for_what_it_changes(
    x: T.Buffer((9, 40), "float32"), y: T.Buffer((9, 2), "float32")
) -> None:
    for i in range(9):
        y[i, 0] = T.float32(0)
        y[i, 1] = T.float32(0)
        for j in range(40):
            if y[i, 0] < T.float32(4):
                y[i, 0] = y[i, 0] + T.abs(x[i, j])
                y[i, 1] = y[i, 1] + T.float32(1)


@T.prim_func
def one_uses_the_other(x: T.Buffer((9, 40), "float32"), y: T.Buffer((9, 2), "float32")) -> None:
    for i in range(9):
        y[i, 0] = T.float32(0)
        y[i, 1] = T.float32(0)
        for j in range(40):
            if x[i, j] > T.float32(0):
                y[i, 0] = y[i, 0] + x[i, j]
                y[i, 1] = y[i, 1] + y[i, 0]


@T.prim_func
def unchanged(x: T.Buffer((9, 40), "float32"), y: T.Buffer((9,), "float32")) -> None:
    for i in range(9):
        y[i] = T.float32(-0.0)
        for j in range(40):
            if x[i, j] > T.float32(1000):
                y[i] = y[i] + x[i, j]


def test_what_may_not_be_read_is_not() -> None:
    memory = np.full((9, 20), 1.5, "float32")
    counts = np.arange(9, dtype="int32") * 2
    out = np.zeros(9, "float32")
    loomir.compile(behind_the_end)(memory, out, counts)
    np.testing.assert_array_equal(out, counts * np.float32(1.5))
    stages = [
        s for p in schedule_for(behind_the_end, "native", tasks=False).plans for s in p.stages
    ]
    assert not any(Select in by_class(s.value) for s in stages)


@pytest.mark.parametrize("func", [it_asks_for_what_it_changes, one_uses_the_other])
def test_what_stays_together(func: PrimFunc) -> None:
    exactly(func, RANDOM.standard_normal((9, 40)).astype("float32"), np.zeros((9, 2), "float32"))


def test_nothing_joins() -> None:
    out = np.zeros(9, "float32")
    exactly(unchanged, RANDOM.standard_normal((9, 40)).astype("float32"), out)
