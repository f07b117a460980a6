"""Intrinsics in the place of what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.schedule import TensorIntrin
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import copy, matmul

HEAD = "from loomir.script import tir as T\n@T.prim_func\n"
ROW = 'A: T.Buffer((2,), "float32"), B: T.Buffer((2, 2), "float32"), C: T.Buffer((2,), "float32")'
ROW_DESC = f"""{HEAD}def desc({ROW}):
    for j, k in T.grid(2, 2):
        with T.sblock("dot"):
            vj, vk = T.axis.remap("SR", [j, k])
            C[vj] = C[vj] + A[vk] * B[vk, vj]
"""
ROW_IMPL = f"""{HEAD}def impl({ROW}):
    for k in range(2):
        C[T.ramp(0, 1, 2)] = T.call_llvm_intrin(
            "float32x2", "llvm.fma", T.broadcast(A[k], 2), B[k, T.ramp(0, 1, 2)],
            C[T.ramp(0, 1, 2)],
        )
"""
COPY = 'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")'
COPY_DESC = f"""{HEAD}def desc({COPY}):
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
"""
COPY_IMPL = f"""{HEAD}def impl({COPY}):
    B[T.ramp(0, 1, 4)] = A[T.ramp(0, 1, 4)]
"""


@pytest.fixture(autouse=True, scope="module")
def intrinsics():
    TensorIntrin.register("test.row", from_source(ROW_DESC), from_source(ROW_IMPL), True)
    TensorIntrin.register("test.copy", from_source(COPY_DESC), from_source(COPY_IMPL), True)


def test_tensorize_puts_an_intrinsic_in_the_place_of_a_tile(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 2])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction("C", k0)
    sch.tensorize(j1, "test.row")
    sch.parallel(i)
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_tensorize_takes_blocks_with_their_init():
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 2])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(j0, i, k0, j1, k1)
    block = sch.blockize(j1)
    sch.tensorize(block, "test.row")
    assert sch.get(block).init is not None
    assert len(sch.get(block).match_buffers) == 3
    same_meaning(before, sch)


def refused(sch: Schedule, place: Any, name: str = "test.copy"):
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(place, name)
    assert caught.value.diagnostic.help
    return caught.value.diagnostic


def test_tensorize_refuses_what_is_something_else():
    sch = Schedule(copy())
    _, i1 = sch.split(sch.get_loops("B")[0], [2, 6])
    found = refused(sch, i1)
    assert found.code == "SCH0007"
    assert "runs 6 times, 4 times are described" in found.message
    a = te.placeholder((8,), name="A")
    for made in (lambda i: a[i] + 1.0, lambda i: a[7 - i]):
        sch = Schedule(te.create_prim_func([a, te.compute((8,), made, name="B")]))
        found = refused(sch, sch.split(sch.get_loops("B")[0], [2, 4])[1])
        assert found.code == "SCH0007", found
    found = refused(sch, sch.get_sblock("B"), "test.cpy")
    assert (found.code, found.help) == ("SCH0001", "did you mean 'test.copy'?")


def test_tensorize_refuses_boxes_beyond_a_buffer():
    half = [from_source(t.replace("range(4)", "range(2)")) for t in (COPY_DESC, COPY_DESC)]
    TensorIntrin.register("test.half", *half, override=True)
    sch = Schedule(copy(8), debug_mask="all")
    (_, inner) = sch.split(sch.get_loops("B")[0], [4, 2])
    found = refused(sch, inner, "test.half")
    assert found.code == "SCH0005"
    assert "may exceed it" in found.message


def test_tensorize_refuses_one_buffer_for_two_that_it_writes():
    before = from_source(
        f"""{HEAD}def main(A: T.Buffer((9,), "float32")):
    for i in range(4):
        with T.sblock("B"):
            v = T.axis.spatial(4, i)
            A[v + 1] = A[v]
"""
    )
    sch = Schedule(before)
    found = refused(sch, sch.get_loops("B")[0])
    assert found.code == "SCH0007"
    assert "is two of its parameters" in found.message


@pytest.mark.parametrize(
    ("name", "impl", "why"),
    [
        ("test.copy", COPY_IMPL, "registered already"),
        ("test.other", ROW_IMPL, "desc has 2 parameters, impl has 3"),
        ("test.other", COPY_IMPL.replace("float32", "int32"), "is not like"),
    ],
)
def test_intrinsics_are_described_by_like_functions(name: str, impl: str, why: str):
    with pytest.raises(ScheduleError, match=why):
        TensorIntrin.register(name, from_source(COPY_DESC), from_source(impl))
    assert TensorIntrin.get("test.other", allow_missing=True) is None
    with pytest.raises(ScheduleError, match="no tensor intrinsic"):
        TensorIntrin.get("test.other")
