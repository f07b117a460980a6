"""Operators of com.microsoft on small integers, and fused ones, against formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from tests.frontend.onnx.models import model


def run(text: str, constants: dict[str, Any], *inputs: Any) -> Any:
    return loomir.compile(loomir.onnx.load(model(text, constants)))(*inputs)


def small(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def quantise(x: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.round(x / np.float32(scale)) + zero, info.min, info.max)


def nearly_equal(made: Any, expected: np.ndarray, dtype: str) -> None:
    """Compare integers, of which a tie may round to either side."""
    assert made.dtype == dtype
    assert np.abs(made.astype("int32") - expected).max() <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("operator", "of"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
def test_of_two(operator: str, of: Any, dtype: str):
    named = {"int8": "int8", "uint8": "uint8"}[dtype]
    text = f"""
    main ({named}[N, 4] a, {named}[4] b) => ({named}[N, 4] y) {{
      y = com.microsoft.{operator} (a, as, az, b, bs, bz, ys, yz)
    }}
    """
    scales = {"as": np.float32(0.1), "bs": np.float32(0.2), "ys": np.float32(0.9)}
    zeros = {n: np.array(z, dtype) for n, z in (("az", 5), ("bz", 7), ("yz", 3))}
    a, b = small(dtype, 3, 4), small(dtype, 4, seed=1)
    floats_a = (a.astype("float32") - 5) * np.float32(0.1)
    floats_b = (b.astype("float32") - 7) * np.float32(0.2)
    want = quantise(of(floats_a, floats_b), 0.9, 3, dtype)
    nearly_equal(run(text, scales | zeros, a, b), want, dtype)


def test_concatenation_brings_its_parts_to_one_scale():
    text = """
    main (uint8[N, 3] a, uint8[N, 2] b) => (uint8[N, 5] y) {
      y = com.microsoft.QLinearConcat <axis = 1> (ys, yz, a, as, az, b, bs, bz)
    }
    """
    scales = {"as": np.float32(0.1), "bs": np.float32(0.2), "ys": np.float32(0.15)}
    zeros = {n: np.uint8(z) for n, z in (("az", 5), ("bz", 7), ("yz", 3))}
    a, b = small("uint8", 4, 3), small("uint8", 4, 2, seed=1)
    whole = [(a.astype("float32") - 5) * 0.1, (b.astype("float32") - 7) * 0.2]
    want = quantise(np.concatenate(whole, 1), 0.15, 3, "uint8")
    nearly_equal(run(text, scales | zeros, a, b), want, "uint8")


def test_average_of_windows_with_channels_last():
    text = """
    main (int8[1, 6, 6, 3] x) => (int8[1, 3, 3, 3] y) {
      y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], strides = [2, 2],
                                            channels_last = 1> (x, s, z, s, o)
    }
    """
    x = small("int8", 1, 6, 6, 3)
    constants = {"s": np.float32(0.1), "z": np.int8(5), "o": np.int8(0)}
    means = (x.astype("float32") - 5).reshape(1, 3, 2, 3, 2, 3).mean((2, 4)) * np.float32(0.1)
    nearly_equal(run(text, constants, x), quantise(means, 0.1, 0, "int8"), "int8")


def test_product_that_quantises_its_left_side_when_it_runs():
    text = """
    main (float[M, 8] a) => (float[M, 5] y) {
      y = com.microsoft.DynamicQuantizeMatMul (a, b, s, z, c)
    }
    """
    a, b, c = floats(3, 8), small("int8", 8, 5), floats(5, seed=2)
    scale, zero = np.abs(floats(5, seed=3)), small("int8", 5, seed=4)
    made = run(text, {"b": b, "s": scale, "z": zero, "c": c}, a)
    step = (max(a.max(), 0) - min(a.min(), 0)) / np.float32(255)
    point = np.round(-min(a.min(), 0) / step)
    codes = np.clip(np.round(a / step) + point, 0, 255)
    want = (codes - point) @ (b.astype("float32") - zero) * (step * scale) + c
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-3)


def test_gemm_of_integers_with_floats_out():
    text = """
    main (uint8[M, 8] a) => (float[M, 5] y) {
      y = com.microsoft.QGemm <transB = 1, alpha = 0.5> (a, as, az, b, bs, bz, c)
    }
    """
    a, b = small("uint8", 3, 8), small("int8", 5, 8, seed=1)
    c = np.arange(5, dtype="int32")
    constants = {
        "as": np.float32(0.1),
        "az": np.uint8(3),
        "b": b,
        "bs": np.float32(0.2),
        "bz": np.int8(4),
        "c": c,
    }
    sums = (a.astype("int32") - 3) @ (b.astype("int32") - 4).T + c
    np.testing.assert_allclose(run(text, constants, a), sums * 0.01, rtol=1e-5)


def test_convolution_with_a_residual_and_an_activation():
    text = """
    main (float[1, 3, 6, 6] x, float[1, 4, 6, 6] r) => (float[1, 4, 6, 6] y) {
      y = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.1],
                                   pads = [1, 1, 1, 1]> (x, w, b, r)
    }
    """
    plain = """
    main (float[1, 3, 6, 6] x) => (float[1, 4, 6, 6] y) { y = Conv <pads = [1, 1, 1, 1]> (x, w, b) }
    """
    weights = {"w": floats(4, 3, 3, 3), "b": floats(4, seed=1)}
    x, r = floats(1, 3, 6, 6, seed=2), floats(1, 4, 6, 6, seed=3)
    total = run(plain, weights, x) + r
    want = np.where(total >= 0, total, total * np.float32(0.1))
    np.testing.assert_allclose(run(text, weights, x, r), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("batch", "last"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_product_of_transposed_factors(batch: int, last: int):
    text = f"""
    main (float[P, Q, R, S] a, float[2, 3, 5, 6] b) => (float[2, 3, 4, 6] y) {{
      y = com.microsoft.FusedMatMul <alpha = 0.5, transA = {last}, transBatchA = {batch}> (a, b)
    }}
    """
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6, seed=1)
    stored = a.swapaxes(2, 3) if last else a
    stored = np.ascontiguousarray(stored.transpose(2, 0, 1, 3) if batch else stored)
    np.testing.assert_allclose(run(text, {}, stored, b), 0.5 * a @ b, rtol=1e-4, atol=1e-5)


def test_sum_of_embeddings_that_is_normalised():
    text = """
    main (int32[B, S] x, int32[B, S] t, int32[B, S] m) => (float[B, S, 8] y, int32[B] n) {
      y, n = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> (x, t, w, p, s, g, b, m)
    }
    """
    rng = np.random.default_rng(0)
    tables = {"w": floats(9, 8), "p": floats(7, 8, seed=1), "s": floats(2, 8, seed=2)}
    g, b = floats(8, seed=3), floats(8, seed=4)
    x, t = rng.integers(0, 9, (2, 5), "int32"), rng.integers(0, 2, (2, 5), "int32")
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], "int32")
    y, counts = run(text, tables | {"g": g, "b": b}, x, t, mask)
    total = tables["w"][x] + tables["p"][:5] + tables["s"][t]
    centred = total - total.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * g + b
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    assert counts.tolist() == [3, 5]
