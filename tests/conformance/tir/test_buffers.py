"""Buffers: arrays of any number of axes, which do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.tir import Add, Mul, Sub, Var, convert
from tests.conformance.compare_engines import (
    both,
    fails,
    i32,
    mistakes,
    numpy_named,
    refused,
    zeros,
)
from tests.tir.programs import func, use
from tests.tir.refusal import refused as refuses


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 1, 3), (1, 2, 1, 2), (3, 0, 2)])
def test_TIR_BUF_01_axes(shape: tuple[int, ...]):
    """A buffer of n extents is an array of n axes, addressed by n indices."""
    names = ", ".join("ijkl"[: len(shape)])
    source = f"""
        @T.prim_func
        def main(A: T.Buffer({shape}, "int32"), B: T.Buffer({shape}, "int32")):
            for {names} in T.grid({", ".join(map(str, shape))}):
                B[{names}] = A[{names}] * 10
    """
    data = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    assert both(source, data, zeros(*shape)).tolist() == (data * 10).tolist()


def test_TIR_BUF_02_the_example_of_the_text():
    """In the array 1 to 12 of shape (2, 2, 3), (0, 1, 1) is 5 and (1, 0, 2) is 9."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 2, 3), "int32"), B: T.Buffer((2,), "int32")):
            B[0] = A[0, 1, 1]
            B[1] = A[1, 0, 2]
    """
    data = np.arange(1, 13, dtype=np.int32).reshape(2, 2, 3)
    assert both(source, data, zeros(2)).tolist() == [5, 9]


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16", "bfloat16"])
def test_TIR_BUF_03_no_axes(dtype: str):
    """A buffer of shape () holds one element (T50: a fresh one holds anything)."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((), "{dtype}"), B: T.Buffer((), "{dtype}")):
            C = T.alloc_buffer((), "{dtype}")
            C[()] = A[()]
            B[()] = C[()]
    """
    out = both(source, np.array(1, numpy_named(dtype)), zeros(dtype=dtype))
    assert out.shape == ()
    assert out == 1


def test_TIR_BUF_04_no_overlap():
    """Two buffers do not overlap, allocations included, unless one is a view of the other (T50)."""
    source = """
        @T.prim_func
        def main(B: T.Buffer((4,), "int32"), A: T.Buffer((4,), "int32")):
            C = T.alloc_buffer((4,), "int32")
            D = T.alloc_buffer((4,), "int32")
            for i in range(4):
                C[i] = 1
                D[i] = 2
                B[i] = 3
            for i in range(4):
                A[i] = A[i] * 1000 + B[i] * 100 + C[i] * 10 + D[i]
    """
    assert both(source, zeros(4), i32(4, 5, 6, 7)).tolist() == [4312, 5312, 6312, 7312]
    data = zeros(8)
    fails("RUN0008", source, data[:4], data[2:6])


def test_TIR_BUF_05_no_pointer_arithmetic():
    """Nothing is added to, taken from, or compared with a pointer."""
    p = Var("p", "handle")
    for op in (Add, Sub, Mul):
        with refuses("TIR0102"):
            op(p, p)
        with refuses("TIR0101"):
            op(p, convert(4))
    assert mistakes(func(use(p), p)) == []
    refused(
        "TIR0101",
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            T.evaluate(A.data + 4)  # <--
        """,
    )


@pytest.mark.parametrize("rows", ["A", "F"])
def test_TIR_BUF_06_layout_inside_is_open(rows: str):
    """How an internal buffer lies in memory does not show: both orders of filling give the same."""
    outer, inner = ("i", "j") if rows == "A" else ("j", "i")
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((3, 4), "int32")):
            B = T.alloc_buffer((3, 4), "int32")
            for {outer} in range({3 if outer == "i" else 4}):
                for {inner} in range({3 if inner == "i" else 4}):
                    B[i, j] = i * 10 + j
            for i, j in T.grid(3, 4):
                A[i, j] = B[2 - i, 3 - j]
    """
    wanted = [[i * 10 + j for j in (3, 2, 1, 0)] for i in (2, 1, 0)]
    assert both(source, zeros(3, 4)).tolist() == wanted
