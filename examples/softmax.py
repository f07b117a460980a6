"""Softmax over rows in three stages: the largest value, the sum of exponentials, the quotient."""

import numpy as np

from loomir.script import tir as T

ROWS, COLUMNS = 512, 1000
INTERPRET = {"ROWS": 7, "COLUMNS": 33}


@T.prim_func
def softmax(X: T.Buffer((ROWS, COLUMNS), "float32"), Y: T.Buffer((ROWS, COLUMNS), "float32")):
    largest = T.alloc_buffer((ROWS,), "float32")
    exps = T.alloc_buffer((ROWS, COLUMNS), "float32")
    total = T.alloc_buffer((ROWS,), "float32")
    for i, j in T.grid(ROWS, COLUMNS):
        with T.sblock("largest"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                largest[vi] = T.min_value("float32")
            largest[vi] = T.max(largest[vi], X[vi, vj])
    for i, j in T.grid(ROWS, COLUMNS):
        with T.sblock("exps"):
            vi, vj = T.axis.remap("SS", [i, j])
            exps[vi, vj] = T.exp(X[vi, vj] - largest[vi])
    for i, j in T.grid(ROWS, COLUMNS):
        with T.sblock("total"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] += exps[vi, vj]
    for i, j in T.grid(ROWS, COLUMNS):
        with T.sblock("quotient"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = exps[vi, vj] / total[vi]


def reference(X, Y):
    exps = np.exp(X.astype(np.float64) - X.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)
