"""Where buffers lie, how, and what their elements are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.arith.iterators.index_map import IndexMap
from loomir.schedule import Trace
from loomir.script import from_source
from loomir.tir.expr import Var
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain, matmul, softmax

HEAD = "from loomir.script import tir as T\n@T.prim_func\n"
# A buffer that is seen by another name, and one whose pointer is used.
VIEWED = """def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32")):
    B = T.alloc_buffer((8, 4), "int32")
    for i, j in T.grid(8, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            row = T.match_buffer(B[vi, 0:4], (4,), "int32")
            for j in range(4):
                C[vi, j] = row[j]
"""


def refused(sch: Schedule, code: str, says: str, do: str, *arguments: Any) -> None:
    before = sch.mod
    with pytest.raises(ScheduleError, match=says) as caught:
        getattr(sch, do)(*arguments)
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.help
    assert sch.mod is before


def test_buffers_are_changed_where_they_are_allocated(golden: Callable[[str], None]):
    before = chain()
    sch = Schedule(before, debug_mask="all")
    loop = sch.get_loops("C")[0]
    sch.set_scope("B", 0, "local")
    sch.set_scope("B", "B", "local")
    sch.storage_align("C", 0, -2, 8, 1)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i // 3, i % 3))
    sch.unsafe_set_dtype("B", 0, "int64")
    golden(sch.mod.script())
    golden(str(sch.trace))
    sch.parallel(loop)  # references stay
    same_meaning(before, sch, checked=True)
    again = Schedule(before)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_transform_layout_fills_what_is_left_over(golden: Callable[[str], None]):
    before = matmul(7, 6, 4)
    sch = Schedule(before, debug_mask="all")
    tile = IndexMap.from_func(lambda i, j: (i // 4, j // 4, i % 4, j % 4))
    refused(sch, "SCH0003", "only fill it up", "transform_layout", "C", "C", tile)
    sch.transform_layout("C", "C", tile, pad_value=lambda a, b, c, d: a * 100 + d)
    golden(sch.mod.script())
    same_meaning(before, sch, checked=True)


def test_transform_layout_of_a_packed_operand():
    before = matmul(8, 6, 4)
    sch = Schedule(before, debug_mask="all")
    packed = sch.cache_read("C", 1, "global")
    sch.transform_layout("C", ("read", 1), lambda *at: [at[1] // 2, at[0], at[1] % 2])
    assert sch.get(packed).writes[0].buffer.shape[0].value == 3
    same_meaning(before, sch)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda i, j: (i + j,), "may have elements at the same place"),
        (lambda i, j: (i // 2, j), "may have elements at the same place"),
        (lambda i, j: (i - 1, j), "would start before its start"),
        (lambda i, j: (i * i, j), "may have elements"),
        (lambda i, j: (i * 10**6, j * 10**4), "too large"),
        (lambda i, j: (i, j + Var("q", "int32")), "layout by q"),
        (lambda i, j: "ij", "gives indices, not 'ij'"),
        ("ij", "is not a function"),
    ],
)
def test_transform_layout_refuses_maps_that_are_none(function: Any, says: str):
    sch = Schedule(matmul())
    refused(sch, "SCH0003", says, "transform_layout", "C", "C", function, 0)


@pytest.mark.parametrize("value", [1.5, 10**20, "x", [1], Var("q", "int32"), lambda *at: at])
def test_padding_holds_what_its_dtype_has(value: Any):
    sch = Schedule(chain())
    says, rows = "cannot hold|gives indices", IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    refused(sch, "SCH0003", says, "transform_layout", "B", "B", rows, value)


def test_maps_have_as_many_indices_as_buffers_have_axes():
    sch = Schedule(matmul())
    refused(sch, "SCH0003", "takes 1 indices, not 2", "transform_layout", "C", "C", lambda i: (i,))
    refused(sch, "SCH0003", "has no such layout", "transform_layout", "C", "C",
            IndexMap.from_func(lambda i: (i,)))  # fmt: skip
    refused(
        sch, "SCH0003", "is not a buffer of block", "transform_layout", "C", ("rea", 0), IndexMap
    )


@pytest.mark.parametrize(
    ("do", "rest"),
    [
        ("set_scope", ("local",)),
        ("storage_align", (0, 8, 0)),
        ("unsafe_set_dtype", ("float64",)),
        ("transform_layout", (IndexMap.from_func(lambda i, j: (j, i)),)),
    ],
)
def test_what_others_know_stays_as_it_is(do: str, rest: tuple[Any, ...]):
    sch = Schedule(matmul())
    refused(sch, "SCH0010", "'D' is none that the function allocates", do, "D", "D", *rest)
    sch = Schedule(from_source(HEAD + VIEWED))
    refused(sch, "SCH0010", "has a view", do, "B", "B", *rest)


def test_arguments_that_no_buffer_takes():
    sch = Schedule(softmax())
    block = sch.get_child_blocks(sch.get_sblock("root"))[1]
    refused(sch, "SCH0008", "no 'shared' memory", "set_scope", block, 0, "shared")
    refused(sch, "SCH0003", "has no axis 2", "storage_align", block, 0, 2, 8, 0)
    refused(sch, "SCH0003", "too large", "storage_align", block, 0, 0, 1 << 40, 0)
    refused(sch, "SCH0003", "cannot have a stride", "storage_align", block, 0, 0, 8, 8)
    refused(sch, "SCH0003", "cannot hold 'float3'", "unsafe_set_dtype", block, 0, "float3")
    refused(sch, "SCH0010", "from float32 to bool", "unsafe_set_dtype", block, 0, "bool")
    sch.storage_align(block, 0, 0, 8, 0)
    refused(sch, "SCH0010", "has strides already", "storage_align", block, 0, 0, 8, 1)
    same_meaning(softmax(), sch, tolerance=1e-6)


def test_unsafe_set_dtype_rounds():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 0.3, name="B")
    before = te.create_prim_func([a, te.compute((4,), lambda i: b[i] + 1.0, name="C")])
    sch = Schedule(before, debug_mask="all")
    sch.unsafe_set_dtype("B", 0, "float16")
    with pytest.raises(AssertionError):
        same_meaning(before, sch)
    same_meaning(before, sch, tolerance=1e-3)
