"""Iterators are replaced by cheap bindings and bound to costly ones; predicates are conditions."""

from __future__ import annotations

from loomir.tir import FloorDiv, IntImm, Var, const
from loomir.transform.tir.blocks.convert_blocks_to_opaque import convert_blocks_to_opaque, is_cheap
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check, parse


@clauses("TIR-STMT-19", "TIR-STMT-19a")
def test_cheap_bindings_are_put_in_place_and_the_predicate_is_tested():
    assert_becomes(
        convert_blocks_to_opaque,
        """
@T.prim_func
def main(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
    for i, j in T.grid(3, 4):
        with T.sblock("b"):
            T.where(i * 4 + j < 10)
            v = T.axis.spatial(10, i * 4 + j)
            T.reads(A[v])
            T.writes(B[v])
            B[v] = A[v] + v
""",
        """
@T.prim_func
def main(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
    for i, j in T.grid(3, 4):
        if i * 4 + j < 10:
            with T.sblock("b"):
                T.reads(A[i * 4 + j])
                T.writes(B[i * 4 + j])
                B[i * 4 + j] = A[i * 4 + j] + (i * 4 + j)
""",
    )


def test_a_binding_that_reads_memory_is_read_once():
    """The body stores where the binding was read from: read again, it would be another value."""
    made = check(
        """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((60, 4), "int32")):
    for i in range(4):
        A[i] = i * 3
    for i in range(4):
        with T.sblock("b"):
            v = T.axis.spatial(60, A[i])
            A[i] = 50
            B[v, i] = B[v, i] + A[i]
"""
    )
    assert "v: T.int32 = " in made.script()


def test_where_the_predicate_fails_no_binding_is_evaluated():
    check(
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        with T.sblock("b"):
            T.where(n > 5)
            v = T.axis.spatial(4, i + 0 // (n - 3))
            B[v] = 1
"""
    )


def test_nested_blocks_do_not_blow_up():
    """An iterator's binding is put in place of it only while it stays small."""
    depth = 12
    text = "@T.prim_func\ndef main(B: T.Buffer((64,), 'int32')):\n    for i0 in range(2):\n"
    for level in range(depth):
        pad = "    " * (level + 2)
        text += f"{pad}with T.sblock('b{level}'):\n"
        text += f"{pad}    i{level + 1} = T.axis.spatial(2, i{level} * 1 + i{level} * 0)\n"
    text += "    " * (depth + 2) + f"B[i{depth}] = i{depth}\n"
    made = check(text)
    assert len(made.script()) < 3000


def test_a_view_begins_where_it_began_when_the_block_was_entered():
    check(
        """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), P: T.Buffer((1,), "int32")):
    P[0] = 2
    with T.sblock("b"):
        M = T.match_buffer(A[P[0]:P[0] + 4], (4,), "int32")
        P[0] = 4
        for i in range(4):
            M[i] = 100 + i
"""
    )


def test_an_opaque_block_stays():
    assert_stays(
        convert_blocks_to_opaque,
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    with T.sblock("b"):
        B[0] = 1
""",
    )


def test_what_is_cheap():
    i = Var("i", "int32")
    assert is_cheap(i * 4 + 2)
    assert is_cheap(FloorDiv(i, IntImm(3, i.dtype)))
    assert not is_cheap(FloorDiv(i, Var("n", "int32")))
    assert not is_cheap(FloorDiv(i, const(0, "int32")))
    (func,) = parse(
        "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    A[0] = A[1]\n"
    ).functions.values()
    assert not is_cheap(func.body.value)
