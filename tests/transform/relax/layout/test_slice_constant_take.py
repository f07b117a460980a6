"""One constant place of a tensor is a slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied
from tests.transform.relax.test_lowering import calls, described, flat, program, random

N = ShapeVar("n", "int64")


def _made(index: Any, axis: int, shape: Any = (3, N, 4), dtype: str = "int64") -> list[str]:
    def build(b: Any, x: Any) -> Any:
        return op.take(x, relax.const(index, dtype), axis)

    mod = program(build, [described(shape)])
    args = random(3, 5, 4)
    made = applied("SliceConstantTake", mod, args)
    wanted = flat(loomir.interpret(mod, "main", args))[0]
    np.testing.assert_array_equal(flat(loomir.interpret(made, "main", args))[0], wanted)
    np.testing.assert_array_equal(flat(loomir.compile(mod)["main"](args))[0], wanted)
    return calls(made)


@pytest.mark.parametrize(("index", "axis"), [(0, 0), (2, 0), (3, -1), (1, 2)])
def test_a_known_place_is_sliced(index: int, axis: int):
    assert _made(index, axis) == ["strided_slice", "reshape"]
    assert _made(index, axis, dtype="int32") == ["strided_slice", "reshape"]


def test_what_may_not_be_there_is_taken():
    assert _made(2, 1) == ["take"]  # of an extent that is not known


def test_several_places_are_taken():
    assert _made([0, 1], 0) == ["take"]


def test_a_place_that_is_not_there_stays_an_error():
    mod = program(lambda b, x: op.take(x, relax.const(7, "int64"), 0), [described((3, 4))])
    assert applied("SliceConstantTake", mod) is mod
