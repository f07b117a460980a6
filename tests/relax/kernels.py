"""Loops that graphs of tests call, as text."""

from __future__ import annotations

ADD = """
@T.prim_func
def add(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), z: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "add"})
    for i in range(4):
        z[i] = x[i] + y[i]
"""
DOUBLE = """
@T.prim_func
def double(x: T.Buffer((4,), "float32")):
    for i in range(4):
        x[i] = x[i] + x[i]
"""
BOTH = """
@T.prim_func
def pair(x: T.handle, s: T.handle, d: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    S = T.match_buffer(s, (n,), "float32")
    D = T.match_buffer(d, (n, 2), "float32")
    for i in range(n):
        S[i] = X[i] * X[i]
        D[i, 0] = X[i]
        D[i, 1] = X[i] + X[i]
"""
FILL = """
@T.prim_func
def fill(value: T.int64, step: T.int64, y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.Cast("float32", value + step * i)
"""
SPLIT = """
@T.prim_func
def split(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i]
        x[i] = T.float32(0)
"""
