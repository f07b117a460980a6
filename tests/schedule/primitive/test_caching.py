"""Stages between buffers and the blocks that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain, matmul, row_sum, softmax, symbolic

HEAD = "from loomir.script import tir as T\n@T.prim_func\n"
# A buffer that is written between two blocks that read it.
CHANGED = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + 1
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial(8, i)
            A[v] = 0
    for i in range(8):
        with T.sblock("D"):
            v = T.axis.spatial(8, i)
            C[v] = C[v] + A[v]
"""
# A buffer of which one part is written, and read.
PART = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v * 2] = A[v] + 1
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v * 2] * 3
"""
# Blocks of one loop, and a condition.
ROWS = """def main(A: T.Buffer((6, 4), "int32"), C: T.Buffer((6, 4), "int32")):
    B = T.alloc_buffer((6, 4), "int32")
    for i in range(6):
        for j in range(4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
        for j in range(4):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * 3
"""


def refused(sch: Schedule, code: str, says: str, do: str, *arguments: Any) -> None:
    before = sch.mod
    with pytest.raises(ScheduleError, match=says) as caught:
        getattr(sch, do)(*arguments)
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.help
    assert sch.mod is before


def test_cache_read_copies_what_is_read(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    stage = sch.cache_read("C", 0, "local")
    sch.cache_read("D", "C", "global")
    golden(sch.mod.script())
    golden(str(sch.trace))
    assert sch.get(stage).name_hint == "A_local"
    same_meaning(before, sch)


def test_cache_read_covers_no_more_than_is_read(golden: Callable[[str], None]):
    a = te.placeholder((16, 8), "int32", name="A")
    before = te.create_prim_func([a, te.compute((4, 3), lambda i, j: a[i + 5, 7 - j], name="B")])
    sch = Schedule(before, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 3])
    stage = sch.cache_read("B", 0, "global")
    golden(sch.mod.script())
    sch.compute_at(stage, sch.get_loops("B")[1])
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_cache_read_of_given_consumers_only():
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.cache_read("B", 0, "global", consumer_blocks=["B"])
    refused(sch, "SCH0003", "only reads 'A", "cache_read", "B", 0, "global", ["D"])
    refused(sch, "SCH0003", "it reads 0: A_global", "cache_read", "B", 1, "global")
    same_meaning(before, sch)


def test_cache_read_between_writes_takes_what_is_there():
    before = from_source(HEAD + CHANGED)
    sch = Schedule(before, debug_mask="all")
    refused(sch, "SCH0006", "written between", "cache_read", "B", "A", "global", ["B", "D"])
    refused(sch, "SCH0003", "reads no buffer 'X'", "cache_read", "B", "X", "global")
    first = sch.cache_read("B", "A", "local")
    second = sch.cache_read("D", "A", "local")
    assert [sch.get(b).reads[0].buffer.name for b in (first, second)] == ["A", "A"]
    assert sch.get(sch.get_sblock("D")).reads[-1].buffer is sch.get(second).writes[0].buffer
    same_meaning(before, sch)


def test_cache_read_does_not_copy_what_nothing_wrote():
    sch = Schedule(from_source(HEAD + PART))
    refused(sch, "SCH0006", "not written yet", "cache_read", "C", 0, "global")


def test_cache_read_inside_of_the_loop_that_writes(golden: Callable[[str], None]):
    before = from_source(HEAD + ROWS)
    sch = Schedule(before, debug_mask="all")
    sch.cache_read("C", 0, "global")
    sch.cache_write("B", 0, "global")
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_cache_write_makes_an_accumulator(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    sch.cache_write("C", 0, "local", consumer_blocks=["D"])
    last = sch.cache_write("D", 0, "global")
    golden(sch.mod.script())
    sch.reverse_compute_at(last, sch.get_loops("D")[0])
    same_meaning(before, sch)


@pytest.mark.parametrize("make", [row_sum, softmax, symbolic])
def test_stages_of_all_blocks(make: Any):
    before = make()
    sch = Schedule(before, debug_mask="all")
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        for loop in sch.get_loops(block)[:1]:
            sch.split(loop, [None, 3])
        sch.cache_read(block, 0, "global")
        sch.cache_write(block, 0, "global")
    same_meaning(before, sch, tolerance=1e-6 if make is softmax else 0.0)


def test_cache_write_refuses_what_is_no_box():
    sch = Schedule(from_source(HEAD + PART))
    refused(sch, "SCH0007", "not known to be a box", "cache_write", "B", 0, "global")
    refused(sch, "SCH0008", "no 'shared' memory", "cache_write", "C", 0, "shared")
    refused(sch, "SCH0008", "no 'shared' memory", "cache_read", "C", 0, "shared")
    sch = Schedule(from_source(HEAD + CHANGED))
    refused(sch, "SCH0007", "it reads 'C'", "cache_write", "D", 0, "global")
    refused(sch, "SCH0006", "other blocks write 'C'", "cache_write", "B", 0, "global")
    refused(sch, "SCH0003", "writes no buffer 3", "cache_write", "A", 3, "global")


def test_stages_stay_out_of_loops_that_run_at_once():
    sch = Schedule(from_source(HEAD + ROWS))
    sch.parallel(sch.get_loops("C")[0])
    sch.cache_read("C", 0, "global")
    same_meaning(from_source(HEAD + ROWS), sch, checked=True)


# A buffer that is updated in place, between two other uses.
UPDATED = """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.sblock("B"):
            v = T.axis.spatial(6, i)
            C[v] = A[v + 1] + 1
    for i in range(6):
        with T.sblock("A"):
            v = T.axis.spatial(6, i)
            A[v + 1] = A[v + 1] + A[v + 2] + C[v]
    for i in range(6):
        with T.sblock("D"):
            v = T.axis.spatial(6, i)
            C[v] = C[v] + A[v]
"""


def test_cache_inplace_copies_there_and_back(golden: Callable[[str], None]):
    before = from_source(HEAD + UPDATED)
    sch = Schedule(before, debug_mask="all")
    blocks = sch.cache_inplace("A", "A", "local")
    golden(sch.mod.script())
    assert [sch.get(b).writes[0].buffer.name for b in blocks] == ["A_local", "A"]
    refused(sch, "SCH0007", "does not write 'C'", "cache_inplace", "A", "C", "local")
    refused(sch, "SCH0008", "no 'shared'", "cache_inplace", "D", "C", "shared")
    same_meaning(before, sch)
    sch = Schedule(chain())
    refused(sch, "SCH0007", "does not write 'A'", "cache_inplace", "B", "A", "local")


def test_copies_in_the_iterations_of_a_loop(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("C")
    outer, _ = sch.split(k, [None, 2])
    sch.reorder(i, outer, j)
    sch.read_at(outer, "C", 0, "local")
    sch.write_at(i, "C", "C", "local")
    golden(sch.mod.script())
    refused(sch, "SCH0004", "is not around it", "read_at", i, "D", 0, "local")
    refused(sch, "SCH0003", "writes no buffer 1", "write_at", i, "C", 1, "local")
    refused(sch, "SCH0008", "no 'shared'", "read_at", i, "C", "B", "shared")
    same_meaning(before, sch)


def test_copies_of_a_loop_need_what_stays_the_same_there():
    sch = Schedule(from_source(HEAD + ROWS))
    loop = sch.get_loops("C")[0]
    refused(sch, "SCH0006", "is written in that loop", "read_at", loop, "C", "B", "local")
    sch.split(sch.get_loops("B")[1], [None, 3])
    refused(sch, "SCH0007", "not known to be a box", "write_at", loop, "B", "B", "local")
