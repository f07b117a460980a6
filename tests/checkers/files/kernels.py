"""What users write of loops: arguments of every kind, blocks, macros, a schedule, calls."""

import numpy as np

import loomir
from loomir.script import ir as I
from loomir.script import tir as T

N = 64


@T.macro
def store_zero(A, i, j):
    A[i, j] = T.float32(0)


@T.inline
def double(A, i):
    A[i] = A[i] * 2.0


@T.prim_func
def matmul(
    A: T.Buffer((N, N), "float32"),
    B: T.Buffer((N, N), "float32"),
    C: T.Buffer((N, N), "float32"),
):
    for i, j, k in T.grid(N, N, N):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                store_zero(C, vi, vj)
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@T.prim_func(private=True)
def scaled(a: T.handle, b: T.handle, factor: T.float32):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    total = T.alloc_buffer((1,), "float32")
    total[0] = 0.0
    for i in T.serial(n):
        total[0] = total[0] + A[i]
    for i in T.parallel(n):
        with T.sblock("scale"):
            vi = T.axis.spatial(n, i)
            T.reads(A[vi], total[0])
            T.writes(B[vi])
            B[vi] = T.if_then_else(A[vi] > 0.0, A[vi] / total[0], T.exp(A[vi]) * factor)


@T.prim_func
def softmax(X: T.Buffer(("rows", 32), "float32"), Y: T.Buffer(("rows", 32), "float32")):
    rows = T.int32()
    for r in range(rows):
        top = T.float32(-1e30)
        for c in range(32):
            top = T.max(top, X[r, c])
        total = T.float32(0)
        for c in T.vectorized(32):
            total += T.exp(X[r, c] - top)
        for c in range(32):
            Y[r, c] = T.exp(X[r, c] - top) / total


@I.ir_module
class Calls:
    @T.prim_func(private=True)
    def factorial(n: T.int32) -> T.int32:
        if n <= 1:
            return 1
        return n * cls.factorial(n - 1)

    @T.prim_func
    def main(n: T.int32) -> T.int32:
        return cls.factorial(n)


sch = loomir.Schedule(matmul)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
outer, inner = sch.split(j, [None, 8])
sch.reorder(i, outer, k, inner)
sch.vectorize(inner)
print(sch.mod["main"].script(), sch.trace)

a = np.ones((N, N), "float32")
exe = loomir.compile(sch.mod)
exe["main"](a, a, np.empty_like(a))
loomir.compile(matmul)(a, a, np.empty_like(a))
print(matmul.script(), Calls["factorial"], loomir.compile(Calls)(5))
Calls.show()
scaled.show()
loomir.verify(softmax)
half = T.cast(T.float32(1.5), "float16") + T.float16(1)


@loomir.jit
def shifted(x, by, y: "T.Buffer(x.shape, x.dtype)"):
    for i in range(x.shape[0]):
        y[i] = x[i] + by


@loomir.jit(threads=1, cache=False)
def copied(x: T.Buffer(("n",), ...), y: T.Buffer(("n",), ...)):
    for i in range(n):
        y[i] = x[i]


print(shifted(np.zeros(3), 1.0).shape, shifted.signatures, copied.compile(np.ones(2), np.ones(2)))
print(loomir.jit(matmul).executables)
