"""Symbolic extents become numbers."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.transform.relax.constants.bind_symbolic_vars import BindSymbolicVarsOptions
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32")) -> R.Tensor(("n * k",), "float32"):
        n = T.int64()
        k = T.int64()
        y: R.Tensor((n * k,), "float32") = R.reshape(x, R.shape([n * k]))
        return y
"""


def test_extents_become_numbers():
    made = applied("BindSymbolicVars", module(TEXT), options=BindSymbolicVarsOptions({"k": 4}))
    x = random(2, 4)
    np.testing.assert_array_equal(loomir.interpret(made, "main", x), x.reshape(-1))
    with pytest.raises(loomir.RunError):
        loomir.interpret(made, "main", random(2, 3))
    other = BindSymbolicVarsOptions({"k": 4, "n": 2}, "main")
    whole = applied("BindSymbolicVars", module(TEXT), options=other)
    assert_structural_equal(
        whole["main"].params[0].struct_info,
        loomir.relax.TensorStructInfo((2, 4), "float32"),
    )


def test_nothing_to_bind_changes_nothing():
    mod = module(TEXT)
    assert applied("BindSymbolicVars", mod) is mod


def test_an_unknown_name_is_refused():
    with pytest.raises(loomir.CompileError, match="no parameter binds a shape variable 'm'") as e:
        applied("BindSymbolicVars", module(TEXT), options=BindSymbolicVarsOptions({"m": 4}))
    assert [d.code for d in e.value.diagnostics] == ["RLX0330"]
