"""Private functions lose parameters that nothing uses."""

from __future__ import annotations

import pytest

from loomir import relax
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("n * 2",), "float32"):
        n = T.int64()
        z: R.Tensor((n * 2,), "float32") = Module.other(x, y, x)
        return z
    @R.function(private=True)
    def other(a: R.Tensor(("k",), "float32"), b: R.Tensor(("l",), "float32"), c: R.Tensor(("k",), "float32")) -> R.Tensor(("k * 2",), "float32"):
        k = T.int64()
        z: R.Tensor((k * 2,), "float32") = R.concat((a, a))
        return z
"""


def names(func: object) -> list[str]:
    assert isinstance(func, relax.Function)
    return [param.name_hint for param in func.params]


def test_unused_parameters_go():
    made = applied("RemoveUnusedParameters", module(TEXT), random(3), random(2))
    assert names(made["other"]) == ["a"]
    assert names(made["main"]) == ["x", "y"]


def test_a_parameter_that_tells_an_extent_stays():
    text = TEXT.replace("R.concat((a, a))", "R.zeros(R.shape([k * 2]), 'float32')")
    made = applied("RemoveUnusedParameters", module(text), random(3), random(2))
    assert names(made["other"]) == ["a"]


@pytest.mark.parametrize("call", ["", "y = Module.other(x, x)"])
def test_functions_that_are_passed_on_stay(call: str):
    text = f"""
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        {call}
        t = (Module.other, x)
        f = t[0]
        z: R.Tensor((3,), "float32") = f(x, x)
        return z
    @R.function(private=True)
    def other(a: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return a
"""
    mod = module(text)
    assert applied("RemoveUnusedParameters", mod, random(3)) is mod
