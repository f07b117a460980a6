"""Matrices are multiplied in the cheaper order."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8), "float32")):
        n = T.int64()
        with R.dataflow():
            w = R.matmul(a, b)
            o = R.matmul(x, w)
            R.output(o)
        return o
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.matmul(x, a)
            o = R.matmul(y, b)
            R.output(o)
        return o
"""
ARGS = random(3, 8), random(8, 2), random(2, 8)


def test_it_is_rewritten():
    assert_structural_equal(applied("AdjustMatmulOrder", module(BEFORE), *ARGS), module(AFTER))


@pytest.mark.parametrize(
    "change",
    [
        ("R.matmul(x, w)", "R.add(R.matmul(x, w), R.sum(w))"),
        (
            'a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8)',
            'a: R.Tensor((8, "r"), "float32"), b: R.Tensor(("r", 8)',
        ),
        ('x: R.Tensor(("n", 8)', "x: R.Tensor((8,)"),
        ("R.matmul(a, b)", 'R.matmul(a, b, out_dtype="float32")'),
    ],
)
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("AdjustMatmulOrder", mod) is mod


def test_the_other_way():
    text = """
    @R.function
    def main(x: R.Tensor((5, 8, 2), "float32"), a: R.Tensor((2, 6), "float32"), b: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            y = R.matmul(x, a)
            o = R.matmul(y, b)
            R.output(o)
        return o
    """
    after = text.replace("R.matmul(x, a)", "R.matmul(a, b)").replace(
        "R.matmul(y, b)", "R.matmul(x, y)"
    )
    args = random(5, 8, 2), random(2, 6), random(6, 2)
    assert_structural_equal(applied("AdjustMatmulOrder", module(text), *args), module(after))
