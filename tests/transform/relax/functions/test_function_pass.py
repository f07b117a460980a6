"""Passes that users write."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from loomir import relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.op import exp, negative
from loomir.transform.relax.functions.function_pass import dataflowblock_pass, function_pass
from tests.transform.relax.modules import module

TEXT = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Any:
        with R.dataflow():
            y = R.exp(x)
            z = R.exp(y)
            R.output(z)
        w = R.exp(z)
        return w
"""


def replace_call(call: relax.Call) -> relax.Call:
    return negative(call.args[0]) if getattr(call.op, "name", "") == "relax.exp" else call


def test_each_function_is_mapped():
    @function_pass
    def turn(func: relax.Function, mod: relax.IRModule) -> relax.Function:
        assert "main" in mod
        return rewrite(func, {relax.Call: replace_call})

    made = turn(module(TEXT))
    assert turn.name == "turn"
    assert_structural_equal(made, module(TEXT.replace("exp", "negative")))
    assert turn(made) is made


def test_each_dataflow_block_is_mapped():
    @dataflowblock_pass(name="Turn")
    def turn(block: relax.DataflowBlock, mod: relax.IRModule) -> relax.DataflowBlock:
        return rewrite(block, {relax.Call: replace_call})

    made = turn(module(TEXT))
    assert turn.name == "Turn"
    assert_structural_equal(
        made, module(TEXT.replace("exp", "negative").replace("w = R.negative", "w = R.exp"))
    )
    assert turn(made) is made


def test_what_is_given_is_normalised():
    @function_pass
    def nested(func: relax.Function, mod: relax.IRModule) -> relax.Function:
        (x,) = func.params
        return relax.Function(func.params, exp(negative(x)), attrs=func.attrs)

    made = nested(module(TEXT))
    assert not loomir.verify(made)
    assert made.script().count("R.Tensor((n,)") >= 3
    assert substitute(made, {}) is made


@pytest.mark.parametrize("make", [function_pass, dataflowblock_pass])
def test_other_results_are_refused(make: Any):
    nothing = make(lambda part, mod: None)
    with pytest.raises(loomir.CompileError, match="gave a NoneType") as caught:
        nothing(module(TEXT))
    assert [d.code for d in caught.value.diagnostics] == ["RLX0331"]
