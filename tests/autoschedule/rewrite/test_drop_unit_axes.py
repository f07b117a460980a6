"""Arrays whose last dimensions have one element are planned as if these were not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(3)
TARGETS = ("native", "haswell")


def matmul(left: tuple[Any, ...], right: tuple[Any, ...], **options: Any) -> PrimFunc:
    dtype = options.pop("dtype", "float32")
    a, b = te.placeholder(left, dtype, name="A"), te.placeholder(right, dtype, name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b, **options)])


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    return [RANDOM.integers(-9, 9, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("left", "right", "dtype", "kind"),
    [
        ((300, 65), (65, 1), "float32", "matrix product of few rows"),
        ((2, 260, 67), (2, 67, 1), "float64", "matrix product of few rows"),
        ((31, 65), (65, 1), "int32", "rows"),
        ((1, 1), (1, 1), "float32", None),
    ],
)
def test_a_column_is_a_vector(
    left: tuple[int, ...], right: tuple[int, ...], dtype: str, kind: str | None
) -> None:
    func = matmul(left, right, dtype=dtype)
    a, b, out = arrays(left, right, (*left[:-1], 1), dtype=dtype)
    for target in TARGETS:
        made = scheduled(func, target=target)
        assert kind is None or [plan.kind for plan in made.plans] == [kind]
        assert not loomir.verify(made.func)
        loomir.compile(made.func, target)(a, b, out)
        # Products of small integers are exact, so that any order of the sum gives the same.
        np.testing.assert_array_equal(out, a @ b)


def test_a_transposed_matrix_times_a_column() -> None:
    func = matmul((37, 19), (37, 1), transpose_a=True)
    agrees(func, arrays((37, 19), (37, 1), (19, 1)), rtol=0, targets=TARGETS)


def test_sizes_known_when_it_runs() -> None:
    m, k = te.var("m"), te.var("k")
    func = matmul((m, k), (k, 1))
    run = loomir.compile(func)
    for rows, steps in ((0, 5), (1, 1), (3, 0), (7, 131)):
        a, b = arrays((rows, steps), (steps, 1))
        out = np.full((rows, 1), 7, "float32")
        wanted = out.copy()
        loomir.interpret(func, "main", a, b, wanted)
        run(a, b, out)
        np.testing.assert_array_equal(out, wanted)


def test_what_lives_between_two_stages() -> None:
    a = te.placeholder((9, 33), name="A")
    k = te.reduce_axis((0, 33), name="k")
    total = te.compute((9, 1, 1), lambda i, *_: te.sum(a[i, k], axis=k), name="total")
    out = te.compute((9, 33), lambda i, j: a[i, j] - total[i, 0, 0], name="out")
    agrees(te.create_prim_func([a, out]), arrays((9, 33), (9, 33)), rtol=0, targets=TARGETS)


@T.prim_func
def looked_up(
    index: T.Buffer((5, 1), "int32"),
    table: T.Buffer((7, 1), "float32"),
    out: T.Buffer((5, 1), "float32"),
) -> None:
    for i in range(5):
        with T.block("double"):
            v = T.axis.spatial(5, i)
            table[v, 0] = table[v, 0] * T.float32(2)
    for i in range(5):
        while out[i, 0] < T.float32(3):
            out[i, 0] = out[i, 0] + table[index[i, 0], 0]


def test_arrays_of_loops_that_are_no_stages_keep_their_shape() -> None:
    index = np.array([[1], [0], [6], [2], [2]], "int32")
    table, out = np.arange(1, 8, dtype="float32")[:, None], np.zeros((5, 1), "float32")
    agrees(looked_up, [index, table, out], rtol=0)


def test_constants_are_packed_by_their_new_shape() -> None:
    a = te.placeholder((20, 80), name="A")
    w = te.placeholder((80, 70, 1), name="w")
    k = te.reduce_axis((0, 80), name="k")
    out = te.compute((20, 70), lambda i, j: te.sum(a[i, k] * w[k, j, 0], axis=k))
    func = te.create_prim_func([a, w, out])
    x, weights = arrays((20, 80), (80, 70, 1))
    result = np.empty((20, 70), "float32")
    loomir.compile(func, constants={"w": weights})(x, result)
    np.testing.assert_array_equal(result, x @ weights[:, :, 0])
