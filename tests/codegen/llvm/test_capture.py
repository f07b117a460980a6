"""What code that moves to a function of its own takes along."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.script import from_source


@pytest.mark.parametrize("columns", [3, 4, 10])
def test_what_follows_a_product_is_computed_in_all_parts_of_its_schedule(columns: int) -> None:
    mod = from_source(f"""
from loomir.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 600), "float64"),
        w: R.Tensor(({columns}, 600), "float64"),
        t: R.Tensor(("n", {columns}), "float64"),
    ):
        with R.dataflow():
            d = R.subtract(R.linear(x, w), t)
            e = R.multiply(d, d)
            R.output(e)
        return e
""")
    random = np.random.default_rng(0)
    run = loomir.compile(mod, opt_level=1)["main"]
    for rows in (0, 1, 5):
        x, w, t = (
            random.integers(-3, 4, shape).astype("float64")
            for shape in ((rows, 600), (columns, 600), (rows, columns))
        )
        np.testing.assert_array_equal(run(x, w, t), (x @ w.T - t) ** 2)
