"""Estimates of operations and traffic, against formulas and against what a run really does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.tir import estimate_cost

HEAD = """
from loomir.script import tir as T

"""


def cost(text: Any, **sizes: Any):
    return estimate_cost(from_source(HEAD + text), sizes)


def test_a_matmul_with_symbolic_sizes():
    found = cost(
        """
@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle):
    m, n, k = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (m, k), "float64")
    B = T.match_buffer(b, (k, n), "float64")
    C = T.match_buffer(c, (m, n), "float64")
    for i, j, l in T.grid(m, n, k):
        with T.block("C"):
            x, y, z = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[x, y] = 0.0
            C[x, y] += A[x, z] * B[z, y]
""",
        m=3,
        n=5,
        k=7,
    )
    assert found.exact
    assert found.flops == 2 * 3 * 5 * 7
    assert found.bytes_read == 8 * 3 * 3 * 5 * 7
    assert found.bytes_written == 8 * (3 * 5 * 7 + 3 * 5)
    assert found.bytes_touched == 8 * (3 * 7 + 7 * 5 + 3 * 5)
    assert found.intensity == pytest.approx(2 * 3 * 5 * 7 / found.bytes_touched)


def test_a_triangular_loop_is_exact():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((10, 10), "float32")):
    for i in range(10):
        for j in range(i, 10):
            for k in range(2):
                A[i, j] = A[i, j] * 2.0 + 1.0
"""
    )
    assert found.exact
    assert found.flops == 2 * 2 * 55


def test_memory_is_counted_where_it_is_live_at_once():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    with T.allocate((100,), "float32") as p:
        T.evaluate(0)
        with T.allocate((50,), "int8") as q:
            T.evaluate(0)
    with T.allocate((60,), "float64") as r:
        T.evaluate(0)
"""
    )
    assert found.bytes_allocated == 480
    assert found.bytes_touched == 0
    assert found.intensity == 0


def test_kinds_of_work():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = T.exp(A[i]) + T.fma(A[i], A[i], A[i])
        B[i] = (B[i] * 3) % 5
    A[0:4] = A[4:8] * T.Broadcast(T.float32(2), 4)
"""
    )
    assert (found.flops, found.math_calls, found.int_ops) == (8 * 3 + 4, 8, 16)


def test_what_data_decides_is_at_most():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32")):
    for i in range(8):
        if A[i] > 0.0:
            A[I[i]] = A[i] + 1.0
    while A[0] > 0.0:
        A[0] = A[0] - 1.0
"""
    )
    assert not found.exact
    assert found.flops == 8 + 8 + 1 + 1
    assert found.bytes_touched == 8 * 4 * 2


def test_a_decided_branch_is_exact():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    for i, j in T.grid(2, 4):
        if i * 4 + j < 8:
            A[i * 4 + j] = A[i * 4 + j] + 1.0
        else:
            A[0] = A[0] * A[0] * A[0]
"""
    )
    assert found.exact
    assert found.flops == 8


def test_traffic_is_that_of_a_run():
    """An array that counts its accesses, natively: ones are added up per element written."""
    func = from_source(
        HEAD
        + """
@T.prim_func
def f(C: T.Buffer((6, 9), "int32"), n: T.int32):
    for i in range(n):
        for j in range(i + 1):
            C[i, j] = C[i, j] + 1
        for j in range(2, 9 - i):
            C[i, j] = C[i, j] + 1
"""
    )
    for n in (0, 1, 4, 6):
        counted = np.zeros((6, 9), "int32")
        loomir.compile(func)(counted, n)
        found = estimate_cost(func, {"n": n})
        assert found.int_ops == found.bytes_written // 4 == counted.sum()


def test_sizes_that_do_not_fit():
    text = """
@T.prim_func
def f(a: T.handle):
    rows = T.int32()
    A = T.match_buffer(a, (rows,), "float32")
    A[0] = 1.0
"""
    with pytest.raises(CompileError, match="size 'rows' of 'f' is not given"):
        cost(text)
    with pytest.raises(CompileError, match=r"no size .row.(.|\n)*did you mean .rows."):
        cost(text, rows=2, row=3)


def test_what_is_called_is_not_known():
    found = cost(
        """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    T.call_packed("a.function", A)
"""
    )
    assert not found.exact
    assert found.flops == 0
