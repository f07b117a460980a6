"""What a model computes only of its weights is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")) -> R.Any:
        R.func_attr({"num_input": 1})
        n = T.int64()
        with R.dataflow():
            wt = R.permute_dims(w)
            we = R.exp(wt)
            y = R.matmul(x, we)
            z = R.add(y, b)
            R.output(z)
        return z
"""

LIFTED = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), b: R.Tensor((3,), "float32"), we: R.Tensor((4, 3), "float32")) -> R.Any:
        R.func_attr({"num_input": 1})
        n = T.int64()
        with R.dataflow():
            y = R.matmul(x, we)
            z = R.add(y, b)
            R.output(z)
        return z
    @R.function
    def main_transform_params(params: R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3,), "float32"))) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((4, 3), "float32")):
        w = params[0]
        b = params[1]
        wt = R.permute_dims(w)
        we = R.exp(wt)
        return (b, we)
"""


def lifted(text: str) -> IRModule:
    made = apply(PASSES["relax.LiftTransformParams"], module(text))
    assert not loomir.verify(made)
    assert apply(PASSES["relax.LiftTransformParams"], made) is made
    return made


def test_weights_are_transformed_in_a_function_of_their_own():
    made = lifted(TEXT)
    assert_structural_equal(made, module(LIFTED))
    x, w, b = random(2, 4), random(3, 4), random(3)
    wanted = loomir.interpret(module(TEXT), "main", x, w, b)
    exe = loomir.compile(made, opt_level=0)
    for run in (exe, {n: lambda *a, n=n: loomir.interpret(made, n, *a) for n in made}):
        other: Any = run["main_transform_params"]((w, b))
        np.testing.assert_allclose(run["main"](x, *other), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        ('R.func_attr({"num_input": 1})', "pass"),
        ("R.permute_dims(w)", "R.builtin.stop_lift_params(w)"),
        ("R.permute_dims(w)", "R.permute_dims(R.multiply(w, R.sum(x)))"),
        ("R.exp(wt)", "R.matmul(wt, R.matmul(w, R.permute_dims(x)))"),
    ],
)
def test_what_needs_more_stays(change: tuple[str, str]):
    text = TEXT.replace(*change)
    if "stop" in change[1]:
        text = text.replace("y = R.matmul(x, we)", "y = R.matmul(x, R.permute_dims(we))")
    if "R.matmul(wt" in change[1]:
        text = (
            text.replace("wt = R.permute_dims(w)", "wt = R.permute_dims(x)")
            .replace("y = R.matmul(x, we)", "y = R.matmul(x, R.permute_dims(w))")
            .replace("R.matmul(wt, R.matmul(w, R.permute_dims(x)))", "wt")
        )
        made = lifted(text)
        assert len(made) == 2
        return
    mod = module(text)
    assert apply(PASSES["relax.LiftTransformParams"], mod) is mod


def test_what_is_returned_is_a_tensor_of_each_call():
    text = TEXT.replace("R.output(z)", "R.output(z, we)").replace("return z", "return (z, we)")
    made = lifted(text)
    assert "we: R.Tensor((4, 3)" not in made.script().split("with R.dataflow")[0]
    assert "wt: R.Tensor((4, 3)" in made.script().split("with R.dataflow")[0]


def test_a_size_that_only_a_weight_tells_keeps_it():
    text = TEXT.replace("R.Tensor((3, 4)", 'R.Tensor(("k", 4)').replace(
        "R.Tensor((3,)", 'R.Tensor(("k",)'
    )
    made = lifted(text)
    x, w, b = random(2, 4), random(5, 4), random(5)
    other: Any = loomir.interpret(made, "main_transform_params", (w, b))
    found = loomir.interpret(made, "main", x, *other)
    np.testing.assert_allclose(found, loomir.interpret(module(text), "main", x, w, b), rtol=1e-5)


@pytest.mark.parametrize("name", ["LiftTransformParams", "BundleModelParams"])
def test_a_number_of_inputs_that_is_none_is_refused(name: str):
    with pytest.raises(loomir.CompileError, match="num_input is 7") as caught:
        apply(PASSES[f"relax.{name}"], module(TEXT.replace('"num_input": 1', '"num_input": 7')))
    assert [d.code for d in caught.value.diagnostics] == ["RLX0331"]


def test_weights_come_as_one_tuple():
    made = applied("BundleModelParams", module(TEXT))
    wanted = TEXT.replace(
        'w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")',
        'model_params: R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3,), "float32"))',
    ).replace(
        "        with", "        w = model_params[0]\n        b = model_params[1]\n        with", 1
    )
    assert_structural_equal(made, module(wanted))
    x, w, b = random(2, 4), random(3, 4), random(3)
    before = loomir.interpret(module(TEXT), "main", x, w, b)
    np.testing.assert_array_equal(loomir.interpret(made, "main", x, (w, b)), before)
    plain = module(TEXT.replace('R.func_attr({"num_input": 1})', "pass"))
    assert applied("BundleModelParams", plain) is plain
