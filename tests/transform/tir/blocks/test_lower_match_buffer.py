"""Aliases are accesses of their sources."""

from __future__ import annotations

import pytest

from loomir.support.diagnostics import CompileError
from loomir.transform import lower
from loomir.transform.tir.blocks.lower_match_buffer import lower_match_buffer
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check, parse


@clauses("TIR-STMT-18b", "TIR-STMT-18e")
def test_accesses_are_offset_by_where_the_region_begins():
    assert_becomes(
        lower_match_buffer,
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("b"):
            T.reads(A[i, 2:6])
            T.writes(B[i])
            M = T.match_buffer(A[i, 2:6], (4,), "int32")
            B[i] = M[i] + M[3]
""",
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("b"):
            T.reads(A[i, 2:6])
            T.writes(B[i])
            B[i] = A[i, T.Cast("int64", i) + T.int64(2)] + A[i, T.int64(5)]
""",
    )


@clauses("TIR-STMT-18c", "TIR-STMT-18d")
def test_names_in_shape_strides_and_offset_are_bound():
    check(
        """
@T.prim_func
def main(a: T.handle, B: T.Buffer((5,), "int64")):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "int32")
    with T.sblock("b"):
        k = T.int64()
        s1 = T.int64()
        o = T.int64()
        M = T.match_buffer(A[2:3, 1:m], (k,), "int32", strides=[s1], elem_offset=o)
        B[0] = k
        B[1] = s1
        B[2] = o
        B[3] = T.cast(M[0], "int64")
""",
        {"n": 4, "m": 6},
    )


def test_a_view_of_a_view_of_strided_memory():
    check(
        """
@T.prim_func
def main(A: T.Buffer((12, 12), "int32")):
    for i in range(3):
        with T.sblock("outer"):
            vi = T.axis.spatial(3, i)
            M = T.match_buffer(A[vi * 4:vi * 4 + 4, 2:10], (4, 8), "int32")
            for j in range(2):
                with T.sblock("inner"):
                    vj = T.axis.spatial(2, j)
                    N = T.match_buffer(M[1, vj * 4:vj * 4 + 4], (4,), "int32")
                    for k in range(4):
                        N[k] = N[k] * 10 + M[2, k]
"""
    )


@clauses("TIR-STMT-18f")
def test_a_vector_index_is_offset_in_every_lane():
    made = check(
        """
@T.prim_func
def main(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 8), "int32")):
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            M = T.match_buffer(A[vi, 4:12], (8,), "int32")
            B[vi, 0:8] = M[0:8]
"""
    )
    assert "T.int64(4)" in made.script()


def test_a_shape_that_is_bound_already_must_agree():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), n: T.int32, k: T.int32):
    with T.sblock("b"):
        M = T.match_buffer(A[2:2 + k], (n,), "int32")
        M[0] = 5
"""
    made = lower(parse(text))
    assert '"match", "M", "the extent of axis 0"' in made.script()
    check(text, {"n": 3, "k": 3})


def test_a_buffer_declared_on_a_views_data_begins_with_the_view():
    check(
        """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32")):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            M = T.match_buffer(A[vi, 2:8], (6,), "int32")
            D = T.decl_buffer((2, 3), "int32", data=M.data)
            D[1, 1] = 77
"""
    )


def test_a_pointer_into_a_view_is_refused():
    mod = parse(
        """
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    with T.sblock("b"):
        M = T.match_buffer(A[2:6], (4,), "int32")
        p: T.handle = M.data
        M[0] = 1
"""
    )
    with pytest.raises(CompileError) as caught:
        lower(mod)
    assert caught.value.diagnostic.code == "TIR0502"
    assert caught.value.diagnostic.help == "use its source's data"


def test_without_views_nothing_changes():
    assert_stays(
        lower_match_buffer,
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    with T.sblock("b"):
        B[0] = 1
""",
    )
