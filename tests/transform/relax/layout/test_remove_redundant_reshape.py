"""Tensors are reshaped once, or not at all."""

from __future__ import annotations

from typing import Any

import loomir
from loomir import op, relax
from loomir.ir.passes import PASSES, apply
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied
from tests.transform.relax.test_lowering import calls, described, program, random

N = ShapeVar("n", "int64")


def made(build: Any) -> list[str]:
    mod = applied("RemoveRedundantReshape", program(build, [described((N, 4))]), random(3, 4))
    return calls(apply(PASSES["relax.DeadCodeElimination"], mod))


def test_what_is_reshaped_twice_is_reshaped_once():
    def build(b: Any, x: Any) -> Any:
        y = b.emit(op.reshape(x, (N * 4,)))
        y = b.emit(op.reshape(y, (4, N)))
        return op.exp(b.emit(op.reshape(y, (2, N * 2))))

    assert made(build) == ["reshape", "exp"]


def test_a_way_back_goes():
    def build(b: Any, x: Any) -> Any:
        y = b.emit(op.reshape(x, (N * 4,)))
        return op.exp(b.emit(op.reshape(y, (N, 4))))

    assert made(build) == ["exp"]


def test_a_result_stays_a_tensor_of_its_own():
    mod = program(lambda b, x: op.reshape(x, (3, 4)), [described((3, 4))])
    made = applied("RemoveRedundantReshape", mod)
    assert made is mod
    x = random(3, 4)
    result = loomir.interpret(made, "main", x)
    result[0] = 7
    assert x[0, 0] != 7


def test_a_tensor_that_leaves_in_a_tuple_stays_its_own():
    def build(b: Any, x: Any) -> Any:
        return relax.Tuple((b.emit(op.reshape(x, (N, 4))), x))

    assert made(build) == ["reshape"]
