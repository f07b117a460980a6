"""Orders of loops and iterators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import matmul

SHIFTED = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(7, 7):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
"""
AGAIN = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    for i, k, again in T.grid(4, 6, 2):
        with T.sblock("A"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
TRIANGLE = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "int32")):
    for i in range(8):
        for j in range(i):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
"""


def test_reorder_tiles_a_product(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, k, i1, j1)
    golden(sch.mod.script())
    same_meaning(before, sch)


@pytest.mark.parametrize(
    ("text", "code"), [(SHIFTED, "SCH0006"), (AGAIN, "SCH0006"), (TRIANGLE, "SCH0005")]
)
def test_reorder_refuses_what_would_change(text: str, code: str):
    sch = Schedule(from_source(text))
    loops = sch.get_loops("A")
    with pytest.raises(ScheduleError) as caught:
        sch.reorder(*reversed(loops))
    assert caught.value.diagnostic.code == code


def test_reorder_refuses_loops_of_different_nests():
    sch = Schedule(matmul())
    for loops, code in (
        ([sch.get_loops("C")[0], sch.get_loops("D")[0]], "SCH0004"),
        ([sch.get_loops("C")[0]] * 2, "SCH0003"),
    ):
        with pytest.raises(ScheduleError) as caught:
            sch.reorder(*loops)
        assert caught.value.diagnostic.code == code


def test_reorder_block_iter_var(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    sch.reorder_block_iter_var(block, [2, 0, 1])
    assert [it.var.name_hint for it in sch.get(block).iter_vars] == ["v_k", "v_i", "v_j"]
    golden(sch.mod.script())
    same_meaning(before, sch)
    with pytest.raises(ScheduleError) as caught:
        sch.reorder_block_iter_var(block, [0, 0, 1])
    assert caught.value.diagnostic.code == "SCH0003"
