"""Tensors of numbers, and parts of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused

DTYPES = ["float16", BFLOAT16, "float32", "float64", "int8", "uint8", "int32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"], ids=str)
def test_filled(dtype: Any):
    name = str(np.dtype(dtype))
    x = np.zeros((2, 3), dtype)
    check_both(
        [x],
        [
            (lambda a: topi.full((2, 1), 1, name), np.full((2, 1), 1, dtype)),
            (lambda a: topi.zeros((0, 3), name), np.zeros((0, 3), dtype)),
            (lambda a: topi.ones((), name), np.ones((), dtype)),
            (lambda a: topi.zeros(4, name), np.zeros(4, dtype)),
            (lambda a: topi.full_like(a, 1), np.full_like(x, 1)),
            (topi.ones_like, np.ones_like(x)),
            (lambda a: topi.zeros_like(a, "int16"), np.zeros_like(x, "int16")),
        ],
    )


def test_filled_with_specials_and_scalars():
    nan, inf = float("nan"), float("inf")
    k = te.var("k", "int32")
    x = te.placeholder((2,), name="x")
    made = [topi.full((2,), nan), topi.full((2,), -inf, "float16"), topi.full_like(x, k + 1)]
    func = te.create_prim_func([x, k, *made])
    arrays = [np.zeros(2, d) for d in ("float32", "float32", "float16", "float32")]
    loomir.compile(func, opt_level=1)(arrays[0], 6, *arrays[1:])
    np.testing.assert_array_equal(arrays[1], [nan, nan])
    np.testing.assert_array_equal(arrays[2], [-inf, -inf])
    np.testing.assert_array_equal(arrays[3], [7, 7])


COUNTS = [
    *[(5,), (0,), (-2,), (2, 7), (7, 2), (2, 7, 2), (2, 8, 3), (7, 2, -2), (7, 1, -2), (3, 3, -1)],
    *[(-4, 5, 4), (0, 1, 100)],
]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float64", "float16"])
def test_counting(dtype: str):
    cases = [(lambda _, b=b: topi.arange(*b, dtype=dtype), np.arange(*b, dtype=dtype)) for b in COUNTS]  # fmt: skip
    if dtype.startswith("float"):
        for b in [(0, 1, 0.125), (1.5, -1, -0.5), (0.1, 0.9, 0.1), (2.5,)]:
            expected = np.arange(*b).astype(dtype)
            cases.append((lambda _, b=b: topi.arange(*b, dtype=dtype), expected))
    check_both([np.zeros(1, "float32")], cases)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_counting_to_a_symbolic_bound(size: int):
    n = te.size_var("n", "int32")
    bounds = [(0, n, 1), (n, -3, -2), (1, n, 2), (n, n + 4, 3), (n, 0, 1)]
    x = te.placeholder((n,), name="x")
    made = [topi.arange(*b, dtype="int32") for b in bounds]
    concrete = [np.arange(0, size), np.arange(size, -3, -2), np.arange(1, size, 2)]
    concrete += [np.arange(size, size + 4, 3), np.arange(size, 0, 1)]
    func = te.create_prim_func([x, *made])
    for run in (loomir.compile(func, opt_level=1), lambda *a: loomir.interpret(func, *a)):
        outs = [np.full(c.shape, 9, "int32") for c in concrete]
        run(np.zeros(size, "float32"), *outs)
        for actual, wanted in zip(outs, concrete, strict=True):
            np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", BFLOAT16], ids=str)
def test_diagonals(dtype: Any):
    name = str(np.dtype(dtype))
    shapes = [(3, None, 0), (3, 4, 1), (4, 2, -1), (2, 2, 5), (0, 3, 0), (1, 1, 0), (2, 3, -9)]
    check_both(
        [np.zeros(1, "float32")],
        [(lambda _, s=s: topi.eye(*s, dtype=name), np.eye(*s).astype(dtype)) for s in shapes],
    )


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (1, 1), (0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_triangles(shape: tuple[int, ...], dtype: str):
    x = (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(dtype)
    if dtype == "float32":
        x[..., -1:] = np.nan
        x[..., :1] = -np.inf
    cases = [(lambda a, k=k: topi.tril(a, k), np.tril(x, k)) for k in (-9, -1, 0, 1, 9)]
    cases += [(lambda a, k=k: topi.triu(a, k), np.triu(x, k)) for k in (-9, -1, 0, 1, 9)]
    check_both([x], cases)


def test_triangles_of_symbolic_size():
    x = np.arange(12, dtype="int32").reshape(3, 4)
    check([x], [(topi.tril, np.tril(x)), (lambda a: topi.triu(a, 1), np.triu(x, 1))], symbolic=True)


def test_mistakes():
    x = te.placeholder((3,), name="x")
    with refused("TE0104", "tril", "test_create.py"):
        topi.tril(x)
    with refused("TE0104", "step is 0", "test_create.py"):
        topi.arange(0, 4, 0)
    with refused("TE0104", "bool"):
        topi.arange(4, dtype="bool")
    with refused("TE0104", "finite bounds"):
        topi.arange(0.0, float("inf"))
    with refused("TE0104", "give integers"):
        topi.arange(te.var("n"), 0.5)
    with refused("TIR0103", "1.5", "test_create.py"):
        topi.full((3,), 1.5, "int32")
