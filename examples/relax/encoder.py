"""An encoder layer of a transformer, with several heads, for sequences of any length."""

from __future__ import annotations

from math import erf

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

HEADS, HEAD, HIDDEN = 2, 8, 32
WIDTH = HEADS * HEAD
SIZES = {"n": 6}


@I.ir_module
class Encoder:
    @R.function
    def main(
        x: R.Tensor(("n", WIDTH), "float32"),
        qkv: R.Tensor((WIDTH, 3 * WIDTH), "float32"),
        proj: R.Tensor((WIDTH, WIDTH), "float32"),
        gamma: R.Tensor((WIDTH,), "float32"),
        beta: R.Tensor((WIDTH,), "float32"),
        w1: R.Tensor((WIDTH, HIDDEN), "float32"),
        w2: R.Tensor((HIDDEN, WIDTH), "float32"),
    ) -> R.Tensor(("n", WIDTH), "float32"):
        n = T.int64()
        with R.dataflow():
            parts = R.split(R.matmul(x, qkv), 3, axis=1)
            q = R.permute_dims(R.reshape(parts[0], (n, HEADS, HEAD)), [1, 0, 2])
            k = R.permute_dims(R.reshape(parts[1], (n, HEADS, HEAD)), [1, 2, 0])
            v = R.permute_dims(R.reshape(parts[2], (n, HEADS, HEAD)), [1, 0, 2])
            weights = R.nn.softmax(R.matmul(q, k) * R.const(HEAD**-0.5, "float32"), axis=-1)
            heads = R.permute_dims(R.matmul(weights, v), [1, 0, 2])
            attended = R.matmul(R.reshape(heads, (n, WIDTH)), proj)
            y = R.nn.layer_norm(x + attended, gamma, beta, axes=[-1])
            out = y + R.matmul(R.nn.gelu(R.matmul(y, w1)), w2)
            R.output(out)
        return out


def gelu(x):
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def reference(x, qkv, proj, gamma, beta, w1, w2):
    q, k, v = (p.reshape(-1, HEADS, HEAD).swapaxes(0, 1) for p in np.split(x @ qkv, 3, axis=1))
    s = q @ k.swapaxes(1, 2) * HEAD**-0.5
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    heads = (e / e.sum(axis=-1, keepdims=True)) @ v
    a = x + heads.swapaxes(0, 1).reshape(-1, WIDTH) @ proj
    centred = a - a.mean(axis=-1, keepdims=True)
    y = centred / np.sqrt(a.var(axis=-1, keepdims=True) + 1e-5) * gamma + beta
    return y + gelu(y @ w1) @ w2
