"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def values(shape: Any, dtype: str = "float32"):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 1)), ((6, 1, 3, 4), (2, 4, 5)), ((2, 1, 4), (1, 4, 5)), ((3, 1), (1, 5)),
    ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul_broadcasts_as_numpy(a: tuple[int, ...], b: tuple[int, ...]):
    x, y = values(a), values(b)
    check([x, y], [(topi.matmul, x @ y)])
    check([x, y], [(topi.matmul, x @ y)], symbolic=True)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float64"])
def test_matmul_of_dtypes(dtype: str):
    x, y = values((3, 40), dtype), values((40, 2), dtype)
    check([x, y], [(topi.matmul, x @ y)])


def test_results_of_wider_dtypes():
    x, y = values((3, 40), "int8") * 40, values((40, 2), "int8") * 40
    wide = x.astype("int32") @ y.astype("int32")
    check([x, y], [(lambda a, b: topi.matmul(a, b, out_dtype="int32"), wide)])


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
def test_short_floats_are_rounded_once(dtype: Any):
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 500)).astype(dtype), rng.random((500, 3)).astype(dtype)
    wide = x.astype("float64") @ y.astype("float64")
    cases = [(topi.matmul, wide.astype(dtype))]
    check([x, y], [*cases, (lambda a, b: topi.einsum("ik,kj", a, b), wide.astype(dtype))])


def test_special_values():
    x = np.array([[np.inf, 1], [np.nan, 1], [0, 2]], "float32")
    y = np.array([[0, 1], [1, 1]], "float32")
    with np.errstate(all="ignore"):
        check([x, y], [(topi.matmul, x @ y)])


def test_linear_layers():
    x, w, b = values((2, 3, 4)), values((5, 4)), values((5,))
    check([x, w, b], [(topi.dense, x @ w.T + b), (lambda a, c, _: topi.dense(a, c), x @ w.T)])
    check([x, w, b], [(topi.dense, x @ w.T + b)], symbolic=True)


def test_batches():
    a, b = values((2, 3, 4)), values((2, 4, 5))
    transposed = [np.ascontiguousarray(v.transpose(0, 2, 1)) for v in (a, b)]
    check([a, b], [(topi.batch_matmul, a @ b)])
    check([a, b[:1]], [(topi.batch_matmul, a @ b[:1])])
    check(transposed, [(lambda x, y: topi.batch_matmul(x, y, True, True), a @ b)])


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ij->", [(2, 3)]),
        ("b a, b", [(3, 2), (3,)]),
        ("ij,j->i", [(2, 0), (0,)]),
    ],
)
def test_einsum(text: str, shapes: Any):
    arrays = [values(s) for s in shapes]
    check(arrays, [(lambda *t: topi.einsum(text, *t), np.einsum(text, *arrays))])
    check(arrays, [(lambda *t: topi.einsum(text, *t), np.einsum(text, *arrays))], symbolic=True)


def test_mistakes():
    n = te.size_var("n")
    x, y = te.placeholder((2, 3), name="x"), te.placeholder((4, 5), name="y")
    with refused("TE0101", "matmul: shapes (2, 3) and (4, 5)"):
        topi.matmul(x, y)
    with refused("TE0101", "(2, n)"):
        topi.matmul(te.placeholder((2, n)), y)
    with refused("TE0103", "float32 and float16"):
        topi.matmul(x, te.placeholder((3, 5), "float16"))
    with refused("TE0104", "no axes"):
        topi.matmul(x, te.placeholder(()))
    with refused("TE0101"):
        topi.dense(x, y)
    with refused("TE0101"):
        topi.batch_matmul(x, y)
    for text in ("ij,jk->iik", "ij", "i.j,jk", "ij,jk->il", "ij,j"):
        with refused("TE0104", "einsum"):
            topi.einsum(text, x, y)
    with refused("TE0101", "einsum"):
        topi.einsum("ij,jk", x, y)
