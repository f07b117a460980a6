"""Dataflow blocks become ordinary ones."""

from __future__ import annotations

import numpy as np

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            y = R.exp(x)
            z = R.negative(y)
            R.output(z)
        w = R.add(z, x)
        return w
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.exp(x)
        z = R.negative(y)
        w = R.add(z, x)
        return w
"""


def test_blocks_are_merged():
    made = applied("ToNonDataflow", module(BEFORE), random(3))
    assert_structural_equal(made, module(AFTER))


def test_a_shape_that_is_told_by_a_variable_stays_so():
    text = """
    @R.function
    def main(t: R.Tensor((1,), "int64")) -> R.Any:
        with R.dataflow():
            s: R.Shape(ndim=1) = R.tensor_to_shape(t)
            y: R.Tensor(s, "float32") = R.ones(s, "float32")
            z = R.sum(y)
            R.output(z)
        return z
"""
    applied("ToNonDataflow", module(text), np.array([3]))
