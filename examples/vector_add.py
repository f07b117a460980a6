"""Add two vectors of any length."""

from loomir.script import tir as T

SIZES = {"n": 1_000_003}


@T.prim_func
def vector_add(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        C[i] = A[i] + B[i]


def reference(A, B, C):
    return A + B
