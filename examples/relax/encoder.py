"""An encoder layer of a transformer, for sequences of any length."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

WIDTH, HIDDEN = 8, 16
SIZES = {"n": 6}


@I.ir_module
class Encoder:
    @T.prim_func(private=True)
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (m, k), "float32")
        B = T.match_buffer(b, (k, n), "float32")
        C = T.match_buffer(c, (m, n), "float32")
        for i, j in T.grid(m, n):
            C[i, j] = T.float32(0)
            for p in range(k):
                C[i, j] += A[i, p] * B[p, j]

    @R.function
    def main(
        x: R.Tensor(("n", WIDTH), "float32"),
        wq: R.Tensor((WIDTH, WIDTH), "float32"),
        wk: R.Tensor((WIDTH, WIDTH), "float32"),
        wv: R.Tensor((WIDTH, WIDTH), "float32"),
        w1: R.Tensor((WIDTH, HIDDEN), "float32"),
        w2: R.Tensor((HIDDEN, WIDTH), "float32"),
    ) -> R.Tensor(("n", WIDTH), "float32"):
        n = T.int64()
        with R.dataflow():
            q = R.call_tir(cls.matmul, (x, wq), out_sinfo=R.Tensor((n, WIDTH), "float32"))
            k = R.call_tir(cls.matmul, (x, wk), out_sinfo=R.Tensor((n, WIDTH), "float32"))
            v = R.call_tir(cls.matmul, (x, wv), out_sinfo=R.Tensor((n, WIDTH), "float32"))
            kt = R.permute_dims(k, [1, 0])
            s = R.call_tir(cls.matmul, (q, kt), out_sinfo=R.Tensor((n, n), "float32"))
            scaled = R.multiply(s, R.const(WIDTH**-0.5, "float32"))
            e = R.exp(R.subtract(scaled, R.max(scaled, axis=[1], keepdims=True)))
            p = R.divide(e, R.sum(e, axis=[1], keepdims=True))
            attended = R.call_tir(cls.matmul, (p, v), out_sinfo=R.Tensor((n, WIDTH), "float32"))
            a = R.add(x, attended)
            centred = R.subtract(a, R.mean(a, axis=[1], keepdims=True))
            spread = R.add(R.variance(a, axis=[1], keepdims=True), R.const(1e-5, "float32"))
            y = R.multiply(centred, R.rsqrt(spread))
            h = R.call_tir(cls.matmul, (y, w1), out_sinfo=R.Tensor((n, HIDDEN), "float32"))
            active = R.maximum(h, R.const(0, "float32"))
            fed = R.call_tir(cls.matmul, (active, w2), out_sinfo=R.Tensor((n, WIDTH), "float32"))
            out = R.add(y, fed)
            R.output(out)
        return out


def reference(x, wq, wk, wv, w1, w2):
    s = (x @ wq) @ (x @ wk).T * WIDTH**-0.5
    e = np.exp(s - s.max(axis=1, keepdims=True))
    a = x + e / e.sum(axis=1, keepdims=True) @ (x @ wv)
    y = (a - a.mean(axis=1, keepdims=True)) / np.sqrt(a.var(axis=1, keepdims=True) + 1e-5)
    return y + np.maximum(y @ w1, 0) @ w2
