"""Functions vouch for what they call."""

from __future__ import annotations

import numpy as np

import loomir
from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y: R.Tensor((3,), "float32") = R.call_pure_packed("tests.twice", x, ty_args=R.Tensor((3,), "float32"))
        return y
    @R.function(pure=False, private=True)
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
"""
AFTER = """
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        R.func_attr({"relax.force_pure": True})
        y: R.Tensor((3,), "float32") = R.call_packed("tests.twice", x, ty_args=R.Tensor((3,), "float32"))
        return y
    @R.function(pure=False, private=True)
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
"""


def test_pure_functions_vouch():
    loomir.register_func("tests.twice", lambda x: np.asarray(x) * 2, override=True)
    made = applied("RemovePurityChecking", module(BEFORE), random(3))
    assert_structural_equal(made, module(AFTER))
