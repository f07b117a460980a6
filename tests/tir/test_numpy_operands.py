"""NumPy beside expressions: its numbers and operators build programs, its functions are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir import relax, te
from loomir.ir import assert_structural_equal
from loomir.support.diagnostics import CompileError
from loomir.tir import Var
from loomir.tir.equality_op import Equality

N = Var("n", "int32")
X = Var("x", "float32")


@pytest.mark.parametrize("number", [np.int8(3), np.int64(3), np.uint16(3), np.array(3)])
def test_integers_of_numpy_are_integers(number: Any):
    assert_structural_equal(N + number, N + 3)
    assert_structural_equal(number - N, 3 - N)
    assert_structural_equal(X * number, X * 3)


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), ml_dtypes.bfloat16(0.5)])
def test_floats_of_numpy_take_the_other_s_dtype(number: Any):
    assert_structural_equal(X / number, X / 0.5)
    assert_structural_equal(number * X, 0.5 * X)
    assert_structural_equal(number < X, X > 0.5)


def test_comparisons_and_truths_of_numpy():
    assert_structural_equal(np.int64(3) < N, N > 3)
    equal: Any = np.int64(3) == N
    assert isinstance(equal, Equality)
    assert_structural_equal(equal.as_expr(), N.equal(3))


def test_arrays_of_numpy_are_computed_element_by_element():
    found: Any = np.array([1, 2]) + N
    assert found.shape == (2,)
    for made, number in zip(found, (1, 2), strict=True):
        assert_structural_equal(made, number + N)


A = te.placeholder((4,), "float32")
V = relax.Var("v", relax.TensorStructInfo((4,), "float32"))
FUNCTIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: np.exp(X), "write T.exp(...)"),
    (lambda: np.maximum(X, 0), "write T.max(...)"),
    (lambda: np.abs(X), "write T.abs(...)"),
    (lambda: np.spacing(X), "call it on arrays, before or after the program runs"),
    (lambda: np.add.reduce(X), "call it on arrays, before or after the program runs"),
    (lambda: te.compute((4,), lambda i: np.tanh(A[i])), "write T.tanh(...)"),
    (lambda: np.exp(A), "write topi.exp(...)"),
    (lambda: np.exp(V), "write R.exp(...)"),
]


@pytest.mark.parametrize(("call", "help_"), FUNCTIONS)
def test_functions_of_numpy_are_refused(call: Callable[[], object], help_: str):
    with pytest.raises(CompileError) as caught:
        call()
    assert [d.code for d in caught.value.diagnostics] == ["TIR0115"]
    assert caught.value.diagnostic.help == help_
