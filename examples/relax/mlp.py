"""A perceptron of two layers: kernels in TIR, the graph around them in Relax."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

INPUTS, HIDDEN, OUTPUTS = 12, 16, 4
SIZES = {"batch": 5}


@I.ir_module
class MLP:
    @T.prim_func(private=True)
    def linear(x: T.handle, weight: T.handle, bias: T.handle, y: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (m, k), "float32")
        W = T.match_buffer(weight, (n, k), "float32")
        B = T.match_buffer(bias, (n,), "float32")
        Y = T.match_buffer(y, (m, n), "float32")
        for i, j in T.grid(m, n):
            Y[i, j] = B[j]
            for p in range(k):
                Y[i, j] += X[i, p] * W[j, p]

    @R.function
    def main(
        x: R.Tensor(("batch", INPUTS), "float32"),
        w1: R.Tensor((HIDDEN, INPUTS), "float32"),
        b1: R.Tensor((HIDDEN,), "float32"),
        w2: R.Tensor((OUTPUTS, HIDDEN), "float32"),
        b2: R.Tensor((OUTPUTS,), "float32"),
    ) -> R.Tensor(("batch", OUTPUTS), "float32"):
        batch = T.int64()
        with R.dataflow():
            h = R.call_tir(cls.linear, (x, w1, b1), out_sinfo=R.Tensor((batch, HIDDEN), "float32"))
            active = R.maximum(h, R.const(0, "float32"))
            y = R.call_tir(
                cls.linear, (active, w2, b2), out_sinfo=R.Tensor((batch, OUTPUTS), "float32")
            )
            R.output(y)
        return y


def reference(x, w1, b1, w2, b2):
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
