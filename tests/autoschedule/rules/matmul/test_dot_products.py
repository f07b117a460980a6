"""Few rows times a matrix that lies along the sum, where sizes are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.interp import interpret
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.rules.matmul.test_blocked_product import (
    arrays_for,
    check,
    planned,
    product,
    scheduled,
)

SIZES = {
    "rows": (0, 1, 2, 5, 8, 12, 13),
    "columns": (0, 1, 2, 5, 6, 13, 197),
    "steps": (0, 1, 15, 63, 64, 531),
}


def runs_alike(func: PrimFunc, expected: Any, sizes: dict[str, int], runs: list[Any]) -> None:
    *inputs, out = arrays_for(func, sizes)
    wanted = expected(*[a.astype("float64") for a in inputs])
    for run in runs:
        found = np.full_like(out, 7)
        run(*inputs, found)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("rows", [2, 8, None])
@pytest.mark.parametrize("target", ["native", "haswell"])
def test_any_number_of_columns_and_steps(rows: int | None, target: str):
    m, n, k = rows or te.var("rows"), te.var("columns"), te.var("steps")
    func = product(m, n, k, right="nk")
    plan = planned(func, target)
    assert plan is not None
    assert "dot products" in " ".join(plan.choices)
    run = loomir.compile(scheduled(func, target), target, opt_level=1)
    for columns in SIZES["columns"]:
        sizes = {"rows": 3, "columns": columns, "steps": 531}
        runs_alike(func, lambda a, b: a @ b.T, sizes, [run])
    for steps in SIZES["steps"]:
        sizes = {"rows": 5, "columns": 13, "steps": steps}
        runs_alike(func, lambda a, b: a @ b.T, sizes, [run])
    for count in SIZES["rows"] if rows is None else ():
        sizes = {"rows": count, "columns": 14, "steps": 70}
        runs_alike(func, lambda a, b: a @ b.T, sizes, [run])


@pytest.mark.parametrize(("columns", "steps"), [(5, 37), (12, 64), (1, 3)])
def test_it_is_what_the_interpreter_gives(columns: int, steps: int):
    n, k = te.var("columns"), te.var("steps")
    made = scheduled(product(3, n, k, right="nk", after=lambda c: [topi.relu(c)]))
    *inputs, out = arrays_for(made, {"columns": columns, "steps": steps})
    outs = [np.full_like(out, 7) for _ in range(2)]
    loomir.compile(made, opt_level=1)(*inputs, outs[0])
    interpret(made, *inputs, outs[1])
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_allclose(outs[0], np.maximum(inputs[0] @ inputs[1].T, 0), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_other_dtypes(dtype: str):
    func = product(4, te.var("columns"), te.var("steps"), right="nk", dtype=dtype)
    for columns, steps in ((9, 100), (7, 3)):
        check(
            func,
            lambda a, b: a @ b.T,
            targets=("native",),
            tolerance=5e-3 if dtype == "float16" else 1e-5,
            columns=columns,
            steps=steps,
        )


@pytest.mark.parametrize("target", ["native", "haswell"])
@pytest.mark.parametrize(("columns", "steps"), [(7, 70), (12, 64)])
def test_any_number_of_rows_is_what_the_interpreter_gives(columns: int, steps: int, target: str):
    """Neither tiles nor vectors are full; what is not finite stays in its row."""
    made = scheduled(
        product(te.var("rows"), columns, steps, right="nk", after=lambda c: [topi.relu(c)]), target
    )
    run = loomir.compile(made, target, opt_level=1)
    for rows in (7, 11):
        a, b, out = arrays_for(made, {"rows": rows})
        a[3, steps - 1], a[6, 0] = np.inf, np.nan
        outs = [np.full_like(out, 7) for _ in range(2)]
        run(a, b, outs[0])
        interpret(made, a, b, outs[1])
        np.testing.assert_array_equal(outs[0], outs[1])
        finite = [row for row in range(rows) if row not in (3, 6)]
        wanted = np.maximum(a[finite] @ b.T, 0)
        np.testing.assert_allclose(outs[0][finite], wanted, atol=1e-5)


def test_batches_of_rows_for_any_number_of_keys():
    keys = te.var("columns")
    q, k = te.placeholder((3, 4, 65), name="q"), te.placeholder((3, keys, 65), name="k")
    d = te.reduce_axis((0, 65), name="d")
    scores = te.compute(
        (3, 4, keys), lambda b, i, j: te.sum(q[b, i, d] * k[b, j, d], axis=d), name="scores"
    )
    func = te.create_prim_func([q, k, scores])
    plan = planned(func)
    assert plan is not None
    assert plan.kind == "matrix product of few rows"
    for count in (0, 1, 50, 203):
        check(func, lambda q, k: q @ k.transpose(0, 2, 1), targets=("native",), columns=count)


def test_special_values_stay_in_their_rows_and_columns():
    func = product(2, te.var("columns"), te.var("steps"), right="nk")
    a, b = np.ones((2, 35), "float32"), np.ones((9, 35), "float32")
    a[0, 34], b[8, 33] = np.inf, np.nan
    found = np.zeros((2, 9), "float32")
    loomir.compile(scheduled(func, "haswell"), "haswell")(a, b, found)
    np.testing.assert_array_equal(found, a @ b.T)
