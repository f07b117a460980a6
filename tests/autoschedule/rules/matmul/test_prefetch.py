"""Products that ask the caches for what comes next, and those that write long rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.rules.matmul import blocked_product, blocking
from loomir.autoschedule.rules.matmul.tile_sizes import choose_tiles
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from tests.autoschedule.rules.matmul.test_blocked_product import check, planned, product, scheduled


@pytest.mark.parametrize(("left", "right"), [("mk", "nk"), ("km", "kn")])
def test_addresses_that_are_asked_for_lie_inside(
    left: str, right: str, monkeypatch: pytest.MonkeyPatch
):
    def some_panels(*sizes: Any, **how: Any) -> Any:
        return replace(choose_tiles(*sizes, **how), depth=40)

    monkeypatch.setattr(blocking, "choose_tiles", some_panels)
    monkeypatch.setattr(blocked_product.BlockedProduct, "exceeds_cache", True)
    func = product(49, 13, 75, left=left, right=right)
    asked = 1 + (right == "nk")  # for the result, and for columns that are packed
    assert scheduled(func, "haswell").script().count("T.prefetch") == asked
    turns = left == "km", right == "nk"

    def expected(a: Any, b: Any) -> Any:
        return (a.T if turns[0] else a) @ (b.T if turns[1] else b)

    # The interpreter refuses addresses of elements that there are not.
    check(func, expected, interpreted=True, targets=("haswell",))


def test_what_is_stored_last_is_asked_for():
    a, b = te.placeholder((500, 900), name="A"), te.placeholder((900, 70), name="B")
    func = te.create_prim_func([a, b, topi.relu(topi.matmul(a, b))])
    assert "T.prefetch(T.address_of(relu[" in scheduled(func, "x86-64-v4").script()


@pytest.mark.parametrize("sizes", [(13, 50, 5), (1, 97, 1)])
def test_shallow_products_write_long_rows(sizes: tuple[int, int, int]):
    check(product(*sizes), lambda a, b: a @ b, interpreted=True)
    check(product(*sizes, right="nk"), lambda a, b: a @ b.T)


def test_blocks_of_shallow_products_are_wide():
    plan = planned(product(512, 4096, 8), "x86-64-v4")
    assert plan is not None
    assert "x 86 tiles" in plan.choices[-1]  # of 48 columns


def test_rows_for_few_strips_are_read_where_they_are():
    plan = planned(product(300, 32, 1000), "x86-64-v4")
    assert plan is not None
    assert "left factor read where it is" in plan.choices[1]
    check(product(37, 20, 700), lambda a, b: a @ b)


def test_special_values_are_those_of_each_row():
    func = product(40, 70, 9)
    a = np.ones((40, 9), "float32")
    b = np.ones((9, 70), "float32")
    a[3, 2], a[17, 0], b[8, 69] = np.nan, np.inf, -np.inf
    found = np.zeros((40, 70), "float32")
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    for target in ("native", "haswell"):
        loomir.compile(func, Target(target))(a, b, found)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sizes", [(97, 3, 133), (70, 17, 140), (128, 1, 128)])
def test_few_columns_take_the_place_of_rows_that_lie_side_by_side(sizes: tuple[int, int, int]):
    func = product(*sizes, left="km")
    if sizes[1] > 1:
        plan = planned(func, "x86-64-v4")
        assert plan is not None
        assert "right factor read where it is" in plan.choices[1]
    check(func, lambda a, b: a.T @ b)
    check(product(*sizes, left="km", right="nk"), lambda a, b: a.T @ b.T)


def test_few_columns_end_as_many_do():
    a, b = te.placeholder((130, 29), name="A"), te.placeholder((130, 5), name="B")
    bias = te.placeholder((5,), name="bias")
    summed = topi.matmul(a, b, transpose_a=True)
    func = te.create_prim_func([a, b, bias, topi.relu(topi.add(summed, bias))])
    check(func, lambda a, b, c: np.maximum(a.T @ b + c, 0), interpreted=True)


@T.prim_func
def unused_product(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, n), "float32")
    B = T.match_buffer(b, (n, n), "float32")
    C = T.match_buffer(c, (n, n), "float32")
    for i, j in T.grid(n, n):
        total = T.float32(0)
        for k in range(n):
            total = total + A[i, k] * B[k, j]
        C[i, j] = A[i, j]


def test_a_product_that_nobody_reads_has_no_result_to_prefetch():
    a, b, c = (np.full((33, 33), value, "float32") for value in (1, 2, 3))
    loomir.compile(unused_product)(a, b, c)
    np.testing.assert_array_equal(c, a)
