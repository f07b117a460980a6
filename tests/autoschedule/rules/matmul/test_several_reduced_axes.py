"""Sums of products over several axes, which each factor holds in an order of its own.

What is scheduled for machines with instructions for groups of steps is run by the interpreter: no
machine has to be at hand. Sums of integers are exact, so that results are equal or wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.interp import interpret
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import scheduled

GROUPING = ("icelake-server", "alderlake", "sapphirerapids")
"""Four bytes to a word in vectors of 512 bits, in vectors of 256 bits, and in tiles."""


def bytes_of(*shape: int, dtype: str = "int8") -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(info.min, info.max + 1, shape).astype(dtype)


def runs_exactly(func: PrimFunc, wanted: Any, *inputs: np.ndarray, targets: Any) -> None:
    for target in targets:
        made = scheduled(func, target=target).func
        assert not loomir.verify(made)
        found = np.full(wanted.shape, 77, wanted.dtype)
        interpret(made, *inputs, found)
        np.testing.assert_array_equal(found, wanted, err_msg=target)


@T.prim_func
def of_any_size(a: T.handle, b: T.handle, c: T.handle):
    n, p, q = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, p, q), "int8")
    B = T.match_buffer(b, (q, 20, p), "int8")
    C = T.match_buffer(c, (n, 20), "int32")
    for i, j, k, s in T.grid(n, 20, p, q):
        with T.block("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.cast(A[vi, vk, vs], "int32") * T.cast(B[vs, vj, vk], "int32")


@pytest.mark.parametrize(("n", "p", "q"), [(9, 5, 4), (14, 3, 7), (3, 20, 20), (2, 1, 3)])
def test_one_factor_holds_the_axes_one_inside_the_other(n: int, p: int, q: int) -> None:
    a, b = bytes_of(n, p, q), bytes_of(q, 20, p)
    wanted = np.einsum("ipq,qjp->ij", a.astype("int32"), b.astype("int32"))
    runs_exactly(of_any_size, wanted, a, b, targets=GROUPING)


def of_known_size(p: int, q: int) -> PrimFunc:
    @T.prim_func
    def func(
        A: T.Buffer((16, p, q), "uint8"),
        B: T.Buffer((q, 16, p), "int8"),
        C: T.Buffer((16, 16), "int32"),
    ):
        for i, j, k, s in T.grid(16, 16, p, q):
            with T.block("C"):
                vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] += T.cast(A[vi, vk, vs], "int32") * T.cast(B[vs, vj, vk], "int32")

    return func


@pytest.mark.parametrize(("p", "q"), [(5, 4), (3, 7), (4, 16), (2, 2), (1, 9)])
def test_the_number_of_steps_is_known(p: int, q: int) -> None:
    a, b = bytes_of(16, p, q, dtype="uint8"), bytes_of(q, 16, p)
    wanted = np.einsum("ipq,qjp->ij", a.astype("int32"), b.astype("int32"))
    runs_exactly(of_known_size(p, q), wanted, a, b, targets=GROUPING)


def with_columns_innermost(dtype: str, out: str) -> PrimFunc:
    @T.prim_func
    def func(a: T.handle, b: T.handle, c: T.handle):
        m, n, p, q = T.int64(), T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (m, p, q), dtype)
        B = T.match_buffer(b, (q, p, n), dtype)
        C = T.match_buffer(c, (m, n), out)
        for i, j, k, s in T.grid(m, n, p, q):
            with T.block("C"):
                vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
                with T.init():
                    C[vi, vj] = T.cast(0, out)
                C[vi, vj] += T.cast(A[vi, vk, vs], out) * T.cast(B[vs, vk, vj], out)

    return func


@pytest.mark.parametrize(
    ("dtype", "out", "targets"),
    [("int8", "int32", GROUPING), ("bfloat16", "float32", ("znver4", "sapphirerapids"))],
)
def test_units_for_tiles_and_pairs_of_bfloat16(dtype: str, out: str, targets: Any) -> None:
    """Sums of small whole numbers are exact in any order, those of floats too."""
    func = with_columns_innermost(dtype, out)
    assert "T.dot_tiles" in scheduled(func, target="sapphirerapids").func.script()
    for p, q in ((5, 4), (3, 23), (1, 3)):
        a, b = bytes_of(17, p, q) // 16, bytes_of(q, p, 34) // 16
        wanted = np.einsum("ipq,qpj->ij", a.astype(out), b.astype(out))
        runs_exactly(func, wanted, a.astype(dtype), b.astype(dtype), targets=targets)


@pytest.mark.parametrize(("m", "n"), [(10, 32), (12, 12)])
def test_sums_that_stay_in_registers_keep_the_order_of_their_axes(m: int, n: int) -> None:
    """The loops go over the axes of the result in another order than it has them."""

    @T.prim_func
    def func(
        A: T.Buffer((m, n, 8), "int64"), B: T.Buffer((n,), "int64"), D: T.Buffer((m, n), "int64")
    ):
        C = T.alloc_buffer((m, n), "int64")
        for j, i in T.grid(n, m):
            C[i, j] = T.int64(0)
            for k in range(8):
                C[i, j] = C[i, j] + A[i, j // 2, k]
        for i, j in T.grid(m, n):
            D[i, j] = C[i, j] + B[j]

    a, b = bytes_of(m, n, 8).astype("int64"), bytes_of(n).astype("int64")
    wanted = a.sum(2)[:, np.arange(n) // 2] + b
    runs_exactly(func, wanted, a, b, targets=("haswell", "icelake-server", "neoverse-n1"))


def test_a_sum_of_nothing_is_zero_on_tiles_too() -> None:
    k, m = te.var("k", "int64"), te.var("m", "int64")
    a, b = te.placeholder((m, k), "int8"), te.placeholder((k, 20), "int8")
    func = te.create_prim_func([a, b, topi.matmul(a, b, out_dtype="int32")])
    assert "T.dot_tiles" in scheduled(func, target="sapphirerapids").func.script()
    for steps in (0, 3):
        x, y = bytes_of(17, steps), bytes_of(steps, 20)
        wanted = x.astype("int32") @ y.astype("int32")
        runs_exactly(func, wanted, x, y, targets=GROUPING)
