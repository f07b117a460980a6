"""Divisions of integers by zero, and scalars in place of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.relax.operator.definition import OpDef, Sample, TensorSample, find_op
from loomir.tir.expr import Var, const
from tests.op.running import LoweredModule, call_of

DIVIDING = ["divide", "floor_divide", "mod", "floor_mod"]


def defined(name: str) -> OpDef:
    op = find_op(f"relax.{name}")
    assert op is not None
    return op


@pytest.mark.parametrize("name", DIVIDING)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32"])
def test_integers_divided_by_zero_raise(name: str, dtype: str):
    op = defined(name)
    assert op.lower is not None
    assert op.reference is not None
    a, b = np.array([4, 0, 7], dtype), np.array([2, 0, 1], dtype)
    with pytest.raises(ZeroDivisionError):
        op.reference(a, b)
    inputs = [te.placeholder((3,), dtype, n) for n in "ab"]
    func = te.create_prim_func([*inputs, op.lower(*inputs)])
    with pytest.raises(ZeroDivisionError):
        loomir.compile(func, opt_level=1, cache=False)(a, b, np.zeros(3, dtype))
    with pytest.raises(ZeroDivisionError):
        loomir.interpret(func, a, b, np.zeros(3, dtype))


@pytest.mark.parametrize("name", DIVIDING)
def test_nothing_is_divided_by_zero_where_there_are_no_elements(name: str):
    op = defined(name)
    assert op.reference is not None
    made = op.reference(np.zeros((0, 1), "int32"), np.zeros(3, "int32"))
    assert made.shape == (0, 3)


@pytest.mark.parametrize("name", DIVIDING)
def test_quotients_and_what_is_left_belong_together(name: str):
    values = np.arange(-7, 8)
    pairs = [(a, b) for a in values for b in values if b]
    a, b = (np.array(v, "int16") for v in zip(*pairs))
    whole = {
        "divide": [int(x / y) for x, y in pairs],
        "floor_divide": [x // y for x, y in pairs],
        "mod": [x - int(x / y) * y for x, y in pairs],
        "floor_mod": [x % y for x, y in pairs],
    }
    op = defined(name)
    assert op.reference is not None
    np.testing.assert_array_equal(op.reference(a, b), whole[name])
    lowered = LoweredModule()
    given = [TensorSample(v.shape, "int16", values=v) for v in (a, b)]
    lowered.add(call_of(op, Sample(tuple(given))), name)
    lowered.check()


def test_powers_of_integers_are_those_of_python():
    power = defined("power").reference
    assert power is not None
    pairs = [(a, b) for a in range(-5, 6) for b in range(6)]
    a, b = (np.array(v, "int64") for v in zip(*pairs))
    np.testing.assert_array_equal(power(a, b), [x**y for x, y in pairs])
    least = np.array([-(2**63)])
    for base, wanted in ((1, 1), (-1, 1), (3, 0)):
        assert power(np.array([base]), least) == wanted
    with pytest.raises(ZeroDivisionError):
        power(np.array([0]), np.array([-1]))


def test_a_scalar_may_be_an_expression():
    n = Var("n", te.size_var("k", "int64").dtype)
    x = te.placeholder((3,), "int64", "x")
    for name, wanted in (
        ("add", [6, 7, 8]),
        ("floor_divide", [0, 0, 0]),
        ("left_shift", [32, 64, 96]),
    ):
        lower: Any = defined(name).lower
        func = te.create_prim_func([x, n, lower(x, n)])
        out = np.zeros(3, "int64")
        loomir.compile(func, opt_level=1, cache=False)(np.array([1, 2, 3]), 5, out)
        np.testing.assert_array_equal(out, wanted)
    where: Any = defined("where").lower
    made = where(te.placeholder((3,), "bool", "c"), x, const(9, "int64"))
    assert str(made.dtype) == "int64"
