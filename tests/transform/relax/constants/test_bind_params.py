"""Parameters become constants."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import relax
from loomir.transform.relax.constants.bind_params import BindParamsOptions
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        n = T.int64()
        m = T.int64()
        y: R.Tensor((n, m), "float32") = R.matmul(x, w)
        return y
"""


def test_a_weight_becomes_a_constant():
    mod = module(TEXT)
    x, w = random(2, 3), random(3, 4)
    made = applied("BindParams", mod, options=BindParamsOptions("main", {"w": w}))
    func = made["main"]
    assert isinstance(func, relax.Function)
    (param,) = func.params
    assert [str(d) for d in param.struct_info.dims or ()] == ["n", "T.int64(3)"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(loomir.interpret(made, "main", x), x @ w, rtol=1e-5)
    np.testing.assert_allclose(loomir.compile(made)["main"](x), x @ w, rtol=1e-5)


def test_no_params_change_nothing():
    mod = module(TEXT)
    assert applied("BindParams", mod) is mod


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"v": random(3, 4)}, "no parameter 'v'"),
        ({"w": random(3)}, "cannot be"),
        ({"w": random(3, 4).astype("float64")}, "cannot be"),
        ({"x": random(2, 3), "w": random(4, 4)}, "cannot be"),
    ],
)
def test_what_does_not_fit_is_refused(params: object, text: str):
    with pytest.raises(loomir.CompileError, match=text) as caught:
        applied("BindParams", module(TEXT), options=BindParamsOptions("main", params))  # type: ignore[arg-type]
    assert [d.code for d in caught.value.diagnostics] == ["RLX0330"]
