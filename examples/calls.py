"""Functions that call functions: one that returns a value, and one on arrays."""

import numpy as np

from loomir.script import ir as I
from loomir.script import tir as T


@I.ir_module
class Calls:
    @T.prim_func(private=True)
    def scale(A: T.Buffer((64,), "float32"), factor: T.float32, B: T.Buffer((64,), "float32")):
        for i in T.vectorized(64):
            B[i] = A[i] * factor

    @T.prim_func(private=True)
    def factorial(n: T.int32) -> T.int32:
        if n <= 1:
            return 1
        return n * cls.factorial(n - 1)

    @T.prim_func
    def main(X: T.Buffer((64,), "float32"), n: T.int32, Y: T.Buffer((64,), "float32")) -> T.int32:
        cls.scale(X, T.cast(cls.factorial(n), "float32"), Y)
        return cls.factorial(n)


def inputs(rng):
    return {"n": 5}


def reference(X, n, Y):
    return X * np.float32(120), 120
