"""Blocks that move into the nests of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loomir import Schedule, ScheduleError, te
from loomir.script import from_source
from tests.schedule.meaning import same_meaning
from tests.schedule.programs import chain, matmul, softmax


def stencil(n: int = 10):
    a = te.placeholder((n + 2,), "int32", name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 3, name="B")
    return te.create_prim_func(
        [a, te.compute((n,), lambda i: b[i] + b[i + 1] - b[i + 2], name="C")]
    )


def test_compute_at_makes_what_an_iteration_takes(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j = sch.get_loops("D")
    _, inner = sch.split(j, [None, 3])
    sch.compute_at("C", i)
    golden(sch.mod.script())
    same_meaning(before, sch)
    with pytest.raises(ScheduleError):
        sch.compute_at("D", inner)


def test_compute_at_takes_more_where_iterations_overlap(golden: Callable[[str], None]):
    before = stencil()
    sch = Schedule(before, debug_mask="all")
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    golden(sch.mod.script())
    same_meaning(before, sch)
    with pytest.raises(ScheduleError, match="share elements of 'B'") as caught:
        sch.parallel(outer)
    assert caught.value.diagnostic.code == "SCH0006"


def test_compute_at_refuses_a_loop_that_runs_at_once_where_iterations_overlap():
    sch = Schedule(stencil())
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.parallel(outer)
    with pytest.raises(ScheduleError, match="share elements of 'B'"):
        sch.compute_at("B", outer)


def test_compute_at_stays_out_of_loops_that_a_block_reduces_over():
    """Operands that come with the iterations of such a loop are not all there in the first."""
    before = from_source(
        """
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer((8,), "int32"), D: T.Buffer((1,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    C = T.alloc_buffer((1,), "int32")
    for k in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, k)
            B[v] = A[v] + 1
        for u in range(1):
            with T.sblock("C"):
                w, v = T.axis.remap("SR", [u, k])
                with T.init():
                    C[w] = 0
                C[w] = C[w] + B[v]
        for u in range(1):
            with T.sblock("D"):
                w = T.axis.spatial(1, u)
                D[w] = C[w]
"""
    )
    sch = Schedule(before)
    with pytest.raises(ScheduleError, match="reduces over the loop 'k' around both") as caught:
        sch.compute_at("C", sch.get_loops("D")[1])
    assert caught.value.diagnostic.code == "SCH0006"
    same_meaning(before, sch)


def test_compute_at_takes_all_takers_or_none():
    sch = Schedule(softmax())
    with pytest.raises(ScheduleError, match="'softmax' uses its result outside") as caught:
        sch.compute_at("power", sch.get_loops("total")[0])
    assert caught.value.diagnostic.code == "SCH0006"
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at("power", sch.get_loops("softmax")[0], index=7)
    assert caught.value.diagnostic.code in ("SCH0003", "SCH0006")


def test_reverse_compute_at_takes_what_an_iteration_made(golden: Callable[[str], None]):
    before = matmul()
    sch = Schedule(before, debug_mask="all")
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 3])
    sch.reorder(i0, j, i1)
    sch.reverse_compute_at("D", i0)
    sch.parallel(i0)
    golden(sch.mod.script())
    same_meaning(before, sch)


def test_reverse_compute_at_waits_for_reductions():
    sch = Schedule(matmul())
    _, _, k = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="share elements of 'C'") as caught:
        sch.reverse_compute_at("D", k)
    assert caught.value.diagnostic.code == "SCH0006"


def test_a_chain_is_computed_row_by_row():
    before = chain()
    sch = Schedule(before, debug_mask="all")
    row = sch.get_loops("D")[0]
    sch.compute_at("C", row, preserve_unit_loops=True)
    sch.compute_at("B", row, index=-2)
    assert len(sch.get_child_blocks(row)) == 3
    sch.parallel(row)
    same_meaning(before, sch)


def test_softmax_is_computed_row_by_row():
    before = softmax()
    sch = Schedule(before, debug_mask="all")
    row = sch.get_loops("softmax")[0]
    for name in ("share", "total", "power", "shifted", "most"):
        sch.compute_at(name, row)
    sch.parallel(row)
    same_meaning(before, sch, tolerance=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_place_is_drawn_among_those_that_are_possible(seed: int):
    before = matmul()
    sch = Schedule(before, seed=seed, debug_mask="all")
    loop = sch.sample_compute_location("C")
    assert sch.get(loop).loop_var.name_hint in ("i", "j")
    sch.compute_at("C", loop)
    same_meaning(before, sch, native=False)
    for decision, code in ((None, "SCH0006"), (9, "SCH0003")):
        with pytest.raises(ScheduleError) as caught:
            Schedule(before).sample_compute_location("D" if decision is None else "C", decision)
        assert caught.value.diagnostic.code == code


def test_a_block_that_pads_is_not_computed_where_less_is_made():
    """It runs over elements that the loop does not make, and takes none of them there."""
    before = softmax()
    sch = Schedule(before, debug_mask="all")
    sch.pad_einsum("total", [4, 4, 4])
    loop = sch.get_loops("power")[1]
    with pytest.raises(
        ScheduleError, match="may run where no element of 'power' is made"
    ) as caught:
        sch.reverse_compute_at("power_pad", loop)
    assert caught.value.diagnostic.code == "SCH0006"
    same_meaning(before, sch, tolerance=1e-6, native=False, tracked=True)


def test_a_block_with_a_choice_is_computed_where_all_is_made():
    a = te.placeholder((8, 5), name="A")
    b = te.compute((8, 5), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute(
        (8, 5), lambda i, j: te.if_then_else(a[i, j] > 0, b[i, j], te.const(0)), name="C"
    )
    before = te.create_prim_func([a, c])
    sch = Schedule(before, debug_mask="all")
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert len(sch.get_child_blocks(sch.get_loops("B")[0])) == 2
    same_meaning(before, sch, native=False, tracked=True)


def test_what_a_loop_makes_of_an_array_from_outside_is_not_all_of_it():
    before = from_source(
        """from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((6, 5), "int32"), C: T.Buffer((6, 5), "int32")):
    for i, j in T.grid(6, 4):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj + 1] = 7
    for i, j in T.grid(6, 5):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    )
    sch = Schedule(before, debug_mask="all")
    with pytest.raises(ScheduleError, match="may run where no element of 'A' is made"):
        sch.reverse_compute_at("C", sch.get_loops("A")[1])
