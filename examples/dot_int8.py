"""The inner product of two int8 vectors, summed in int32."""

import numpy as np

from loomir.script import tir as T

SIZES = {"n": 100_000}


@T.prim_func
def dot(a: T.handle, b: T.handle, out: T.Buffer((1,), "int32")):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int8")
    B = T.match_buffer(b, (n,), "int8")
    out[0] = 0
    for i in range(n):
        out[0] += T.cast(A[i], "int32") * T.cast(B[i], "int32")


def reference(A, B, out):
    return np.array([A.astype(np.int32) @ B.astype(np.int32)])
