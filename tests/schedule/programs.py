"""Small programs to schedule."""

from __future__ import annotations

from loomir import te
from loomir.te import topi
from loomir.tir.function import PrimFunc

__all__ = ["chain", "copy", "matmul", "row_sum", "softmax", "symbolic"]


def copy(n: int = 12) -> PrimFunc:
    a = te.placeholder((n,), name="A")
    return te.create_prim_func([a, te.compute((n,), lambda i: a[i], name="B")])


def matmul(n: int = 8, m: int = 6, k: int = 4) -> PrimFunc:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + 1.0, name="D")
    return te.create_prim_func([a, b, d])


def row_sum(n: int = 4, m: int = 6) -> PrimFunc:
    a = te.placeholder((n, m), name="A")
    r = te.reduce_axis((0, m), "k")
    return te.create_prim_func([a, te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="S")])


def chain(n: int = 6, m: int = 4) -> PrimFunc:
    a = te.placeholder((n, m), "int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: c[i, j] - 3, name="D")])


def softmax(n: int = 4, m: int = 6) -> PrimFunc:
    a = te.placeholder((n, m), name="A")
    return te.create_prim_func([a, topi.softmax(a)])


def symbolic() -> PrimFunc:
    n = te.size_var("n")
    a = te.placeholder((n, 4), name="A")
    return te.create_prim_func([a, te.compute((n, 4), lambda i, j: a[i, j] * 2.0, name="B")])
