"""Operators whose results are as large as contents say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16
from tests.tir.refusal import refused

GIVEN: list[Any] = [
    np.array([[0, 3, 0], [5, 0, -1]], "int8"),
    np.array([True, False, True]),
    np.array([np.nan, -0.0, 1e-30], "float32"),
    np.array(2.5, "float16"),
    np.zeros((0, 3), "float64"),
    np.array([[[1, 0], [0, 2]]]).astype(BFLOAT16),
]


@pytest.mark.parametrize("x", GIVEN, ids=lambda x: f"{x.dtype}{x.shape}")
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
def test_places_of_what_is_not_zero(x: Any, symbolic: bool):
    places = np.ascontiguousarray(np.argwhere(x.astype("float64") != 0).T)
    count = places.shape[1]
    cases: list[Any] = [
        (topi.count_nonzero, np.array([count])),
        (lambda a: topi.nonzero(a, count), places),
    ]
    check_both([x], cases, symbolic=symbolic)


ROWS: list[Any] = [
    np.array([[1, 2], [0, 9], [1, 2], [1, 1], [0, 9]], "int32"),
    np.array([[np.nan, 0.0], [1.0, np.nan], [np.nan, -0.0], [1.0, np.nan]], "float32"),
    np.zeros((3, 0), "int8"),
    np.zeros((0, 2), "float16"),
    np.array([[True], [False], [True]]),
    np.array([[2], [1], [2]]).astype(BFLOAT16),
]


def groups_of(x: Any) -> tuple[Any, ...]:
    """Sort and number rows in Python."""
    keys = [tuple((v != v, 0.0 if v != v else float(v)) for v in row) for row in x.tolist()]
    order = sorted(range(len(keys)), key=lambda i: (keys[i], i))
    distinct = sorted(set(keys))
    numbers = [distinct.index(k) for k in keys]
    first = [numbers.index(g) for g in range(len(distinct))]
    sizes = [numbers.count(g) for g in range(len(distinct))]
    group = [numbers[i] for i in order]
    return tuple(
        np.array(v, "int64") for v in (order, group, [len(distinct)], first, numbers, sizes)
    )


@pytest.mark.parametrize("x", ROWS, ids=lambda x: f"{x.dtype}{x.shape}")
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
def test_groups_of_rows(x: Any, symbolic: bool):
    order, group, count, first, numbers, sizes = groups_of(x)

    def distinct(a: te.Tensor) -> Any:
        made = topi.group_rows(a)
        return topi.distinct_rows(made[0], made[1], int(count[0]))

    cases: list[Any] = [
        (topi.group_rows, (order, group, count)),
        (distinct, (first, numbers, sizes)),
    ]
    check_both([x], cases, symbolic=symbolic)


def test_many_rows_are_sorted_in_time():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (20_000, 3)).astype("int32")
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), "int32", "a")
    order, group, count = topi.group_rows(a)
    run = loomir.compile(te.create_prim_func([a, order, group, count]))
    results = [np.empty(len(x), "int64"), np.empty(len(x), "int64"), np.empty(1, "int64")]
    run(x, *results)
    values, numbers = np.unique(x, axis=0, return_inverse=True)
    assert results[2][0] == len(values)
    np.testing.assert_array_equal(results[1], numbers.reshape(-1)[results[0]])


def test_mistakes():
    with refused("TE0104", "group_rows", "matrix"):
        topi.group_rows(te.placeholder((2,), "int32", "x"))
