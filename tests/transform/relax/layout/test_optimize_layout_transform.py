"""Changes of layout that undo each other go."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 8, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.layout_transform(x, index_map="lambda i, j, k: (i, j // 4, k, j % 4)")
            b = R.layout_transform(a, index_map="lambda i, j, k, l: (i, j * 4 + l, k)")
            o = R.exp(b)
            R.output(o)
        return o
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 8, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            o = R.exp(x)
            R.output(o)
        return o
"""


def test_a_way_there_and_back_goes():
    made = applied("OptimizeLayoutTransform", module(BEFORE), random(2, 8, 3))
    assert_structural_equal(apply(PASSES["relax.DeadCodeElimination"], made), module(AFTER))


@pytest.mark.parametrize(
    "change",
    [
        ("j * 4 + l, k)", "l * 2 + j, k)"),  # another order
        ('"n", 8, 3', '"n", 7, 3'),  # it is filled up
        ('"n", 8, 3', '"n", "m", 3'),  # it may be
        ("R.output(o)", "R.output(o, b)"),  # a tensor of its own
        ("o = R.exp(b)", "o = (b, b)"),
    ],
)
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("OptimizeLayoutTransform", mod) is mod
