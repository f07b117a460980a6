"""With checks asked for, an index outside of a view is an error where its source goes on."""

from __future__ import annotations

from loomir.transform.pipelines import LowerOptions, lower
from tests.clause import clauses
from tests.transform.meaning import check, parse

TEXT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), n: T.int32):
    with T.sblock("outer"):
        V = T.match_buffer(A[1:3, 2:6], (2, 4), "int32")
        with T.sblock("inner"):
            W = T.match_buffer(V[0, n : n + 2], (2,), "int32")
            W[n - 1] = 7
"""


@clauses("TIR-STMT-18b", "TIR-STMT-18e")
def test_indices_are_checked_by_view_and_source():
    text = lower(parse(TEXT), LowerOptions(checked=True)).script()
    assert '"W", 0)' in text
    assert '"A", 1)' in text
    assert "checked_index" not in lower(parse(TEXT)).script()


@clauses("TIR-STMT-18b")
def test_the_error_is_the_same_after_lowering():
    for n in range(-3, 8):
        check(TEXT, {"n": n}, checked=True)
