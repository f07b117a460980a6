"""``==`` between expressions: a comparison where one is wanted, identity where Python asks."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.ir import structural_equal
from loomir.script import tir as T
from loomir.tir import NE, Eq, Var, convert

i, j = Var("i", "int32"), Var("j", "int32")


def test_python_sees_identity():
    other = Var("i", "int32")
    assert i == i
    assert not other == i  # noqa: SIM201
    assert other != i
    assert i in (other, i)
    assert [other, i].index(i) == 1
    assert {i: 1, other: 2}[i] == 1
    assert i != None  # noqa: E711
    assert i != "i"


@pytest.mark.parametrize("operand", [j, 3, j + 1])
def test_programs_see_values(operand: object):
    assert structural_equal(convert(i == operand), Eq(i, convert(operand)))
    assert structural_equal(convert(i != operand), NE(i, convert(operand)))


def test_a_number_on_the_left_goes_to_the_right():
    assert structural_equal(convert(3 == i), Eq(i, convert(3)))  # noqa: SIM300


def test_operands_are_brought_to_one_dtype():
    made = convert(Var("x", "int64") == i)
    assert isinstance(made, Eq)
    assert str(made.b.dtype) == "int64"


def test_tensor_expressions_compare_values():
    n = te.var("n")
    x = te.placeholder((n,), "int32", "x")
    k = te.reduce_axis((0, n), "k")
    y = te.compute((n,), lambda a: te.if_then_else(a == 2, 100, x[a]), "y")
    z = te.compute((n,), lambda a: te.select(x[a] != 5, y[a], te.const(-1)), "z")
    w = te.compute((1,), lambda _: te.sum(te.const(1), axis=k, where=x[k] == 5), "w")
    v = te.compute((n,), lambda a: te.all_of(a == 1, x[a] == 1), "v")
    b = te.compute((n,), lambda a: x[a] == 5, "b")
    func = te.create_prim_func([x, z, w, v, b])
    given = np.array([5, 1, 2, 5], "int32")
    got = [np.zeros(4, "int32"), np.zeros(1, "int32"), np.zeros(4, "bool"), np.zeros(4, "bool")]
    loomir.compile(func)(given, *got)
    np.testing.assert_array_equal(got[0], [-1, 1, 100, -1])
    assert got[1] == [2]
    np.testing.assert_array_equal(got[2], [False, True, False, False])
    np.testing.assert_array_equal(got[3], given == 5)


def test_a_condition_of_the_builder():
    assert isinstance(T.Not(i == j).a, Eq)
    assert isinstance(T.And(i == j, i != 3).b, NE)
    assert isinstance(T.Select(i == j, 1, 2).condition, Eq)
