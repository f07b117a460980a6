"""What users write of tensor expressions and Tensor Comprehensions."""

import numpy as np

import loomir
from loomir import te
from loomir.te import topi

n = te.var("n")
A = te.placeholder((n, 16), "float32", name="A")
B = te.placeholder((16, 8), "float32", name="B")
k = te.reduce_axis((0, 16), name="k")
C = te.compute((n, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
D = te.compute((n, 8), lambda i, j: te.max(C[i, j], te.const(0.0, "float32")), name="D")
function = te.create_prim_func([A, B, D])
function.show()
exe = loomir.compile(function)
exe(np.ones((4, 16), "float32"), np.ones((16, 8), "float32"), np.empty((4, 8), "float32"))

E_ = topi.softmax(D)
print(te.create_prim_func([A, B, E_]).script())

MM = loomir.tc.define(
    "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
)
