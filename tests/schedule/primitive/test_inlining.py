"""Values that are computed where they are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain, matmul, softmax

CHANGED = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial(8, i)
            A[v] = 0
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2
"""


def test_compute_inline_puts_values_in_the_place_of_loads(golden: Callable[[str], None]):
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.compute_inline("B")
    sch.compute_inline("C")
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_compute_inline_takes_what_is_read_at_other_places():
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[7 - i] + i, name="B")
    before = te.create_prim_func([a, te.compute((4,), lambda i: b[2 * i] - b[i], name="C")])
    sch = Schedule(before, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 3])
    sch.compute_inline("B")
    assert "alloc_buffer" not in sch.mod.script()
    same_meaning(before, sch)


@pytest.mark.parametrize(
    ("block", "says"),
    [("C", "iterator 'v_k' is not spatial"), ("D", "does not only write one buffer of its scope")],
)
def test_compute_inline_refuses_what_is_no_value(block: str, says: str):
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError, match=says) as caught:
        sch.compute_inline(block)
    assert caught.value.diagnostic.code == "SCH0007"


@pytest.mark.parametrize("how", ["compute_inline", "reverse_compute_inline"])
def test_operands_that_change_in_between_are_told(how: str):
    sch = Schedule(from_source(CHANGED))
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, how)("B" if how == "compute_inline" else "A")
    assert caught.value.diagnostic.code in ("SCH0006", "SCH0007")


def test_reverse_compute_inline_keeps_the_first_block_s_loops(golden: Callable[[str], None]):
    before = chain()
    sch = Schedule(before, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_inline("C")
    golden(sch.mod.script())
    sch.reverse_compute_inline("D")
    assert len(sch.get_child_blocks(sch.get_sblock("root"))) == 1
    same_meaning(before, sch)


@pytest.mark.parametrize("block", ["D", "softmax"])
def test_reverse_compute_inline_refuses_unfinished_or_shared_operands(block: str):
    sch = Schedule(matmul() if block == "D" else softmax())
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_inline(block)
    assert caught.value.diagnostic.code == "SCH0007"
