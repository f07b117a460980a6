"""Stages whose axes are iterators of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from loomir.tir.expr import Var
from tests.schedule.meaning import same_meaning
from tests.schedule.primitive.test_caching import refused
from tests.schedule.programs import chain, matmul, symbolic

HEAD = "from loomir.script import tir as T\n@T.prim_func\n"
# Two elements of one buffer, and one that is read on a condition.
SEVERAL = """def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.sblock("two"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + A[vj, vi]
    for i, j in T.grid(8, 8):
        with T.sblock("maybe"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vi < 7, A[vi + 1, vj], 0)
    for i, j in T.grid(7, 8):
        with T.sblock("some"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, j)
            C[vi, vj] = A[vi, vj]
"""


def transposed() -> Any:
    a = te.placeholder((4, 9, 8), "int32", name="A")
    b = te.compute((8, 4), lambda i, j: a[j, i + 1, 7 - i] * 2, name="B")
    return te.create_prim_func([a, te.compute((4, 8), lambda i, j: b[j, i] + 1, name="C")])


def test_reindex_gives_a_buffer_the_axes_of_a_block(golden: Callable[[str], None]):
    before = transposed()
    sch = Schedule(before, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 3])
    stage = sch.reindex("B", ("read", 0))
    sch.reindex("C", ("read", 0))
    last = sch.reindex("B", "B")
    golden(sch.mod.script())
    assert sch.get(stage).name_hint == "A_reindex"
    assert sch.get(last).writes[0].buffer.name == "B"
    sch.compute_at(stage, sch.get_loops("B")[0])
    same_meaning(before, sch)


def test_reindex_of_a_product():
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    sch.reindex("C", ("read", 1))
    sch.reindex("C", ("write", 0))
    sch.parallel(sch.get_loops("C")[0])
    same_meaning(before, sch, checked=True)
    before = symbolic()
    sch = Schedule(before, debug_mask="all")
    sch.reindex("B", "A")
    same_meaning(before, sch)


def test_reindex_cache_puts_elements_where_a_map_says(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    sch.reindex_cache_read("C", 1, "local", lambda i, j, k: (j // 2, k, j % 2))
    sch.reindex_cache_write("C", "C", "local", lambda i, j, k: (i * 6 + j,))
    golden(sch.mod.script())
    golden(str(sch.trace))
    same_meaning(before, sch)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda i, j, k: (k,), "different elements in one place"),
        (lambda i, j, k: (j + k,), "different elements in one place"),
        (lambda i, j, k: (j - 1, k), "no known bounds"),
        (lambda i, j, k: (j // 2, k), "different elements in one place"),
        (lambda i, j, k: (j * 10**8, k), "too large"),
        (lambda i, j, k: (j, k + Var("q", "int32")), "mentions q"),
        (lambda i, j: (j, i), "takes 2 indices, not 3"),
    ],
)
def test_reindex_cache_refuses_maps_that_lose_elements(function: Any, says: str):
    sch = Schedule(matmul())
    refused(sch, "SCH0003", says, "reindex_cache_read", "C", 1, "local", function)


def test_what_has_no_axes_is_refused():
    sch = Schedule(from_source(HEAD + SEVERAL))
    refused(sch, "SCH0007", "does not use one element of 'A'", "reindex", "two", ("read", 0))
    refused(sch, "SCH0007", "may not read each time", "reindex", "maybe", ("read", 0))
    refused(sch, "SCH0006", "other blocks write 'C'", "reindex", "two", ("write", 0))
    refused(sch, "SCH0003", "is not a buffer of block", "reindex", "two", 0)
    with pytest.raises(ScheduleError, match="does not run exactly once for each point"):
        sch.reindex("some", "A")
    sch = Schedule(matmul())
    refused(sch, "SCH0007", "an axis that reduces", "reindex_cache_write", "C", 0, "local",
            lambda i, j, k: (i, j, k))  # fmt: skip
    refused(Schedule(chain()), "SCH0008", "no 'x' memory", "reindex_cache_read", "B", 0, "x",
            lambda i, j: (i, j))  # fmt: skip


def test_a_block_with_a_condition_inside_is_refused():
    """The outer block runs where the inner one does not, and so would the copy."""
    sch = Schedule(chain(6, 1))
    _, j = sch.get_loops("B")
    sch.split(j, [2, 1])
    outer = sch.blockize(sch.get_loops("B")[2], preserve_unit_iters=False)
    refused(sch, "SCH0007", "may not read each time", "reindex_cache_read", outer, 0, "global",
            lambda i, j: (j, i))  # fmt: skip
    refused(sch, "SCH0007", "does not", "reindex_cache_write", outer, 0, "global",
            lambda i, j: (j, i))  # fmt: skip


POINTS = """def main(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8, 6), "int32")):
    for i, j in T.grid(8, 6):
        with T.sblock("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            for ax0, ax1 in T.grid(1, 1):
                with T.sblock("copy"):
                    wi = T.axis.spatial((vi, vi + 1), vi + ax0)
                    wj = T.axis.spatial((vj, vj + 1), vj + ax1)
                    C[wi, wj] = A[wi, wj] + 1
"""


def test_places_that_follow_outer_iterators_have_room():
    """What an iterator is at most stands for it: it is not known where memory is allocated."""
    before = from_source(HEAD + POINTS)
    sch = Schedule(before, debug_mask="all")
    sch.reindex_cache_read("copy", 0, "global", lambda i, j: (j % 2, j // 2, i % 2, i // 2))
    same_meaning(before, sch)
    assert '(2, 3, 2, 4), "int32")' in sch.mod.script()
