"""Determinants of batches of matrices, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from tests.frontend.onnx.models import model

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("kind", "dims"),
    [
        ("float", (3, 3)),
        ("double", (2, 3, 7, 7)),
        ("float16", (4, 2, 2)),
        ("double", (1, 1)),
        ("double", (100, 100)),
    ],
)
def test_determinants(kind: str, dims: tuple[int, ...]):
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    x = (RNG.standard_normal(dims) / np.sqrt(dims[-1])).astype(dtype)
    shape = ", ".join(map(str, dims))
    outer = ", ".join(map(str, (1, *dims[:-2])))  # the parser knows no tensors without axes
    text = (
        f"main ({kind}[{shape}] x) => ({kind}[{outer}] y) {{\nd = Det(x)\ny = Unsqueeze(d, a)\n}}"
    )
    made = model(text, {"a": np.zeros(1, "int64")})
    (got,) = loomir.compile(loomir.onnx.load(made))(x)
    wanted = np.linalg.det(x.astype("float64"))
    assert got.dtype == dtype
    tolerance = {"float16": 2e-3, "float32": 1e-5}.get(dtype, 1e-12)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * abs(wanted).max())


def test_rows_are_exchanged_and_singular_matrices_have_none():
    x = np.array([[[0.0, 2], [3, 1]], [[1, 2], [2, 4]], [[0, 0], [0, 0]]])
    made = model("main (double[3, 2, 2] x) => (double[3] y) {\ny = Det(x)\n}")
    assert loomir.compile(loomir.onnx.load(made))(x).tolist() == [-6, 0, 0]
