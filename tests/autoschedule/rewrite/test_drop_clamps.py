"""Clamps of indices are dropped exactly where the condition around a load implies them."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.tir.expr import Max, Min, Select
from loomir.tir.function import PrimFunc


def kernel(value: str) -> PrimFunc:
    func = from_source(f"""
from loomir.script import tir as T
@T.prim_func
def main(x: T.Buffer((40,), "float32"), w: T.Buffer((3,), "float32"), o: T.Buffer((40,), "float32")):
    for i in range(40):
        o[i] = T.float32(0)
        for k in range(3):
            o[i] += {value} * w[k]
""")
    assert isinstance(func, PrimFunc)
    return func


def has_clamps(func: PrimFunc) -> bool:
    (stage,) = lift_function(func).parts
    found = by_class(stage.value)  # type: ignore[union-attr]
    return Max in found or Min in found or Select in found


BOTH = "x[T.max(T.min(i + k - 1, 39), 0)]"
ZERO = "T.float32(0)"


@pytest.mark.parametrize(
    "value",
    [
        f"T.Select(i + k >= 1 and i + k < 41, {BOTH}, {ZERO})",
        f"T.Select(0 <= i + k - 1 and i + k - 1 <= 39, x[T.min(T.max(0, i + k - 1), 39)], {ZERO})",
        f"T.Select(i + k - 1 < 0 or 39 < i + k - 1, {ZERO}, {BOTH})",
        f"T.if_then_else(i + k > 3 and i + k < 20, {BOTH}, {ZERO})",
    ],
)
def test_a_condition_makes_clamps_superfluous(value: str) -> None:
    func = kernel(value)
    assert not has_clamps(func)
    numbers = np.random.default_rng(1)
    x, w = (numbers.integers(-4, 5, n).astype("float32") for n in (40, 3))
    found = []
    for way in (True, False):
        out = np.zeros(40, "float32")
        loomir.compile(func, schedule=way)(x, w, out)
        found.append(out)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "value",
    [
        f"T.Select(i + k >= 1, {BOTH}, {ZERO})",  # the other end is clamped
        f"T.Select(i + k >= 0 and i + k < 41, {BOTH}, {ZERO})",  # one element more
        f"T.Select(i + k >= 1 and i + k < 42, {BOTH}, {ZERO})",
        f"T.Select(i + k >= 1 or i + k < 41, {BOTH}, {ZERO})",
        f"T.Select(i + k >= 1 and i + k < 41, {ZERO}, {BOTH})",
        f"T.Select(i >= 1 and i < 39, x[T.max(T.min(k - 1, 39), 0)], {ZERO})",  # of another axis
    ],
)
def test_other_clamps_stay(value: str) -> None:
    assert has_clamps(kernel(value))
