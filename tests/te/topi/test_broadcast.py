"""Operators on pairs of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, SPECIAL, check
from tests.tir.refusal import refused

ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum"]
DIVISION = ["floor_divide", "remainder", "fmod"]
COMPARISON = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
FLOATS = ["divide", "arctan2", "hypot", "copysign", "nextafter", "power"]


def ours(name: str):
    return getattr(topi, name.replace("arc", "a"))


def with_numpy(names: Any, x: Any, y: Any):
    with np.errstate(all="ignore"):
        return [(ours(n), getattr(np, n)(x, y)) for n in names]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pairs_of_special_floats(dtype: str):
    values = [*SPECIAL, 0.1, 0.3, -0.1, 7.0]
    x = np.array(values, dtype).reshape(-1, 1)
    y = x.reshape(1, -1)
    check([x, y], with_numpy([*ARITHMETIC, *DIVISION, *COMPARISON, *FLOATS], x, y))


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
def test_pairs_of_short_floats(dtype: Any):
    x = np.array([1.5, -2.25, 7, 100]).astype(dtype).reshape(-1, 1)
    y = np.array([0.5, -3, 2]).astype(dtype)
    wide = x.astype("float32"), y.astype("float32")
    cases = with_numpy([*ARITHMETIC, *DIVISION, "divide", "power", "hypot"], *wide)
    check([x, y], [(f, e.astype(dtype)) for f, e in cases])
    check([x, y], with_numpy(COMPARISON, *wide))


def test_quotient_and_remainder_belong_together():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(500) * 10.0 ** rng.integers(-3, 4, 500)).astype("float32")
    y = (rng.standard_normal(500) * 10.0 ** rng.integers(-3, 4, 500)).astype("float32")
    check([x, y], with_numpy(["floor_divide", "remainder"], x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_pairs_of_integers(dtype: str):
    limits = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, limits.max, limits.min, limits.max - 1]
    x = np.array([*values, -3 if limits.min else 5], dtype).reshape(-1, 1)
    y = x.reshape(1, -1)
    bits = ["bitwise_and", "bitwise_or", "bitwise_xor"]
    check([x, y], with_numpy([*ARITHMETIC, *COMPARISON, *bits], x, y))
    nonzero = y[y != 0].reshape(1, -1)
    check([x, nonzero], with_numpy(DIVISION, x, nonzero))
    steps = np.array([0, 1, limits.bits - 1, limits.bits, limits.bits + 1], dtype)
    check([x, steps], with_numpy(["left_shift", "right_shift"], x, steps))


def test_pairs_of_truths():
    x = np.array([[True], [False]])
    y = np.array([True, False])
    names = ["logical_and", "logical_or", "logical_xor", "equal", "less"]
    check([x, y], with_numpy([*names, "bitwise_and", "bitwise_or", "bitwise_xor"], x, y))


def test_numbers_take_the_dtype_of_the_tensor():
    x = np.array([1, -2, 3], "int8")
    check([x], [(lambda a: topi.add(a, 2), x + np.int8(2)), (lambda a: topi.less(0, a), x > 0)])
    y = x.astype("float16")
    check([y], [(lambda a: topi.divide(1, a), (1 / y).astype("float16"))])


SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 3), (1,)), ((1,), (1, 1))]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_shapes_that_broadcast(a: tuple[int, ...], b: tuple[int, ...]):
    x, y = np.full(a, 2, "float32"), np.full(b, 3, "float32")
    check([x, y], [(topi.add, x + y), (topi.less, x < y)])
    check([x, y], [(topi.add, x + y)], symbolic=True)


def test_broadcast_to():
    x = np.arange(3, dtype="int32").reshape(3, 1)
    shapes = [(3, 1), (3, 4), (2, 3, 4), (0, 3, 2)]
    check([x], [(lambda a, s=s: topi.broadcast_to(a, s), np.broadcast_to(x, s)) for s in shapes])


def test_a_division_of_integers_by_zero_raises():
    x = np.array([1], "int32")
    a, b = te.placeholder((1,), "int32", "a"), te.placeholder((1,), "int32", "b")
    run = loomir.compile(te.create_prim_func([a, b, topi.floor_divide(a, b)]))
    with pytest.raises(ZeroDivisionError):
        run(x, x * 0, x.copy())


def test_mistakes():
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((2, 3), name="x")
    with refused("TE0101", "add: shapes (2, 3) and (4,) do not fit"):
        topi.add(x, te.placeholder((4,)))
    with refused("TE0101", "(n,) and (m,)"):
        topi.add(te.placeholder((n,)), te.placeholder((m,)))
    with refused("TE0101", "(2, 3) and (3,)"):
        topi.broadcast_to(x, (3,))
    with refused("TE0101", "(2, 3) and (1, 3)"):
        topi.broadcast_to(x, (1, 3))
    with refused("TE0103", "float32 and int32"):
        topi.add(x, te.placeholder((3,), "int32"))
    with refused("TE0103", "divide takes floats"):
        topi.divide(topi.cast(x, "int32"), 2)
    with refused("TE0104", "neither operand"):
        topi.add(1, 2)
    with refused("TIR0103", "test_broadcast.py"):
        topi.add(topi.cast(x, "int8"), 200)
