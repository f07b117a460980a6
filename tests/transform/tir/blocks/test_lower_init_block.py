"""Initialisation runs where every reducing iterator stands at its start."""

from __future__ import annotations

from loomir.transform.tir.blocks.lower_init_block import lower_init_block
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays


@clauses("TIR-STMT-18h")
def test_init_becomes_a_condition_on_all_reducing_iterators():
    assert_becomes(
        lower_init_block,
        """
@T.prim_func
def main(A: T.Buffer((3, 4, 5), "int32"), B: T.Buffer((3,), "int32")):
    for i, j, k in T.grid(3, 4, 5):
        with T.sblock("sum"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            T.reads(A[vi, vj, vk])
            T.writes(B[vi])
            with T.init():
                B[vi] = 7
            B[vi] = B[vi] + A[vi, vj, vk]
""",
        """
@T.prim_func
def main(A: T.Buffer((3, 4, 5), "int32"), B: T.Buffer((3,), "int32")):
    for i, j, k in T.grid(3, 4, 5):
        with T.sblock("sum"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            T.reads(A[vi, vj, vk])
            T.writes(B[vi])
            if vj == 0 and vk == 0:
                B[vi] = 7
            B[vi] = B[vi] + A[vi, vj, vk]
""",
    )


def test_a_domain_that_does_not_start_at_zero():
    assert_becomes(
        lower_init_block,
        """
@T.prim_func
def main(A: T.Buffer((9,), "int32"), B: T.Buffer((), "int32")):
    for k in range(5):
        with T.sblock("sum"):
            vk = T.axis.reduce((2, 7), k + 2)
            T.reads(A[vk])
            T.writes(B[()])
            with T.init():
                B[()] = 0
            B[()] = B[()] + A[vk]
""",
        """
@T.prim_func
def main(A: T.Buffer((9,), "int32"), B: T.Buffer((), "int32")):
    for k in range(5):
        with T.sblock("sum"):
            vk = T.axis.reduce((2, 7), k + 2)
            T.reads(A[vk])
            T.writes(B[()])
            if vk == 2:
                B[()] = 0
            B[()] = B[()] + A[vk]
""",
    )


@clauses("TIR-STMT-18i")
def test_without_reducing_iterators_init_always_runs():
    assert_becomes(
        lower_init_block,
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi])
            T.writes(B[vi])
            with T.init():
                B[vi] = 1
            B[vi] = B[vi] + vi
""",
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi])
            T.writes(B[vi])
            B[vi] = 1
            B[vi] = B[vi] + vi
""",
    )


def test_a_block_without_init_stays():
    assert_stays(
        lower_init_block,
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            B[vi] = vi
""",
    )
