"""Multiply two matrices, with a block that says what a reduction starts from."""

import numpy as np

from loomir.script import tir as T

N = 1024
INTERPRET = {"N": 48}


@T.prim_func
def matmul(
    A: T.Buffer((N, N), "float32"),
    B: T.Buffer((N, N), "float32"),
    C: T.Buffer((N, N), "float32"),
):
    for i, k, j in T.grid(N, N, N):
        with T.sblock("C"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def reference(A, B, C):
    return A.astype(np.float64) @ B.astype(np.float64)
