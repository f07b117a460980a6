"""Arrays are passed as descriptors."""

from __future__ import annotations

import pytest

from loomir.support.diagnostics import CompileError
from loomir.transform import lower
from loomir.transform.tir.legalize_calls import legalize_calls
from tests.clause import clauses
from tests.transform.meaning import assert_stays, check, parse

ROWS = """
    @T.prim_func(private=True)
    def row(r: T.handle, k: T.int32):
        n = T.int64()
        s = T.int64()
        R = T.match_buffer(r, (n,), "int32", strides=[s])
        for i in range(n):
            R[i] = R[i] * k + T.cast(i, "int32")
"""


@clauses("TIR-EVAL-11", "TIR-EVAL-12")
def test_parameters_allocations_and_views_are_passed():
    made = check(
        """
@I.ir_module
class Mod:
    @T.prim_func
    def main(A: T.Buffer((6,), "int32"), B: T.Buffer((4, 6), "int32")):
        t = T.alloc_buffer((6,), "int32")
        cls.row(A.data, 2)
        for i in range(6):
            t[i] = A[i]
        cls.row(t.data, 3)
        for i in range(4):
            with T.sblock("c"):
                vi = T.axis.spatial(4, i)
                R = T.match_buffer(B[vi, 1:5], (4,), "int32")
                for j in range(4):
                    R[j] = t[j]
                cls.row(R.data, vi)
"""
        + ROWS
    )
    text = made.script()
    assert text.count("T.tvm_stack_make_array(") == 3
    assert "T.tvm_stack_make_shape(T.int64(1)), 1, 0, i * T.int64(6) + T.int64(1))" in text


def test_a_columns_stride_is_passed():
    check(
        """
@I.ir_module
class Mod:
    @T.prim_func
    def main(B: T.Buffer((4, 6), "int32")):
        for i in range(6):
            with T.sblock("c"):
                vi = T.axis.spatial(6, i)
                C = T.match_buffer(B[0:4, vi:vi + 1], (4, 1), "int32")
                cls.column(C.data, vi)
    @T.prim_func(private=True)
    def column(r: T.handle, k: T.int32):
        n = T.int64()
        s = T.int64()
        R = T.match_buffer(r, (n, 1), "int32", strides=[s, 1])
        for i in range(n):
            R[i, 0] = R[i, 0] * k + T.cast(s, "int32")
"""
    )


@clauses("TIR-PROG-03", "TIR-EVAL-13")
def test_recursion_with_arrays_and_results():
    check(
        """
@I.ir_module
class Mod:
    @T.prim_func
    def main(A: T.Buffer((6,), "int32"), n: T.int32) -> T.int32:
        if n == 0:
            return A[0]
        A[n - 1] = A[n - 1] + 1
        return A[n - 1] + cls.main(A.data, n - 1)
""",
        {"n": 5},
    )


def test_memory_without_a_shape_cannot_be_passed():
    mod = parse(
        """
@I.ir_module
class Mod:
    @T.prim_func
    def main(B: T.Buffer((4, 6), "int32")):
        p = T.allocate([4], "int32", "global")
        cls.row(p, 2)
"""
        + ROWS
    )
    with pytest.raises(CompileError) as caught:
        lower(mod)
    assert caught.value.diagnostic.code == "TIR0501"
    assert caught.value.diagnostic.span is not None


def test_calls_of_builtins_stay():
    assert_stays(
        legalize_calls,
        """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    A[0] = T.exp(A[1])
""",
    )
