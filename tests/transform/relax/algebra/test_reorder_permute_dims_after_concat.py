"""Axes are ordered once."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 2, 3), "float32"), y: R.Tensor((2, 3, "n"), "float32"), z: R.Tensor(("n", 2, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.permute_dims(x, axes=[2, 0, 1])
            b = R.permute_dims(z, axes=[-1, 0, 1])
            o = R.concat((a, b), axis=2)
            R.output(o)
        return o
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 2, 3), "float32"), y: R.Tensor((2, 3, "n"), "float32"), z: R.Tensor(("n", 2, 3), "float32")):
        n = T.int64()
        with R.dataflow():
            w = R.concat((x, z), axis=1)
            o = R.permute_dims(w, axes=[2, 0, 1])
            R.output(o)
        return o
"""
ARGS = random(2, 2, 3), random(2, 3, 2), random(2, 2, 3) + 1


def test_it_is_rewritten():
    assert_structural_equal(
        applied("ReorderPermuteDimsAfterConcat", module(BEFORE), *ARGS), module(AFTER)
    )


@pytest.mark.parametrize(
    "change",
    [
        ("R.concat((a, b), axis=2)", "R.add(R.concat((a, b), axis=2), R.sum(b))"),
        ("R.concat((a, b), axis=2)", "R.concat((a,), axis=2)"),
        ("b = R.permute_dims(z, axes=[-1, 0, 1])", "b = R.permute_dims(y, axes=[1, 2, 0])"),
        ("R.output(o)", "R.output(o, a)"),
    ],
)
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("ReorderPermuteDimsAfterConcat", mod) is mod
