"""Loops that become other loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loomir
from loomir import Schedule, ScheduleError
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain, copy, matmul, row_sum, symbolic


def test_split_makes_a_perfect_nest(golden: Callable[[str], None]):
    before = copy(12)
    sch = Schedule(before, debug_mask="all")
    (i,) = sch.get_loops("B")
    assert len(sch.split(i, [3, 4])) == 2
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_split_guards_what_a_loop_has_not(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, _, k = sch.get_loops("C")
    sch.split(i, [None, 3])
    sch.split(k, [3, 2])
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_split_takes_symbolic_extents(golden: Callable[[str], None]):
    before = symbolic()
    sch = Schedule(before, debug_mask="all")
    i, j = sch.get_loops("B")
    outer, inner = sch.split(i, [None, 4])
    sch.parallel(outer)
    sch.vectorize(j)
    sch.unroll(inner)
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_split_drops_unit_loops_from_what_runs_inside():
    sch = Schedule(copy(12))
    (i,) = sch.get_loops("B")
    sch.split(i, [1, 12], preserve_unit_iters=False)
    assert "T.axis.spatial(12, i_1)" in sch.mod.script()


@pytest.mark.parametrize(
    ("factors", "code", "says"),
    [
        ([3], "SCH0005", "loop 'i' runs 12 times, factors give 3"),
        ([None, None], "SCH0003", "more than one factor is None"),
        ([None, 0], "SCH0003", "a factor is 0"),
        ([], "SCH0003", "there are no factors"),
    ],
)
def test_split_refuses_factors(factors: list[int | None], code: str, says: str):
    sch = Schedule(copy(12))
    before = sch.mod
    with pytest.raises(ScheduleError, match=says) as caught:
        sch.split(sch.get_loops("B")[0], factors)
    assert caught.value.diagnostic.code == code
    assert sch.mod is before


def test_a_refusal_underlines_the_loop_in_the_program_as_it_is_now():
    sch = Schedule(matmul())
    i, _j, _ = sch.get_loops("C")
    _, inner = sch.split(i, [None, 4])
    sch.unroll(inner)
    with pytest.raises(ScheduleError) as caught:
        sch.split(inner, [2, 2])
    span = caught.value.diagnostic.span
    assert span is not None
    line = span.source.line(span.line)
    assert line is not None
    assert line[span.column - 1 : span.end_column - 1] == "i_1"


def test_fuse_makes_one_loop(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, _ = sch.get_loops("C")
    sch.parallel(sch.fuse(i, j))
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_fuse_then_split_gives_the_loops_back():
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    fused = sch.fuse(*sch.get_loops("D"))
    sch.split(fused, [8, 6])
    text = sch.mod.script()
    assert 'T.axis.remap("SS", [i_j_fused_0, i_j_fused_1])' in text
    same_meaning(before, sch)


def test_fuse_makes_no_iterations_of_two_loops_that_end_before_they_begin():
    text = """
@T.prim_func
def main(n: T.int64, m: T.int64, A: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(n - 5, m - 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = 7
"""
    sch = Schedule(from_source(text))
    sch.fuse(*sch.get_loops("b"))
    for n, m, count in ((2, 3, 0), (2, 9, 0), (9, 2, 0), (7, 8, 6)):
        made = np.zeros((4, 4), "int32")
        loomir.compile(sch.mod)(n, m, made)
        assert np.count_nonzero(made) == count


def test_fuse_refuses_loops_with_something_between():
    sch = Schedule(matmul())
    i, j, k = sch.get_loops("C")
    for loops, code in ([(i, k), "SCH0004"], [(j, i), "SCH0004"]):
        with pytest.raises(ScheduleError) as caught:
            sch.fuse(*loops)
        assert caught.value.diagnostic.code == code


def test_merge_runs_bodies_in_one_loop(golden: Callable[[str], None]):
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0], sch.get_loops("D")[0])
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_merge_refuses_what_needs_other_iterations():
    text = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[7 - v]
"""
    sch = Schedule(from_source(text))
    with pytest.raises(ScheduleError, match="share elements of 'B'") as caught:
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    assert caught.value.diagnostic.code == "SCH0006"


def test_loop_partition_makes_loops_that_follow(golden: Callable[[str], None]):
    before = copy(12)
    sch = Schedule(before, debug_mask="all")
    (i,) = sch.get_loops("B")
    first, second = sch.loop_partition(i, [4, None])
    sch.vectorize(first)
    sch.unroll(second)
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_loop_partition_refuses_to_start_a_reduction_twice():
    sch = Schedule(row_sum())
    with pytest.raises(ScheduleError) as caught:
        sch.loop_partition(sch.get_loops("S")[1], [2, None])
    assert caught.value.diagnostic.code == "SCH0006"
    assert "decompose_reduction" in caught.value.diagnostic.help


def test_add_unit_loop(golden: Callable[[str], None]):
    before = copy(4)
    sch = Schedule(before, debug_mask="all")
    sch.add_unit_loop(sch.get_sblock("B"))
    sch.add_unit_loop(sch.get_loops("B")[0])
    golden(sch.mod.script())
    same_meaning(before, sch)
    with pytest.raises(ScheduleError) as caught:
        sch.add_unit_loop(sch.get_sblock("root"))
    assert caught.value.diagnostic.code == "SCH0004"
