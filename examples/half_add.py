"""Add vectors of float16 and of bfloat16; every sum is rounded once."""

from loomir.script import tir as T

SIZES = {"n": 100_003}


@T.prim_func
def add_float16(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float16")
    B = T.match_buffer(b, (n,), "float16")
    C = T.match_buffer(c, (n,), "float16")
    for i in range(n):
        C[i] = A[i] + B[i]


@T.prim_func
def add_bfloat16(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "bfloat16")
    B = T.match_buffer(b, (n,), "bfloat16")
    C = T.match_buffer(c, (n,), "bfloat16")
    for i in range(n):
        C[i] = A[i] + B[i]


def reference(A, B, C):
    return A + B
