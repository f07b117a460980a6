"""Reductions that are split."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import matmul, row_sum

ODD_START = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), S: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 6):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 5
            S[vi] = S[vi] + A[vi, vk]
"""


def symbolic_sum():
    n = te.size_var("n")
    a = te.placeholder((3, n), "int32", name="A")
    k = te.reduce_axis((0, n), "k")
    return te.create_prim_func([a, te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="S")])


def test_decompose_reduction_gives_init_a_block(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(i, k, j)
    made = sch.decompose_reduction(block, k)
    assert sch.get(made).name_hint == "C_init"
    assert sch.get(block).name_hint == "C_update"
    sch.vectorize(sch.get_loops(made)[-1])
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_decompose_reduction_keeps_what_an_empty_reduction_leaves():
    before = symbolic_sum()
    sch = Schedule(before, debug_mask="all")
    sch.decompose_reduction("S", sch.get_loops("S")[0])
    assert "T.where(n > 0)" in sch.mod.script()
    same_meaning(before, sch, extent=0)
    same_meaning(before, sch, native=False)


def test_decompose_reduction_refuses_to_start_anew():
    sch = Schedule(row_sum())
    block = sch.get_sblock("S")
    outer, inner = sch.split(sch.get_loops(block)[1], [2, 3])
    with pytest.raises(
        ScheduleError, match="reduces: its iterations would initialise again"
    ) as caught:
        sch.decompose_reduction(block, inner)
    assert caught.value.diagnostic.code == "SCH0006"
    sch.decompose_reduction(block, outer)
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_reduction(block, outer)
    assert caught.value.diagnostic.code == "SCH0007"


@pytest.mark.parametrize("axis", [0, -1])
def test_rfactor_gives_iterations_elements_of_their_own(golden: Callable[[str], None], axis: int):
    before = row_sum()
    sch = Schedule(before, debug_mask="all")
    outer, _ = sch.split(sch.get_loops("S")[1], [2, 3])
    made = sch.rfactor(outer, axis)
    sch.parallel(sch.get_loops(made)[1])
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_rfactor_refuses_what_it_would_count_twice():
    sch = Schedule(from_source(ODD_START))
    with pytest.raises(ScheduleError, match="its init is not the identity of Add") as caught:
        sch.rfactor(sch.get_loops("S")[1])
    assert caught.value.diagnostic.code == "SCH0007"


def test_rfactor_refuses_loops_that_do_not_only_reduce():
    sch = Schedule(row_sum())
    i, k = sch.get_loops("S")
    with pytest.raises(ScheduleError, match="loop 'i' does not reduce") as caught:
        sch.rfactor(i)
    assert caught.value.diagnostic.code == "SCH0006"
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(k, 2)
    assert caught.value.diagnostic.code == "SCH0003"
    sch = Schedule(symbolic_sum())
    with pytest.raises(ScheduleError) as caught:
        sch.rfactor(sch.get_loops("S")[1])
    assert caught.value.diagnostic.code == "SCH0005"


def test_decompose_reduction_takes_tiles_that_end_beyond_the_array():
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    i_outer, i_inner = sch.split(i, [None, 3])
    j_outer, j_inner = sch.split(j, [None, 3])
    sch.reorder(i_outer, j_outer, k, i_inner, j_inner)
    made = sch.decompose_reduction(block, k)
    assert "T.where" in sch.mod.script()
    assert [sch.get(loop).loop_var.name_hint for loop in sch.get_loops(made)][:2] == ["i_0", "j_0"]
    same_meaning(before, sch)
