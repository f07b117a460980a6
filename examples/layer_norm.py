"""Layer normalisation over the last axis, with scale and shift."""

import numpy as np

from loomir.script import tir as T

ROWS, COLUMNS = 256, 768
INTERPRET = {"ROWS": 5, "COLUMNS": 40}


@T.prim_func
def layer_norm(
    X: T.Buffer((ROWS, COLUMNS), "float32"),
    scale: T.Buffer((COLUMNS,), "float32"),
    shift: T.Buffer((COLUMNS,), "float32"),
    Y: T.Buffer((ROWS, COLUMNS), "float32"),
):
    for i in T.parallel(ROWS):
        mean = T.alloc_buffer((1,), "float32", scope="local")
        variance = T.alloc_buffer((1,), "float32", scope="local")
        mean[0] = T.float32(0)
        for j in range(COLUMNS):
            mean[0] += X[i, j]
        mean[0] = mean[0] / T.float32(COLUMNS)
        variance[0] = T.float32(0)
        for j in range(COLUMNS):
            centred: T.float32 = X[i, j] - mean[0]
            variance[0] += centred * centred
        inverse: T.float32 = T.float32(1) / T.sqrt(
            variance[0] / T.float32(COLUMNS) + T.float32(1e-5)
        )
        for j in range(COLUMNS):
            Y[i, j] = (X[i, j] - mean[0]) * inverse * scale[j] + shift[j]


def reference(X, scale, shift, Y):
    X = X.astype(np.float64)
    mean = X.mean(axis=1, keepdims=True)
    variance = X.var(axis=1, keepdims=True)
    return (X - mean) / np.sqrt(variance + 1e-5) * scale + shift
