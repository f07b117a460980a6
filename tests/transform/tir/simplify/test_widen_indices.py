"""Index arithmetic moves to int64 where no narrow value could wrap, and only there."""

from __future__ import annotations

from loomir.transform.tir.simplify.widen_indices import widen_indices
from tests.transform.meaning import assert_becomes, assert_stays, check

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
"""


def test_affine_indices_of_constant_loops():
    assert_becomes(
        widen_indices,
        HEAD
        + """
    for i in range(8):
        for j in range(8):
            A[T.Cast("int64", i * 8 + j)] = i * 8
""",
        HEAD
        + """
    for i in range(T.int64(8)):
        for j in range(T.int64(8)):
            A[i * T.int64(8) + j] = T.Cast("int32", i) * 8
""",
    )


def test_an_index_that_may_wrap_keeps_its_dtype():
    assert_becomes(
        widen_indices,
        HEAD
        + """
    for i in range(n):
        A[T.Cast("int64", i * 4 % 64)] = 1
        A[T.Cast("int64", i % 8 * 4 + 3)] = 2
""",
        HEAD
        + """
    for i in range(T.Cast("int64", n)):
        A[T.Cast("int64", T.Cast("int32", i) * 4) % T.int64(64)] = 1
        A[i % T.int64(8) * T.int64(4) + T.int64(3)] = 2
""",
        sizes={"n": 9},
    )


def test_wrapping_is_kept_where_it_happens():
    check(
        """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), x: T.int32):
    for i in range(8):
        A[(i * 536870912 * 4 + i) % 64] = i
        A[T.cast(T.cast(i, "int8") * T.int8(40), "uint8") % T.uint8(64)] = x
""",
        {"x": 7},
    )


def test_a_loop_whose_end_may_not_fit_stays_narrow():
    """The error is the loop's own, so that its variable keeps its dtype."""
    text = (
        HEAD
        + """
    for i in T.serial(n, extent=3):
        A[T.Cast("int64", i % 64)] = 1
"""
    )
    made = check(text, {"n": 2147483646})
    assert "T.serial(n, extent=3)" in made.script()
    check(text, {"n": 5})


def test_unsigned_and_small_loop_variables():
    check(
        """
@T.prim_func
def main(A: T.Buffer((256,), "int32")):
    for i in range(T.uint8(200)):
        A[i + T.uint8(56)] = T.cast(i, "int32")
    for j in T.serial(T.int8(-3), T.int8(4)):
        A[j * T.int8(2) + T.int8(10)] = T.cast(j, "int32")
"""
    )


def test_comparisons_of_loop_variables():
    assert_becomes(
        widen_indices,
        HEAD
        + """
    for i in range(8):
        if i * 8 < n:
            A[T.Cast("int64", i)] = 1
        if A[T.Cast("int64", i)] < 3:
            A[T.Cast("int64", i)] = 2
""",
        HEAD
        + """
    for i in range(T.int64(8)):
        if i * T.int64(8) < T.Cast("int64", n):
            A[i] = 1
        if A[i] < 3:
            A[i] = 2
""",
    )


def test_int64_programs_stay():
    assert_stays(
        widen_indices,
        HEAD
        + """
    for i in range(T.int64(8)):
        A[i * T.int64(8)] = n
""",
    )
