"""Copy the transpose of a matrix whose rows have a stride in memory, wherever they lie."""

from loomir.script import tir as T

SIZES = {"m": 300, "n": 200}


@T.prim_func
def transpose(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    s0, s1 = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32", strides=(s0, s1))
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        B[i, j] = A[j, i]


def inputs(rng, m, n):
    """Every other column of every third row: nothing is contiguous."""
    return {"A": rng.standard_normal((3 * m, 2 * n)).astype("float32")[::3, ::2]}


def reference(A, B):
    return A.T
