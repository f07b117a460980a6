"""Combinations of all pairs of rows, such as distances, lie in lanes of neighbouring results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.target import Target
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees

TERMS: dict[str, Callable[[Any, Any], Any]] = {
    "squares": lambda a, b: (a - b) * (a - b),
    "absolute": lambda a, b: te.abs(a - b),
    "greatest": te.max,
}


def distances(n: int, m: int, d: int, term: str) -> PrimFunc:
    x, y = te.placeholder((n, d), name="x"), te.placeholder((m, d), name="y")
    k = te.reduce_axis((0, d), name="k")
    if term == "greatest":
        made = te.compute((n, m), lambda i, j: te.max(te.abs(x[i, k] - y[j, k]), axis=k))
    else:
        made = te.compute((n, m), lambda i, j: te.sum(TERMS[term](x[i, k], y[j, k]), axis=k))
    return te.create_prim_func([x, y, made])


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(("n", "m", "d"), [(9, 33, 3), (10, 40, 20), (17, 16, 64)])
def test_distances(term: str, n: int, m: int, d: int):
    random = np.random.default_rng(0)
    func = distances(n, m, d, term)
    given = [random.standard_normal(s).astype("float32") for s in ((n, d), (m, d))]
    agrees(func, [*given, np.zeros((n, m), "float32")], targets=("native", "haswell"), rtol=1e-4)
    (plan,) = schedule_function(func, Target("haswell")).plans
    assert plan.choices[-1] == "what is read across it is transposed once, before"


def test_sums_of_rows_stay_sums_of_rows():
    x, k = te.placeholder((10, 20, 64), name="x"), te.reduce_axis((0, 64), name="k")
    func = te.create_prim_func([x, te.compute((10, 20), lambda i, j: te.sum(x[i, j, k], axis=k))])
    (plan,) = schedule_function(func, Target("haswell")).plans
    assert plan.kind == "rows"
