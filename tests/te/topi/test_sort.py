"""Sorting along axes."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def order_of(x: Any, axis: Any, descending: Any, greatest: bool = False):
    """Sort the indices of each row by comparing, stably."""

    def order(values: Any):
        def compare(i: Any, j: Any):
            a, b = values[i], values[j]
            if a != a or b != b:
                sign = int(a != a) - int(b != b)
                return -sign if descending and greatest else sign
            sign = int(a > b) - int(a < b)
            return -sign if descending else sign

        return np.array(sorted(range(len(values)), key=cmp_to_key(compare)), "int64")

    if not x.size:
        return np.zeros(x.shape, "int64")
    plain = x.astype("float64") if x.dtype.kind in "fV" else x
    return np.apply_along_axis(order, axis, plain)


def cases(x: Any, axes: Any):
    made = []
    for axis in axes:
        for down in (False, True):
            order = order_of(x, axis, down)
            made.append((lambda a, i=axis, d=down: topi.sort(a, i, d), np.take_along_axis(x, order, axis)))  # fmt: skip
            made.append((lambda a, i=axis, d=down: topi.argsort(a, i, d), order))
            k = (x.shape[axis] + 1) // 2
            order = order_of(x, axis, down, True).take(range(k), axis)
            expected = (np.take_along_axis(x, order, axis), order.astype("int32"))
            made.append((lambda a, i=axis, d=down, k=k: topi.topk(a, k, i, d, "int32"), expected))
    return made


@pytest.mark.parametrize(
    "dtype",
    ["float16", BFLOAT16, "float32", "float64", "int8", "uint8", "int64", "uint64", "bool"],
    ids=str,
)
def test_dtypes(dtype: Any):
    x = np.array([[3, 1, 2, 1, 0, 3, 7], [0, 0, 1, 5, 5, 1, 0], [9, 8, 7, 6, 5, 4, 100]])
    x = x.astype(dtype)
    if x.dtype.kind in "iu":
        x[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    check_both([x], cases(x, [-1]))


SPECIALS = [np.nan, 1.0, np.inf, -np.inf, 0.0, -0.0, np.nan, -1.0, 0.0, np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_special_values(dtype: str):
    x = np.array(SPECIALS, dtype)
    check_both([x], cases(x, [0]))
    np.testing.assert_array_equal(order_of(x, 0, False), np.argsort(x, kind="stable"))
    first = order_of(x, 0, True, greatest=True)
    assert list(first[:3]) == [0, 6, 10]
    check_both(
        [x],
        [
            (lambda a: topi.argsort(a, 0, True, nan="greatest"), first),
            (lambda a: topi.sort(a, 0, True, nan="greatest"), x[first]),
            (lambda a: topi.topk(a, 2, nan="last"), (x[[2, 9]], np.array([2, 9]))),
        ],
    )


def test_zeros_stay_in_order():
    x = np.array([0.0, -0.0, 0.0, -0.0], "float32")
    check([x], [(lambda a, d=d: topi.argsort(a, -1, d), np.arange(4)) for d in (False, True)])


@pytest.mark.parametrize("shape", [(1,), (0,), (2, 3, 4), (2, 0), (0, 3), (1, 5, 1)])
def test_shapes(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("int32")
    check([x], cases(x, range(-1, len(shape))))


@pytest.mark.parametrize("size", [2, 3, 8, 63, 64, 65, 1000])
def test_many(size: int):
    x = np.random.default_rng(size).integers(0, size // 2 + 1, size).astype("float32")
    check([x], cases(x, [0]))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("k", [65, 99, 131])
def test_more_than_few_of_many(dtype: str, k: int):
    x = (np.random.default_rng(k).standard_normal((131, 2)) * 40).astype(dtype)
    if dtype == "float32":
        x[::9, 0], x[5:9], x[9:12] = np.nan, 0.0, -0.0
    made = []
    for down in (False, True):
        order = order_of(x, 0, down, True).take(range(k), 0)
        expected = (np.take_along_axis(x, order, 0), order)
        made.append((lambda a, d=down: topi.topk(a, k, 0, d), expected))
    (check_both if k == 99 else check)([x], made, symbolic=k == 131)


def test_equal_keys_and_one_key():
    x = np.zeros((2, 200), "float64")
    x[1] = np.nan
    check([x], cases(x, [1]))


@pytest.mark.parametrize("cpu", ["native", "haswell", "x86-64"])
def test_rows_are_shared_between_threads(cpu: str):
    target = loomir.Target(cpu) if cpu != "native" else loomir.Target()
    for shape, axis in (((100, 1001), 1), ((1001, 100), 0)):
        for take in (lambda a, i=axis: topi.argsort(a, i), lambda a, i=axis: topi.topk(a, 7, i)[1]):
            x = te.placeholder(shape, name="x")
            func = te.create_prim_func([x, take(x)])
            plan = schedule_function(func, target).plans[0]
            assert plan.kind == "loops as written"
            assert plan.choices[0].startswith("threads share")


def test_other_targets():
    x = np.random.default_rng(3).standard_normal((3, 300)).astype("float32")
    order, out = order_of(x, 1, True), np.zeros((3, 300), "int64")
    a = te.placeholder(x.shape, name="a")
    func = te.create_prim_func([a, topi.argsort(a, 1, True)])
    loomir.compile(func, target=loomir.Target("haswell"))(x, out)
    np.testing.assert_array_equal(out, order)


@pytest.mark.parametrize("shape", [(3, 9), (0, 4), (4, 1)])
def test_symbolic_shapes(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("float32")
    check([x], [c for i in (0, 1) for c in cases(x, [i])[:2]], symbolic=True)


def test_symbolic_shapes_interpreted():
    x = np.array([[2, 1, 3], [0, 0, -1]], "int32")
    check_both([x], cases(x, [1])[:2], symbolic=True)


def test_mistakes():
    x = te.placeholder((3,), name="x")
    with refused("TE0102", "axis 1", "test_sort.py"):
        topi.sort(x, 1)
    with refused("TE0102", "no axes"):
        topi.argsort(te.placeholder((), name="y"))
    with refused("TE0104", "k is 4 for an axis of 3", "test_sort.py"):
        topi.topk(x, 4)
    with refused("TE0104", "k is -1"):
        topi.topk(x, -1)
    with refused("TE0104", "float32"):
        topi.argsort(x, dtype="float32")
    with refused("TE0104", "'first'"):
        topi.sort(x, nan="first")
