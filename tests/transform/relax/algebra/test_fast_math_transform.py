"""Powers and quotients become products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import module
from tests.transform.relax.test_lowering import calls, described, program

N = ShapeVar("n", "int64")
POWERS = {
    2.0: ["square"],
    3.0: ["square", "multiply"],
    4.0: ["square", "square"],
    -1.0: ["divide"],
    -2.0: ["square", "divide"],
    0.5: ["sqrt"],
    -0.5: ["rsqrt"],
}


def fast(mod: loomir.relax.IRModule, x: Any, rtol: float) -> loomir.relax.IRModule:
    made = apply(PASSES["relax.FastMathTransform"], mod)
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    assert relax.normalize(made) is made
    wanted = loomir.interpret(mod, "main", x)
    np.testing.assert_allclose(loomir.interpret(made, "main", x), wanted, rtol=rtol)
    return made


@pytest.mark.parametrize(("exponent", "wanted"), POWERS.items())
def test_powers(exponent: float, wanted: list[str]):
    """Each result is rounded up to three times: four units in the last place."""
    power = relax.Constant(np.float32(exponent))
    mod = program(lambda b, x: op.power(x, power), [described((N,))])
    assert calls(fast(mod, np.linspace(0.01, 9, 50, dtype="float32"), 2.4e-7)) == wanted


def test_quotients_by_constants():
    text = """
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.divide(x, R.const([4.0, 10.0], "float32"))
            R.output(y)
        return y
    """
    after = text.replace("R.divide", "R.multiply").replace("[4.0, 10.0]", "[0.25, 0.1]")
    x = np.float32([[1, 2], [3, -4]])
    assert_structural_equal(fast(module(text), x, 1.2e-7), module(after))


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: op.power(x, relax.Constant(np.float32(1.7))),
        lambda b, x: op.power(x, relax.Constant(np.float32([[2]]))),  # makes an axis
        lambda b, x: op.power(x, relax.Constant(np.float32([2, 2, 2]))),
        lambda b, x: op.power(x, x),
        lambda b, x: op.power(relax.Constant(np.float32(2)), x),
        lambda b, x: op.divide(x, relax.Constant(np.float32(0))),
        lambda b, x: op.divide(x, relax.Constant(np.float32(1e-40))),  # the reciprocal is infinite
        lambda b, x: op.divide(x, relax.Constant(np.float32([1, 1, np.inf]))),
        lambda b, x: op.divide(relax.Constant(np.float32(1)), x),
        lambda b, x: op.exp(x),
    ],
)
def test_others_stay(build: Any):
    mod = program(build, [described((3,))])
    assert apply(PASSES["relax.FastMathTransform"], mod) is mod


def test_integers_stay():
    two = relax.Constant(np.int32(2))
    mod = program(lambda b, x: op.power(x, two), [described((3,), "int32")])
    assert apply(PASSES["relax.FastMathTransform"], mod) is mod
