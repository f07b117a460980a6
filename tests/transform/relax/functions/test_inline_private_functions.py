"""Bodies of private functions stand in the place of their calls."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import calls, random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        with R.dataflow():
            y = Module.twice(x)
            z = Module.twice(y)
            R.output(z)
        return z
    @R.function(private=True)
    def twice(a: R.Tensor(("k", "l"), "float32")) -> R.Tensor(("k", "l"), "float32"):
        k = T.int64()
        l = T.int64()
        b: R.Tensor((k, l), "float32") = Module.once(a)
        c: R.Tensor((k, l), "float32") = R.add(b, a)
        return c
    @R.function(private=True)
    def once(a: R.Tensor(("k", "l"), "float32")) -> R.Tensor(("k", "l"), "float32"):
        k = T.int64()
        l = T.int64()
        with R.dataflow():
            b: R.Tensor((k, l), "float32") = R.exp(a)
            R.output(b)
        return b
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        with R.dataflow():
            b = R.exp(x)
            b0 = b
            c = R.add(b0, x)
            y = c
            b1 = R.exp(y)
            b2 = b1
            c1 = R.add(b2, y)
            z = c1
            R.output(z)
        return z
"""


def test_functions_in_functions_are_inlined():
    made = applied("InlinePrivateFunctions", module(TEXT), random(3, 2))
    assert_structural_equal(made, module(AFTER))


RECURSIVE = """
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        z: R.Tensor((2,), "float32") = Module.loop(x)
        return z
    @R.function(private=True)
    def loop(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        s = R.sum(x)
        c = R.greater(s, R.const(10.0, "float32"))
        if c:
            r: R.Tensor((2,), "float32") = x
        else:
            y = R.add(x, x)
            r: R.Tensor((2,), "float32") = Module.loop(y)
        return r
"""


def test_functions_that_call_themselves_stay():
    mod = module(RECURSIVE)
    assert applied("InlinePrivateFunctions", mod, np.ones(2, "float32")) is mod


def test_control_flow_is_inlined_outside_of_dataflow():
    text = RECURSIVE.replace("Module.loop(y)", "y")
    made = applied("InlinePrivateFunctions", module(text), np.ones(2, "float32"))
    assert list(made) == ["main"]
    assert "add" in calls(made)


def test_a_check_that_may_fail_stays():
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor((3,), "float32"):
        z: R.Tensor((3,), "float32") = Module.other(x)
        return z
    @R.function(private=True)
    def other(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        b: R.Tensor((3,), "float32") = R.exp(a)
        return b
"""
    made = applied("InlinePrivateFunctions", module(text), random(3))
    assert list(made) == ["main"]
    with pytest.raises(loomir.RunError):
        loomir.interpret(made, "main", random(4))
