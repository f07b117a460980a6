"""Attention of com.microsoft, with its masks, caches and rotations, against formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.support.diagnostics import CompileError
from tests.frontend.onnx.models import model

B, S, H, D = 2, 5, 4, 8


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def split(x: np.ndarray, heads: int = H) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: Any = 0.0) -> np.ndarray:
    """Attend in the layout (B, H, S, D); return (B, S, H * E)."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    made = weights / weights.sum(-1, keepdims=True) @ v
    return made.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)


def causal(queries: int, keys: int) -> np.ndarray:
    return np.where(np.tril(np.ones((queries, keys)), keys - queries), 0.0, -np.inf)


def run(text: str, constants: dict[str, Any], *inputs: Any) -> Any:
    return loomir.compile(loomir.onnx.load(model(text, constants)))(*inputs)


def near(made: Any, expected: Any) -> None:
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


W, BIAS = floats(16, 3 * H * D, seed=1) * np.float32(0.3), floats(3 * H * D, seed=2)
X = floats(B, S, 16, seed=3)


def projected() -> list[np.ndarray]:
    return [split(p) for p in np.split(X @ W + BIAS, 3, -1)]


@pytest.mark.parametrize(
    ("mask", "shown"),
    [
        ([[1, 1, 1, 0, 0], [1] * 5], [[1, 1, 1, 0, 0], [1] * 5]),
        ([3, 5], [[1, 1, 1, 0, 0], [1] * 5]),
        ([3, 5, 1, 0], [[0, 1, 1, 0, 0], [1] * 5]),
    ],
)
def test_masks_of_keys(mask: Any, shown: Any):
    mask = np.array(mask, "int32")
    dims = "B, S" if mask.ndim == 2 else str(mask.shape[0])
    inputs = "float[B, S, 16] x" if mask.ndim == 2 else "float[2, S, 16] x"
    text = f"""
    main ({inputs}, int32[{dims}] m) => (float[B, S, 32] y) {{
      y = com.microsoft.Attention <num_heads = 4> (x, w, b, m)
    }}
    """
    bias = np.where(np.array(shown), 0.0, -10000.0)[:, None, None]
    near(run(text, {"w": W, "b": BIAS}, X, mask), attend(*projected(), bias))


def test_attention_with_a_past_is_causal_from_its_end():
    text = """
    main (float[B, S, 16] x, float[2, B, 4, P, 8] p) => (float[B, S, 32] y, float[2, B, 4, T, 8] q) {
      y, q = com.microsoft.Attention <num_heads = 4, unidirectional = 1> (x, w, b, , p)
    }
    """
    past = floats(2, B, H, 3, D, seed=4)
    y, present = run(text, {"w": W, "b": BIAS}, X, past)
    q, k, v = projected()
    k, v = (np.concatenate([p, x], 2) for p, x in zip(past, (k, v)))
    near(present, np.stack([k, v]))
    near(y, attend(q, k, v, causal(S, S + 3)))


def test_multi_head_attention_adds_its_bias_before_the_past():
    text = """
    main (float[2, 5, 32] q, float[2, 5, 32] k, float[2, 5, 32] v, float[2, 4, 3, 8] pk,
          float[2, 4, 3, 8] pv) => (float[2, 5, 32] y, float[2, 4, 8, 8] nk, float[2, 4, 8, 8] nv) {
      y, nk, nv = com.microsoft.MultiHeadAttention <num_heads = 4> (q, k, v, b, , , pk, pv)
    }
    """
    q, k, v = (floats(B, S, H * D, seed=i) for i in range(3))
    past = [floats(B, H, 3, D, seed=i) for i in (5, 6)]
    y, keys, values = run(text, {"b": BIAS}, q, k, v, *past)
    q, k, v = (split(x + b) for x, b in zip((q, k, v), np.split(BIAS, 3)))
    k, v = (np.concatenate([p, x], 2) for p, x in zip(past, (k, v)))
    near(keys, k)
    near(values, v)
    near(y, attend(q, k, v))


@pytest.mark.parametrize(("interleaved", "part"), [(0, 8), (1, 8), (0, 4), (1, 4)])
def test_rotary_embedding(interleaved: int, part: int):
    text = f"""
    main (float[B, S, 32] x, int64[B, S] p) => (float[B, S, 32] y) {{
      y = com.microsoft.RotaryEmbedding <interleaved = {interleaved}, num_heads = 4,
                                         rotary_embedding_dim = {part}> (x, p, c, s)
    }}
    """
    angles = np.arange(20)[:, None] / 100.0 ** np.arange(part // 2)
    cos, sin = np.cos(angles).astype("float32"), np.sin(angles).astype("float32")
    places = np.random.default_rng(0).integers(0, 20, (B, S))
    x = floats(B, S, H * D)
    made = run(text, {"c": cos, "s": sin}, x, places)
    rows = x.reshape(B, S, H, D)
    pairs = rows[..., :part].reshape(B, S, H, *((-1, 2) if interleaved else (2, -1)))
    axis = 4 if interleaved else 3
    a, b = np.moveaxis(pairs, axis, 0)
    turn = np.exp(1j * angles[places])[:, :, None] * (a + 1j * b)
    want = np.stack([turn.real, turn.imag], axis).reshape(B, S, H, part)
    near(made, np.concatenate([want, rows[..., part:]], -1).reshape(x.shape))


def test_group_query_attention_keeps_a_length_for_each_item():
    text = """
    main (float[2, 1, 32] q, float[2, 1, 16] k, float[2, 1, 16] v, float[2, 2, P, 8] pk,
          float[2, 2, P, 8] pv, int32[2] n)
         => (float[2, 1, 32] y, float[2, 2, T, 8] nk, float[2, 2, T, 8] nv) {
      y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2,
                                       local_window_size = 4> (q, k, v, pk, pv, n, t)
    }
    """
    q, k, v = floats(2, 1, 32), floats(2, 1, 16, seed=1), floats(2, 1, 16, seed=2)
    past = [floats(2, 2, 6, 8, seed=i) for i in (3, 4)]
    ends = np.array([4, 7], "int32")
    y, keys, values = run(text, {"t": np.int32(7)}, q, k, v, *past, ends - 1)
    assert keys.shape == values.shape == (2, 2, 7, 8)
    for item, end in enumerate(ends):
        fresh = [split(x, 2)[item] for x in (k, v)]
        whole = [np.concatenate([p[item, :, : end - 1], x], 1) for p, x in zip(past, fresh)]
        near(keys[item, :, :end], whole[0])
        near(values[item, :, :end], whole[1])
        seen = [np.repeat(x[:, -4:], 2, 0)[None] for x in whole]
        near(y[item], attend(split(q)[item][None], *seen)[0])


def test_what_is_not_supported_is_told():
    text = """
    main (float[2, 5, 32] q, float[2, 5, 32] k, float[2, 5, 32] v) => (float[2, 5, 32] y) {
      y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 4, softcap = 30.0>
          (q, k, v, , , n, t)
    }
    """
    with pytest.raises(CompileError, match=r"its softcap is 30\.0, and only 0\.0 is supported"):
        loomir.onnx.load(model(text, {"n": np.zeros(2, "int32"), "t": np.int32(5)}))
