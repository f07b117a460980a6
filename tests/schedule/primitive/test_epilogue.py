"""Sums that start at what is added to them afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain

CHANGED = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    S = T.alloc_buffer((4,), "int32")
    for i, k in T.grid(4, 6):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(4):
        with T.sblock("B"):
            v = T.axis.spatial(4, i)
            B[v] = B[v] * 2
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = S[v] + B[v]
"""


def biased(scale: int = 1):
    a, b = te.placeholder((5, 7), name="A"), te.placeholder((7, 6), name="B")
    bias, k = te.placeholder((6,), name="bias"), te.reduce_axis((0, 7), "k")
    c = te.compute((5, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute(
        (6, 5), lambda j, i: bias[j] + (c[i, j] if scale == 1 else c[i, j] * scale), name="D"
    )
    return te.create_prim_func([a, b, bias, d])


def test_fuse_reduction_epilogue_starts_at_the_bias(golden: Callable[[str], None]):
    before = biased()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    sch.fuse_reduction_epilogue(block, "D")
    i, j, _ = sch.get_loops(block)
    sch.reorder(j, i)
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_fuse_reduction_epilogue_refuses_other_blocks():
    for func, blocks in ((biased(2), ("C", "D")), (chain(), ("B", "C"))):
        sch = Schedule(func)
        with pytest.raises(ScheduleError) as caught:
            sch.fuse_reduction_epilogue(*blocks)
        assert caught.value.diagnostic.code == "SCH0007"
        assert caught.value.diagnostic.help


def test_fuse_reduction_epilogue_refuses_operands_that_change():
    sch = Schedule(from_source(CHANGED))
    with pytest.raises(ScheduleError, match="is written between there and here") as caught:
        sch.fuse_reduction_epilogue("S", "C")
    assert caught.value.diagnostic.code == "SCH0006"
