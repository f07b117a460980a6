"""Sums of varying lengths: two iterations advance together, each in order."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.script import from_source
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(31)
JAMMED = "sums of two iterations advance together"


@T.prim_func
def in_a_local(
    ptr: T.Buffer((8,), "int32"),
    col: T.Buffer((112,), "int32"),
    val: T.Buffer((112,), "float32"),
    x: T.Buffer((9,), "float32"),
    y: T.Buffer((7,), "float32"),
):
    for i in range(7):
        acc = T.float32(0)
        for k in range(ptr[i], ptr[i + 1]):
            acc += val[k] * x[col[k]]
        y[i] = acc


@T.prim_func
def at_wide_indices(
    ptr: T.Buffer((8,), "int32"),
    col: T.Buffer((112,), "int32"),
    val: T.Buffer((112,), "float32"),
    x: T.Buffer((9,), "float32"),
    y: T.Buffer((7,), "float32"),
):
    for i in range(7):
        acc = T.float32(0)
        for k in range(ptr[i], ptr[i + 1]):
            acc += val[T.int64(k)] * x[col[T.int64(k)]]
        y[i] = acc


@T.prim_func
def into_a_result(
    ptr: T.Buffer((8,), "int64"),
    col: T.Buffer((112,), "int64"),
    val: T.Buffer((112,), "float64"),
    x: T.Buffer((9,), "float64"),
    y: T.Buffer((7,), "float64"),
):
    for i in range(7):
        y[i] = 0.5
        for k in range(ptr[i + 1] - ptr[i]):
            y[i] -= val[ptr[i] + k] * x[col[ptr[i] + k]]
        y[i] = y[i] * 2.0


@T.prim_func
def in_a_block(
    ptr: T.Buffer((8,), "int32"),
    col: T.Buffer((112,), "int32"),
    val: T.Buffer((112,), "float32"),
    x: T.Buffer((9,), "float32"),
    y: T.Buffer((7,), "float32"),
):
    for i in range(7):
        y[i] = 0.0
        for k in range(ptr[i + 1] - ptr[i]):
            with T.sblock("sum"):
                vi = T.axis.spatial(7, i)
                vk = T.axis.reduce(ptr[i + 1] - ptr[i], k)
                y[vi] = y[vi] + val[ptr[vi] + vk] * x[col[ptr[vi] + vk]]


@T.prim_func
def one_reads_another(
    ptr: T.Buffer((8,), "int32"),
    col: T.Buffer((112,), "int32"),
    val: T.Buffer((112,), "float32"),
    y: T.Buffer((9,), "float32"),
):
    for i in range(7):
        acc = T.float32(0)
        for k in range(ptr[i], ptr[i + 1]):
            acc += val[k] * y[col[k]]
        y[i] = acc


@T.prim_func
def of_any_size(
    ptr: T.Buffer(("m",), "int32"),
    col: T.Buffer(("e",), "int32"),
    val: T.Buffer(("e",), "float32"),
    x: T.Buffer((9,), "float32"),
    y: T.Buffer(("n",), "float32"),
):
    for i in range(n - 1):  # noqa: F821
        acc = T.float32(0)
        for k in range(ptr[i], ptr[i + 1]):
            acc += val[k] * x[col[k]]
        y[i] = acc


@T.prim_func
def over_its_extent(ends: T.Buffer((8,), "int32"), val: T.Buffer((112,), "float32")):
    for i in range(T.min(ends[0], 7)):
        acc = T.float32(0)
        for k in range(ends[i]):
            acc += val[k]
        ends[i] = T.Cast("int32", acc)


def sparse(index: str, dtype: str) -> list[np.ndarray]:
    """Draw seven rows, the fourth of which ends before it begins."""
    ptr = np.array([0, 3, 3, 12, 11, 16, 23, 24], index)
    val = RANDOM.standard_normal(112).astype(dtype)
    x = RANDOM.standard_normal(9).astype(dtype)
    return [ptr, RANDOM.integers(0, 9, 112).astype(index), val, x, np.zeros(7, dtype)]


@pytest.mark.parametrize(
    ("func", "index", "dtype"),
    [
        (in_a_local, "int32", "float32"),
        (at_wide_indices, "int32", "float32"),
        (into_a_result, "int64", "float64"),
        (in_a_block, "int32", "float32"),
    ],
)
def test_rows_keep_their_order(func: PrimFunc, index: str, dtype: str):
    (plan,) = scheduled(func, tasks=True).plans
    assert JAMMED in plan.choices
    agrees(func, sparse(index, dtype), rtol=0, always=False)


@pytest.mark.parametrize("func", [one_reads_another, over_its_extent])
def test_rows_that_depend_on_one_another_stay(func: PrimFunc):
    made = scheduled(func, tasks=True)
    assert not any(JAMMED in plan.choices for plan in made.plans)


@pytest.mark.parametrize("most", [6, 60])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 90, 131])
def test_rows_of_any_number(rows: int, most: int):
    """Which loop runs, that of short rows or that of long ones, is known in the call."""
    (plan,) = scheduled(of_any_size).plans
    assert JAMMED in plan.choices
    ptr = np.concatenate([[0], np.cumsum(RANDOM.integers(0, most, rows))]).astype("int32")
    col = RANDOM.integers(0, 9, ptr[-1]).astype("int32")
    val = RANDOM.standard_normal(len(col)).astype("float32")
    x, y = RANDOM.standard_normal(9).astype("float32"), np.zeros(rows, "float32")
    agrees(of_any_size, [ptr, col, val, x, y], rtol=0)


@T.prim_func
def short(
    ptr: T.Buffer((101,), "int32"),
    col: T.Buffer((500,), "int32"),
    val: T.Buffer((500,), "float32"),
    x: T.Buffer((9,), "float32"),
    y: T.Buffer((100,), "float32"),
):
    for i in range(100):
        acc = T.float32(0)
        for k in range(ptr[i], ptr[i + 1]):
            acc += val[k] * x[col[k]]
        y[i] = acc


def test_short_rows_run_one_by_one():
    made = scheduled(short, tasks=True)
    assert not any(JAMMED in plan.choices for plan in made.plans)


@pytest.mark.parametrize("bounds", ["2, 1", "1, 0", "5, 1", "3, 3", "9, 0", "2, 3"])
def test_no_row_of_an_empty_range_is_summed(bounds: str):
    func = from_source(f"""
@T.prim_func
def f(x: T.Buffer((9, 9), "float32"), y: T.Buffer((9,), "float32")):
    for i in range(9):
        total = T.float32(0)
        for k in range({bounds}):
            for j in range(i):
                total += x[i, j] * T.float32(k + 20)
        y[i] = total
""")
    assert isinstance(func, PrimFunc)
    x = RANDOM.integers(1, 9, (9, 9)).astype("float32")
    agrees(func, [x, np.ones(9, "float32")], rtol=0, always=False)
