"""Find what is positive, as a mask of bools, and keep only that."""

import numpy as np

from loomir.script import tir as T

SIZES = {"n": 100_000}


@T.prim_func
def keep_positive(x: T.handle, mask: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    M = T.match_buffer(mask, (n,), "bool")
    Y = T.match_buffer(y, (n,), "float32")
    for i in range(n):
        M[i] = X[i] > T.float32(0) and not T.isinf(X[i])
    for i in range(n):
        Y[i] = T.if_then_else(M[i], X[i], T.float32(0))


def reference(X, M, Y):
    mask = (X > 0) & ~np.isinf(X)
    return mask, np.where(mask, X, np.float32(0))
