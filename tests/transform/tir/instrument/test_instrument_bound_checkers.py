"""With checks asked for, an index outside of its axis is an error."""

from __future__ import annotations

from loomir.ir.passes import apply, pass_of
from loomir.transform.tir.instrument.instrument_bound_checkers import (
    BoundOptions,
    instrument_bound_checkers,
)
from tests.clause import clauses
from tests.transform.meaning import assert_stays, check, parse

TEXT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), n: T.int32):
    for i in range(3):
        A[i + n, i * 2] = A[2, 7] + A[i, n]
"""


@clauses("TIR-STMT-05e")
def test_indices_are_checked_by_axis():
    mod = apply(pass_of(instrument_bound_checkers), parse(TEXT), BoundOptions(enable=True))
    text = mod.script()
    assert text.count("T.checked_index(") == 2
    assert 'T.checked_index(T.Cast("int64", i + n), T.int64(4), "A", 0)' in text
    assert 'T.checked_index(T.Cast("int64", n), T.int64(8), "A", 1)' in text
    assert "A[2, 7]" in text


def test_what_is_within_for_all_iterations_is_not_checked():
    text = """
@T.prim_func
def main(x: T.handle, m: T.int32, w: T.int32):
    n = T.int32()
    A = T.match_buffer(x, (n, 8), "int32")
    for i, j in T.grid(n, 8):
        for k in range(j + 1):
            A[i, k] = A[i, j // 2 + 4] + A[i, j + m] + A[i * w, j - k]
"""
    mod = apply(pass_of(instrument_bound_checkers), parse(text), BoundOptions(enable=True))
    assert mod.script().count("T.checked_index(") == 2
    assert 'T.checked_index(T.Cast("int64", j + m), T.int64(8), "A", 1)' in mod.script()
    assert 'T.checked_index(T.Cast("int64", i * w), T.Cast("int64", n), "A", 0)' in mod.script()


def test_the_error_is_the_same_after_lowering():
    check(TEXT, {"n": 1}, checked=True)
    check(TEXT, {"n": 2}, checked=True)
    check(TEXT, {"n": -1}, checked=True)


def test_a_checked_loop_keeps_the_order_of_errors():
    made = check(
        """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), n: T.int32):
    for i in T.vectorized(8):
        A[i + n] = i
""",
        {"n": 4},
        checked=True,
    )
    assert "T.Ramp" not in made.script()


def test_by_default_nothing_is_checked():
    assert_stays(instrument_bound_checkers, TEXT)
