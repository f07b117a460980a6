"""Loops that no rule reads: threads share those whose iterations are independent."""

from __future__ import annotations

import numpy as np
import pytest

from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(9)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name: str):
    x = te.placeholder((12, 45), name="x")
    func = te.create_prim_func([x, getattr(topi, name)(x, 1)])
    data = RANDOM.standard_normal((12, 45)).astype("float32").round(1)
    data[3, 7], data[3, 9] = np.nan, np.nan
    agrees(func, [data, np.zeros(12, "int64")], rtol=0, always=False)
    made = scheduled(func, tasks=True)
    assert [plan.kind for plan in made.plans] == ["choice"]
    assert "T.parallel" in made.func.script()


@T.prim_func
def running(A: T.Buffer((9, 40), "float32"), B: T.Buffer((9, 40), "float32")):
    for i in range(9):
        B[i, 0] = A[i, 0]
        for j in range(1, 40):
            B[i, j] = B[i, j - 1] + A[i, j]


@T.prim_func
def inner(A: T.Buffer((9, 40), "float32"), B: T.Buffer((9, 40), "float32")):
    for i in range(1, 9):
        for j in range(40):
            if i > 1:
                B[i, j] = B[i - 1, j] + A[i, j]
            else:
                B[i, j] = A[i, j]


@T.prim_func
def chained(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for i in range(1, 40):
        B[i] = B[i - 1] + A[i]


@T.prim_func
def scattered(J: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
    for i in range(40):
        if J[i] >= 0 and J[i] < 40:
            B[J[i]] = i


@T.prim_func
def failing(J: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
    for i in range(40):
        B[i] = 7 // J[i]


@T.prim_func
def halved(A: T.Buffer((9, 40), "float32"), B: T.Buffer((9, 40), "float32")):
    with T.sblock("all"):
        for i in range(9):
            with T.sblock("row"):
                n = T.alloc_buffer((1,), "int32")
                n[0] = 40
                while n[0] > 0:
                    n[0] = n[0] - 1
                    B[i, n[0]] = A[i, n[0]] * T.float32(0.5)


@T.prim_func
def one_counter(A: T.Buffer((9, 40), "float32"), B: T.Buffer((9, 40), "float32")):
    n = T.alloc_buffer((1,), "int32")
    for i in range(9):
        n[0] = 40
        while n[0] > 0:
            n[0] = n[0] - 1
            B[i, n[0]] = A[i, n[0]] * T.float32(0.5)


@pytest.mark.parametrize(
    ("func", "shared"),
    [
        (halved, "i"),
        (one_counter, ""),
        (running, "i"),
        (inner, "j"),
        (chained, ""),
        (scattered, ""),
        (failing, ""),
    ],
)
def test_what_is_shared(func: PrimFunc, shared: str):
    made = scheduled(func, tasks=True)
    said = [c for plan in made.plans for c in plan.choices]
    assert said == ([f"threads share the iterations of {shared}"] if shared else [])
    if shared:
        arrays = [np.array(RANDOM.standard_normal((9, 40)), "float32") for _ in range(2)]
        agrees(func, arrays, rtol=0, always=False)


@T.prim_func
def columns_outside(
    ptr: T.Buffer((6,), "int32"),
    col: T.Buffer((14,), "int32"),
    val: T.Buffer((14,), "float32"),
    x: T.Buffer((7, 45), "float32"),
    y: T.Buffer((5, 45), "float32"),
):
    for i, j in T.grid(5, 45):
        y[i, j] = 0.5
        for k in range(ptr[i], ptr[i + 1]):
            y[i, j] += val[k] * x[col[k], j]


@T.prim_func
def columns_in_a_local(
    ptr: T.Buffer((6,), "int32"),
    x: T.Buffer((14, 11), "float64"),
    y: T.Buffer((5, 11), "float64"),
):
    for i, j in T.grid(5, 11):
        acc = T.float64(1)
        for k in range(ptr[i], ptr[i + 1]):
            acc = acc * x[k, j] + 0.5
        y[i, j] = acc


def test_lanes_combine_the_terms_of_columns():
    ptr = np.array([0, 3, 3, 9, 8, 14], "int32")
    col, val = RANDOM.integers(0, 7, 14).astype("int32"), RANDOM.random(14).astype("float32")
    wide = [ptr, col, val, RANDOM.random((7, 45)).astype("float32"), np.zeros((5, 45), "float32")]
    own = [ptr, RANDOM.random((14, 11)), np.zeros((5, 11))]
    for func, arrays in ((columns_outside, wide), (columns_in_a_local, own)):
        (plan,) = scheduled(func, tasks=True).plans
        assert any("innermost loops in vectors" in choice for choice in plan.choices)
        agrees(func, arrays, rtol=0, always=False)


def test_loops_that_may_end_before_they_begin_run_in_vectors():
    func = read_function(
        'x: T.Buffer((20, 20), "float32"), o: T.Buffer((20, 20), "float32")',
        """
for i in range(20):
    for j in range(i - 5):
        o[i, j] = o[i, j] + x[i, j]
""",
    )
    assert interpret_kinds(func, draw(func)) == []
    assert "T.vectorized" in scheduled(func, tasks=True, target="haswell").func.script()
