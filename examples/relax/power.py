"""A function that calls itself: the product of a matrix with itself, as often as a tensor says."""

from __future__ import annotations

import numpy as np

from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T

N = 4


@I.ir_module
class Power:
    @T.prim_func(private=True)
    def matmul(
        A: T.Buffer((N, N), "float32"),
        B: T.Buffer((N, N), "float32"),
        C: T.Buffer((N, N), "float32"),
    ):
        for i, j in T.grid(N, N):
            C[i, j] = T.float32(0)
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]

    @R.function
    def main(x: R.Tensor((N, N), "float32"), times: R.Tensor((), "int64")) -> R.Tensor(
        (N, N), "float32"
    ):
        last = R.less_equal(times, R.const(0, "int64"))
        if last:
            y = R.eye(N, N, 0, "float32")
        else:
            fewer = R.subtract(times, R.const(1, "int64"))
            rest = cls.main(x, fewer)
            y = R.call_tir(cls.matmul, (x, rest), out_sinfo=R.Tensor((N, N), "float32"))
        return y


def inputs(rng):
    return {"x": rng.uniform(-1, 1, (N, N)).astype("float32"), "times": np.array(5)}


def reference(x, times):
    return np.linalg.matrix_power(x, int(times))
