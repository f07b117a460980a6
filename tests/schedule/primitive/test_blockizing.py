"""Nests that are made blocks, and blocks that get other iterators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.arith.iterators.index_map import IndexMap
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.primitive.test_reducing import symbolic_sum
from tests.schedule.programs import chain, copy, matmul, symbolic

SHARED = """
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), S: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 6):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi // 2] = 0
            S[vi // 2] = S[vi // 2] + A[vi, vk]
"""


def tiled(sch: Schedule):
    """Split the loops of the product into tiles of which one axis does not fit."""
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    return i0, j0, k0, i1, j1, k1


def test_blockize_makes_a_block_of_a_tile(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    loops, block = tiled(sch), sch.get_sblock("C")
    made = sch.blockize(loops[3])
    assert sch.get(made).name_hint == "C_o"
    assert sch.get(block).name_hint == "C"
    assert [sch.get(x) for x in sch.get_loops(made)] == [sch.get(x) for x in loops[:3]]
    assert len(sch.get_loops(block)) == 3
    sch.parallel(loops[0])  # what tiles write is known to be disjoint
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_blockize_takes_blocks_and_leaves_out_units():
    before = chain()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("B")
    outer = sch.blockize(block)
    assert len(sch.get(outer).iter_vars) == 2
    assert not sch.get(block).iter_vars
    i, _ = sch.get_loops("C")
    assert not sch.get(sch.blockize(i, preserve_unit_iters=False)).iter_vars
    same_meaning(before, sch)


def test_blockize_takes_symbolic_extents():
    before = symbolic()
    sch = Schedule(before, debug_mask="all")
    i, _ = sch.get_loops("B")
    sch.blockize(sch.split(i, [None, 4])[1])
    same_meaning(before, sch)


def test_blockize_refuses_what_is_no_tile():
    sch = Schedule(copy())
    i0, i1 = sch.split(sch.get_loops("B")[0], [3, 4])
    sch.reorder(i1, i0)
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(i0)
    assert caught.value.diagnostic.code == "SCH0005"
    assert "split and reorder loops" in (caught.value.diagnostic.help or "")
    sch = Schedule(chain())
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(sch.get_sblock("root"))
    assert caught.value.diagnostic.code == "SCH0007"
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(sch.get_loops("C")[0])
    assert caught.value.diagnostic.code == "SCH0004"


def test_blockize_refuses_to_start_what_others_use():
    sch = Schedule(from_source(SHARED))
    with pytest.raises(ScheduleError, match="different elements") as caught:
        sch.blockize(sch.get_loops("S")[0])
    assert caught.value.diagnostic.code == "SCH0007"
    sch = Schedule(symbolic_sum())
    with pytest.raises(ScheduleError, match="may have no iterations") as caught:
        sch.blockize(sch.get_loops("S")[1])
    assert caught.value.diagnostic.code == "SCH0005"


def test_transform_block_layout_gives_a_block_other_iterators(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    block = sch.get_sblock("C")
    sch.transform_block_layout(block, lambda i, j, k: (i * 6 + j, k // 2, k % 2))
    assert len(sch.get_loops(block)) == 3
    golden(sch.mod.script())
    golden(str(sch.trace))
    same_meaning(before, sch)


@pytest.mark.parametrize(
    ("index_map", "code"),
    [
        (lambda i: (i,), "SCH0003"),
        (lambda i, j, k: (i, j * 4 + k), "SCH0006"),
        (lambda i, j, k: (i, j, k * 2), "SCH0005"),
        (lambda i, j, k: (i // 3, i % 3, j, k), "SCH0005"),
    ],
)
def test_transform_block_layout_refuses_other_maps(index_map: Any, code: str):
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError) as caught:
        sch.transform_block_layout("C", IndexMap.from_func(index_map))
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.help


def test_transform_block_layout_refuses_loops_that_were_changed():
    sch = Schedule(chain())
    i, j = sch.get_loops("B")
    sch.reorder(j, i)
    with pytest.raises(ScheduleError, match="not bound to the loops right around it") as caught:
        sch.transform_block_layout("B", lambda i, j: (j, i))
    assert caught.value.diagnostic.code == "SCH0004"


def test_iterators_of_two_dtypes_are_given_new_ones():
    """A size of 64 bits, beside iterators of 32."""
    n = te.size_var("n", "int64")
    a = te.placeholder((n, 12), name="A")
    before = te.create_prim_func([a, te.compute((n, 12), lambda i, j: a[i, j] + 1, name="B")])
    for made in (lambda i, j: (j, i), lambda i, j: (i * 12 + j,), lambda i, j: (i, j // 4, j % 4)):
        sch = Schedule(before, debug_mask="all")
        sch.reindex_cache_read("B", 0, "global", lambda i, j: (j % 2, j // 2, i % 2, i // 2))
        sch.transform_block_layout("B", made)
        same_meaning(before, sch)
