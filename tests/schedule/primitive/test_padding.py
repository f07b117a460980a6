"""What fills buffers up, and products over padded domains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from loomir.tir.expr import And
from tests.schedule.meaning import same_meaning
from tests.schedule.primitive.test_reducing import symbolic_sum
from tests.schedule.programs import chain, matmul

TWICE = """
from loomir.script import tir as T
@T.prim_func
def main(
    A: T.Buffer((5, 7), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")
):
    for i, k in T.grid(5, 7):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * B[vi]
"""


def padded(n: int = 6):
    a = te.placeholder((n, n), name="A")
    inside = lambda i, j: And(And(i >= 1, i < n + 1), And(And(j >= 1, j <= n), j + i < n + 3))  # noqa: E731
    pad = te.compute(
        (n + 2, n + 2),
        lambda i, j: te.if_then_else(inside(i, j), a[i - 1, j - 1], 0.5),
        name="P",
    )
    return te.create_prim_func([a, te.compute((n, n), lambda i, j: pad[i, j + 1] * 2.0, name="Q")])


def test_decompose_padding_stores_the_filling_first(golden: Callable[[str], None]):
    before = padded()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("P")
    i, _ = sch.get_loops(block)
    assert sch.can_decompose_padding(block, i)
    made = sch.decompose_padding(block, i)
    assert sch.get(made).name_hint == "P_pad_const"
    assert not sch.can_decompose_padding(block, i)
    sch.vectorize(sch.get_loops(made)[-1])
    sch.parallel(i)
    golden(sch.mod.script())
    same_meaning(before, sch)
    inner = Schedule(before, debug_mask="all")
    _, tile = inner.split(inner.get_loops("P")[0], [None, 3])
    inner.decompose_padding("P", tile)
    assert len(inner.get_loops("P_pad_const")) == 3
    same_meaning(before, inner)


def test_decompose_padding_refuses_what_fills_nothing_up():
    sch = Schedule(chain())
    with pytest.raises(ScheduleError, match="under a condition, and else a number") as caught:
        sch.decompose_padding("B", sch.get_loops("B")[0])
    assert caught.value.diagnostic.code == "SCH0007"
    sch = Schedule(padded())
    with pytest.raises(ScheduleError, match="encloses more than block") as caught:
        sch.decompose_padding("P", sch.get_loops("Q")[0])
    assert caught.value.diagnostic.code == "SCH0004"
    assert not sch.can_decompose_padding("P", sch.get_loops("Q")[0])
    with pytest.raises(ScheduleError, match="not a loop"):
        sch.can_decompose_padding("P", sch.get_sblock("P"))


def test_pad_einsum_rounds_up_all_iterators(golden: Callable[[str], None]):
    before = matmul(5, 6, 7)
    sch = Schedule(before, debug_mask="all")
    block, (i, _, k) = sch.get_sblock("C"), sch.get_loops("C")
    sch.pad_einsum(block, [4, 2, 4])
    assert [sch.get(x).extent.value for x in (i, k)] == [8, 8]
    golden(sch.mod.script())
    same_meaning(before, sch)
    shown = sch.mod
    sch.pad_einsum(block, [4, 2, 4])
    assert sch.mod is shown  # there is nothing to round up any more


def test_pad_einsum_refuses_to_lose_a_zero():
    before = from_source(TWICE)
    sch = Schedule(before, debug_mask="all")
    with pytest.raises(ScheduleError, match="may be infinite") as caught:
        sch.pad_einsum("C", [1, 4])
    assert caught.value.diagnostic.code == "SCH0007"
    sch.pad_einsum("C", [4, 1])
    same_meaning(before, sch)


def test_pad_einsum_refuses_other_blocks():
    sch = Schedule(matmul())
    for block, padding, code in (
        ("C", [4, 4], "SCH0003"),
        ("C", [4, 0, 4], "SCH0003"),
        ("D", [4, 4], "SCH0007"),
    ):
        with pytest.raises(ScheduleError) as caught:
            sch.pad_einsum(block, padding)
        assert caught.value.diagnostic.code == code
        assert caught.value.diagnostic.help
    i, j, _ = sch.get_loops("C")
    sch.reorder(j, i)
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("C", [4, 4, 4])
    assert caught.value.diagnostic.code == "SCH0004"
    sch = Schedule(symbolic_sum())
    with pytest.raises(ScheduleError) as caught:
        sch.pad_einsum("S", [4, 4])
    assert caught.value.diagnostic.code == "SCH0005"
