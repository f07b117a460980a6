"""What each iteration of a loop does is scheduled, where the loop itself runs in order."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.rules.loops import sequential_outer
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential_outer, "_LEAST", 0.0)


@T.prim_func
def relaxed(A: T.Buffer((19, 23), "float32"), B: T.Buffer((19, 23), "float32")):
    for _t in range(3):
        for i, j in T.grid(17, 21):
            B[i + 1, j + 1] = (A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j]) * T.float32(0.25)
        for i, j in T.grid(17, 21):
            A[i + 1, j + 1] = B[i + 1, j + 1]


@T.prim_func
def factored(A: T.Buffer((37, 37), "float32")):
    for k in range(37):
        for i in range(36 - k):
            A[k + 1 + i, k] = A[k + 1 + i, k] / (A[k, k] + T.float32(50))
        for i, j in T.grid(36 - k, 36 - k):
            A[k + 1 + i, k + 1 + j] = A[k + 1 + i, k + 1 + j] - A[k + 1 + i, k] * A[k, k + 1 + j]


@T.prim_func
def shrinking(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for t in range(9):
        for i in range(20 - 5 * t):
            B[i] = B[i] + A[i] * T.float32(2)
        B[0] = B[39] + B[0]


@T.prim_func
def stopped(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for _t in range(9):
        for i in range(40):
            B[i] = B[i] + A[i]
        if B[0] > T.float32(3):
            T.evaluate(T.break_loop())
        for i in range(40):
            B[i] = B[i] * B[i]


@T.prim_func
def deep(A: T.Buffer((4, 5, 30), "float32"), B: T.Buffer((30,), "float32")):
    for s in range(4):
        B[s] = B[s + 1]
        for t in range(5):
            for i in range(30):
                B[i] = B[i] + A[s, t, i]
            B[3] = B[4]


@T.prim_func
def symbolic(a: T.handle, b: T.handle, steps: T.int32):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for _t in range(steps):
        for i in range(n):
            B[i] = A[i] + T.float32(1)
        for i in range(n):
            A[i] = B[i] * T.float32(0.5)


CASES: dict[str, tuple[PrimFunc, list[tuple[int, ...]], bool]] = {
    "relaxed": (relaxed, [(19, 23), (19, 23)], True),
    "factored": (factored, [(37, 37)], True),
    "shrinking": (shrinking, [(40,), (40,)], False),
    "stopped": (stopped, [(40,), (40,)], True),
    "deep": (deep, [(4, 5, 30), (30,)], True),
}


@pytest.mark.parametrize("name", CASES)
def test_each_iteration_is_scheduled(name: str):
    func, shapes, taken = CASES[name]
    made = scheduled(func, tasks=True)
    said = [plan for plan in made.plans if plan.repeats]
    assert bool(said) == taken
    arrays = [np.array(RANDOM.standard_normal(shape), "float32") for shape in shapes]
    if taken:
        agrees(func, arrays, rtol=0, always=False, targets=("native", "haswell"))


@pytest.mark.parametrize("size", [0, 1, 70])
@pytest.mark.parametrize("steps", [0, 3])
def test_sizes_and_steps_that_are_given(size: int, steps: int):
    made = scheduled(symbolic, tasks=True)
    assert [plan.kind for plan in made.plans] == ["element-wise", "element-wise"]
    arrays = [np.array(RANDOM.standard_normal(size), "float32") for _ in range(2)]
    agrees(symbolic, [*arrays, np.int32(steps)], rtol=0)  # type: ignore[list-item]


def test_little_work_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sequential_outer, "_LEAST", 1_000.0)
    assert not scheduled(deep).plans


@T.prim_func
def scaled(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i in range(64):
        B[i, 0] = A[i, 0]
        for _k in range(7):
            for j in range(61):
                B[i, j + 1] = B[i, j + 1] * B[i, 0] + A[i, j]


@T.prim_func
def within(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i in range(64):
        B[i, 0] = A[i, 0]
        for _k in range(7):
            for j in range(61):
                B[i, j] = B[i, j] * B[i, 30] + A[i, j]


@pytest.mark.parametrize(("func", "lanes"), [(scaled, True), (within, False)])
def test_innermost_loops_of_tasks_are_vectors(func: PrimFunc, lanes: bool):
    made = scheduled(func, tasks=True)
    (plan,) = made.plans
    assert plan.kind == "loops as written"
    assert ("T.vectorized" in made.func.script()) == lanes
    arrays = [np.array(RANDOM.standard_normal((64, 64)), "float32") for _ in range(2)]
    agrees(func, arrays, rtol=0, always=False, targets=("native", "haswell"))


@T.prim_func
def backward(A: T.Buffer((64,), "float32"), B: T.Buffer((64, 64), "float32")):
    kept = T.alloc_buffer((64,), "float32")
    for j in range(64):
        kept[j] = A[j]
    for i in range(64):
        for j in range(2, 1):
            kept[j] = A[i]
        for j in range(64):
            B[i, j] = kept[j] * A[i]


@T.prim_func
def nothing(A: T.Buffer((16, 40), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(2, 1):
        for k in range(40):
            B[i] = B[i] + A[i, k]
    for i in range(16):
        B[i] = B[i] + A[i, 0]


@T.prim_func
def nothing_symbolic(a: T.handle, x: T.handle, B: T.Buffer((16,), "int32")):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (16, n, m), "int32")
    X = T.match_buffer(x, (n,), "int32")
    for i in range(16):
        for j in range(3, n):
            B[i] = B[i] * A[i, j, 0] * X[j]
    for j in range(3, n):
        for k in range(5, m):
            A[0, j, k] = X[j]
    for i in range(16):
        for j in range(3, n):
            for k in range(5, m):
                B[i] = B[i] + A[i, j, k] * X[j]


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 1), (2, 40), (3, 5), (70, 1), (20, 9)])
def test_sizes_may_leave_no_iterations(n: int, m: int):
    arrays = [RANDOM.integers(-9, 9, s).astype("int32") for s in ((16, n, m), (n,), (16,))]
    if m == 0:
        arrays[0] = np.zeros((16, n, 1), "int32")
    agrees(nothing_symbolic, arrays, always=False, targets=("native", "haswell"))


@pytest.mark.parametrize("tasks", [False, True])
def test_rows_that_end_before_they_begin_are_none(tasks: bool):
    arrays = [np.array(RANDOM.standard_normal(s), "float32") for s in ((16, 40), (16,))]
    assert not loomir.verify(scheduled(nothing, tasks=tasks).func)
    agrees(nothing, arrays, rtol=0, always=False, targets=("native", "haswell"))


def test_a_loop_that_ends_before_it_begins_has_no_iterations():
    arrays = [np.array(RANDOM.standard_normal(s), "float32") for s in ((64,), (64, 64))]
    agrees(backward, arrays, rtol=0, always=False, targets=("native", "haswell"))
