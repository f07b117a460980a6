"""A call of a program that is not compiled says which call is meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.diagnostics import Diagnostic, RunError


@T.prim_func
def copy(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), n: T.int32):
    for i in range(4):
        y[i] = x[i]


@R.function
def twice(x: R.Tensor((4,), "float32")):
    return R.add(x, x)


@I.ir_module
class Several:
    @T.prim_func
    def zero(x: T.Buffer((4,), "float32")):  # noqa: N805
        for i in range(4):
            x[i] = T.float32(0)

    @T.prim_func
    def one(x: T.Buffer((4,), "float32")):  # noqa: N805
        for i in range(4):
            x[i] = T.float32(1)


X = np.ones(4, "float32")


def refusal(call: Any) -> Diagnostic:
    with pytest.raises(TypeError) as caught:
        call()
    assert isinstance(caught.value, RunError)
    found = caught.value.diagnostic
    assert found.code == "RUN0123"
    assert found.span is not None
    assert found.span.source.name == __file__
    return found


def test_a_kernel_is_called_with_the_arguments_as_they_are_written():
    found = refusal(lambda: copy(X, X[:4], n=3))
    assert found.message.startswith("copy is not compiled")
    assert found.help == "compile it, and call that: loomir.compile(copy)(X, X[:4], n=3)"


def test_a_graph_is_called_by_the_name_that_the_user_gave_it():
    renamed = twice
    found = refusal(lambda: renamed(X))
    assert found.help == "compile it, and call that: loomir.compile(renamed)(X)"


def test_a_module_is_called_by_item_where_none_of_its_functions_is_main():
    found = refusal(lambda: Several(X))
    assert found.help == "compile it, and call that: loomir.compile(Several)['zero'](X)"
    only = loomir.ir.IRModule(dict([*Several.functions.items()][:1]))
    found = refusal(lambda: only(X))
    assert found.help == "compile it, and call that: loomir.compile(only)(X)"


def test_a_function_in_a_module_is_called_by_the_expression_for_it():
    found = refusal(lambda: Several["one"](X))
    assert found.help == "compile it, and call that: loomir.compile(Several['one'])(X)"


def test_what_calls_it_in_between_is_not_taken_for_it():
    found = refusal(lambda: list(map(twice, [X])))
    assert found.help == "compile it, and call that: loomir.compile(twice)(...)"


def test_programs_are_still_nothing_that_can_be_registered():
    with pytest.raises(RunError) as caught:
        loomir.register_func("test.uncompiled", copy)
    assert caught.value.diagnostic.code == "RUN0303"
