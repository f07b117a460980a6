"""Columns are taken of products."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 6), "float32"), i: R.Tensor(("m",), "int64")):
        n = T.int64()
        with R.dataflow():
            t = R.take(w, i, axis=1)
            o = R.matmul(x, t)
            R.output(o)
        return o
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 6), "float32"), i: R.Tensor(("m",), "int64")):
        n = T.int64()
        with R.dataflow():
            y = R.matmul(x, w)
            o = R.take(y, i, axis=1)
            R.output(o)
        return o
"""
ARGS = random(2, 4), random(4, 6), np.int64([5, 0, -1, 5])


def test_it_is_rewritten():
    assert_structural_equal(applied("ReorderTakeAfterMatmul", module(BEFORE), *ARGS), module(AFTER))


@pytest.mark.parametrize(
    "change",
    [
        ("R.matmul(x, t)", "R.add(R.matmul(x, t), R.sum(t))"),
        ("axis=1", 'axis=1, mode="nan"'),
        ("R.matmul(x, t)", "R.matmul(R.permute_dims(t), R.permute_dims(x))"),
    ],
)
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("ReorderTakeAfterMatmul", mod) is mod
