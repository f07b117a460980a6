"""Operators of com.microsoft, against their formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from tests.frontend.onnx.models import model


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_skip_layer_normalization_gives_the_sum_too():
    text = """
    main (float[2, 3, 8] x, float[2, 3, 8] s) => (float[2, 3, 8] y, float[2, 3, 8] t) {
      y, , , t = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, s, g, b, c)
    }
    """
    weights = {"g": floats(8), "b": floats(8, seed=1), "c": floats(8, seed=2)}
    x, s = floats(2, 3, 8, seed=3), floats(2, 3, 8, seed=4)
    y, t = loomir.compile(loomir.onnx.load(model(text, weights)))(x, s)
    total = x + s + weights["c"]
    centred = total - total.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(t, total, rtol=1e-6)
    np.testing.assert_allclose(y, scaled * weights["g"] + weights["b"], rtol=1e-4, atol=1e-5)


def test_product_with_blocks_of_four_bits():
    text = """
    main (float[M, 40] x) => (float[M, 6] y) {
      y = com.microsoft.MatMulNBits <K = 40, N = 6, bits = 4, block_size = 32> (x, w, s, z)
    }
    """
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (6, 2, 16)).astype("uint8")
    zero = rng.integers(0, 256, (6,)).astype("uint8")
    scale = floats(12)
    x = floats(3, 40, seed=5)
    run = loomir.compile(
        loomir.onnx.load(model(text, {"w": packed, "s": scale, "z": zero}, version=17))
    )
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(6, 2, 32).astype("int32")
    points = np.stack([zero & 15, zero >> 4], -1).reshape(6, 2, 1).astype("int32")
    weights = ((codes - points) * scale.reshape(6, 2, 1)).reshape(6, 64)[:, :40]
    np.testing.assert_allclose(run(x), x @ weights.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_in_blocks_are_constant_or_not(bits: int, constant: bool):
    """Constant weights of 4 bits stay small in the program; others are unpacked as it runs."""
    inputs = "" if constant else f", uint8[6, 2, {4 * bits}] w"
    text = f"""
    main (float[M, 50] x{inputs}) => (float[M, 6] y) {{
      y = com.microsoft.MatMulNBits <K = 50, N = 6, bits = {bits}, block_size = 32> (x, w, s)
    }}
    """
    packed = np.random.default_rng(1).integers(0, 256, (6, 2, 4 * bits)).astype("uint8")
    scale, x = floats(12), floats(3, 50, seed=5)
    given: dict[str, Any] = {"s": scale, **({"w": packed} if constant else {})}
    run = loomir.compile(loomir.onnx.load(model(text, given, version=17)))
    codes = packed.reshape(6, 2, 32) if bits == 8 else np.stack([packed & 15, packed >> 4], -1)
    whole = codes.reshape(6, 2, 32).astype("int32") - (1 << (bits - 1))
    weights = (whole * scale.reshape(6, 2, 1)).reshape(6, 64)[:, :50]
    made = run(x) if constant else run(x, packed)
    np.testing.assert_allclose(made, x @ weights.T, rtol=1e-4, atol=1e-2)
