"""Integer square roots by Newton's method, in a while loop."""

import math

import numpy as np

from loomir.script import tir as T

SIZES = {"n": 10_000}


@T.prim_func
def isqrt(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "int64")
    Y = T.match_buffer(y, (n,), "int64")
    for i in range(n):
        root = X[i]
        better = (root + 1) // 2
        while better < root:
            root = better
            better = (root + X[i] // root) // 2
        Y[i] = root


def inputs(rng, n):
    return {"X": rng.integers(0, 2**62, n)}


def reference(X, Y):
    return np.array([math.isqrt(int(x)) for x in X])
