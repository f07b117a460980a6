"""Products go into sums."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 3), "float32"), b: R.Tensor((4, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            s = R.add(a, b)
            o = R.matmul(x, s)
            R.output(o)
        return o
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 3), "float32"), b: R.Tensor((4, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            o = R.add(p, q)
            R.output(o)
        return o
"""
ARGS = random(2, 4), random(4, 3), random(1, 4, 3)[0]


def test_it_is_rewritten():
    assert_structural_equal(applied("ExpandMatmulOfSum", module(BEFORE), *ARGS), module(AFTER))


@pytest.mark.parametrize(
    "change",
    [
        ("R.matmul(x, s)", "R.add(R.matmul(x, s), R.sum(s))"),
        ("b: R.Tensor((4, 3)", "b: R.Tensor((1, 3)"),
        ("R.add(a, b)", "R.multiply(a, b)"),
        ("R.output(o)", "R.output(o, s)"),
        ("R.matmul(x, s)", "R.matmul(R.permute_dims(s), R.permute_dims(x))"),
    ],
)
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("ExpandMatmulOfSum", mod) is mod
