"""How loops run, and notes on loops and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError
from loomir.script import from_source
from loomir.script import tir as T
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import matmul, symbolic


def test_parallel_vectorize_unroll(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.parallel(i)
    sch.unroll(k)
    sch.vectorize(j)
    golden(sch.mod.script())
    same_meaning(before, sch)


@pytest.mark.parametrize("how", ["parallel", "vectorize"])
def test_reducing_loops_do_not_run_at_once(how: str):
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError, match="share elements of 'C'") as caught:
        getattr(sch, how)(sch.get_loops("C")[2])
    assert caught.value.diagnostic.code == "SCH0006"
    assert "rfactor" in caught.value.diagnostic.help


@pytest.mark.parametrize("how", ["vectorize", "unroll"])
def test_lanes_and_copies_are_constant_in_number(how: str):
    sch = Schedule(symbolic())
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, how)(sch.get_loops("B")[0])
    assert caught.value.diagnostic.code == "SCH0005"


@pytest.mark.parametrize(
    "body",
    [
        "A[v] = A[v - 1] + 1",  # the iteration before
        "A[0] = v",  # all write one element
        "A[v // 2] = v",  # two write one element
        "A[B[v]] = v",  # unknown elements
        "A[v % 3 + v % 5] = v",  # overlapping sums
        "A[v] = A[T.int64(8)] + v",  # one element for all, by another dtype
    ],
)
def test_parallel_refuses_iterations_that_share_elements(body: str):
    text = f"""
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial((1, 9), i + 1)
            {body}
"""
    sch = Schedule(from_source(text))
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(sch.get_loops("A")[0])
    assert caught.value.diagnostic.code == "SCH0006"


def test_bind_says_what_a_cpu_has():
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError) as caught:
        sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    assert caught.value.diagnostic.code == "SCH0008"
    assert "parallel" in caught.value.diagnostic.help


def test_annotate_and_unannotate(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    values: list[tuple[Any, str, Any]] = [(block, "a", 1), (loop, "b", "x"), (block, "a", [1, 2])]
    for place, key, value in values:
        sch.annotate(place, key, value)
    golden(sch.mod.script())
    sch.unannotate(block, "a")
    with pytest.raises(ScheduleError) as caught:
        sch.unannotate(block, "a")
    assert caught.value.diagnostic.code == "SCH0003"
    same_meaning(before, sch)


def test_loops_around_local_memory_and_conditions_run_at_once_and_have_no_lanes():
    @T.prim_func
    def main(a: T.Buffer((8,), "int32"), c: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.sblock("C"):
                v = T.axis.spatial(8, i)
                n = T.int32(0)
                while n * n < a[v]:
                    n = n + 1
                c[v] = n

    sch = Schedule(main)
    with pytest.raises(ScheduleError) as caught:
        sch.vectorize(sch.get_loops("C")[0])
    assert caught.value.diagnostic.code == "SCH0006"
    sch.parallel(sch.get_loops("C")[0])
    same_meaning(main, sch)
