"""When rows of a product are copied, and when they are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.target import Target
from loomir.te import topi
from tests.autoschedule.rules.matmul.test_blocked_product import check, planned, product

WIDE = "x86-64-v4"


def choices(func: Any, target: str = WIDE) -> str:
    plan = planned(func, target)
    assert plan is not None
    return "; ".join(plan.choices)


@pytest.mark.parametrize(("m", "n", "k"), [(5, 67, 1), (1, 130, 2), (33, 64, 3), (7, 261, 4)])
@pytest.mark.parametrize("left", ["mk", "km"])
def test_few_steps_are_written_row_by_row(m: int, n: int, k: int, left: str):
    func = product(m, n, k, left=left)
    assert "tile of 1 x 64" in choices(func)
    assert "left factor read where it is" in choices(func)
    check(func, lambda a, b: (a if left == "mk" else a.T) @ b, interpreted=True)


def test_few_steps_of_any_number_of_rows_with_an_epilogue():
    rows = te.var("rows")

    func = product(rows, 100, 2, right="nk", after=lambda c: [topi.relu(c)])
    assert "tile of 1 x 64" in choices(func)

    for count in (0, 1, 50):
        check(func, lambda a, b: np.maximum(a @ b.T, 0), rows=count)
    check(product(rows, 100, 3, dtype="float64"), lambda a, b: a @ b, rows=13)


@pytest.mark.parametrize("dtype", ["float16", "int32", "int8"])
def test_few_steps_of_other_dtypes(dtype: str):
    out = "int32" if dtype == "int8" else dtype
    check(product(9, 150, 3, dtype=dtype, out=out), lambda a, b: a @ b, tolerance=2e-3)


def test_few_steps_keep_special_values():
    a, b = te.placeholder((3, 1), name="A"), te.placeholder((1, 80), name="B")
    run = loomir.compile(te.create_prim_func([a, b, topi.matmul(a, b)]), Target("haswell"))
    x = np.array([[np.inf], [np.nan], [-1.0]], "float32")
    y = np.zeros((1, 80), "float32")
    y[0, 1], y[0, 79] = 2.0, np.inf
    found = np.ones((3, 80), "float32")
    run(x, y, found)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, x * y)
    assert not np.signbit(found[2, 0])  # 0 + -1 * 0


@pytest.mark.parametrize("sizes", [(17, 17, 300), (16, 31, 257), (29, 40, 600), (1, 65, 300)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_lie_side_by_side_and_close_are_not_copied(
    sizes: tuple[int, int, int], dtype: str
):
    func = product(*sizes, left="km", dtype=dtype)
    if dtype == "float32":
        assert "left factor read where it is" in choices(func)
    check(func, lambda a, b: a.T @ b)


def test_rows_that_are_converted_are_converted_once():
    func = product(50, 300, 40, dtype="float16", out="float32")
    assert "left factor packed" in choices(func)
    check(func, lambda a, b: a @ b)
    transposed = product(19, 200, 33, left="km", right="nk", dtype="float16", out="float32")
    check(transposed, lambda a, b: a.T @ b.T, interpreted=True)
    few = product(50, 30, 40, dtype="float16", out="float32")
    assert "left factor read where it is" in choices(few)


def test_any_number_of_converted_rows():
    rows, columns = te.var("rows"), te.var("columns")
    func = product(rows, columns, 37, dtype="float16", out="float32")
    for m, n in ((1, 1), (11, 70), (70, 11)):
        check(func, lambda a, b: a @ b, targets=("native",), rows=m, columns=n)
