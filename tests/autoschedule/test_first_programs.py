"""What rules make of loops that people write first, and that it is the same as the loops."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.ir.visit import by_class
from loomir.loops.dependence import explain_dependence
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.expr import FloorMod, Shuffle
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind, IfThenElse
from tests.autoschedule.equivalence import assert_same_results

RANDOM = np.random.default_rng(21)


def plans(func: PrimFunc) -> list[str]:
    return [plan.kind for plan in schedule_function(func, Target("haswell")).plans]


@T.prim_func
def filtered(
    x: T.Buffer((9, 75), "float32"), h: T.Buffer((11,), "float32"), o: T.Buffer((9, 65), "float32")
) -> None:
    for i, j in T.grid(9, 65):
        acc = T.float32(0)
        for k in range(11):
            acc += x[i, j + k] * h[k]
        o[i, j] = acc


@T.prim_func
def copied_later(
    x: T.Buffer((40, 33), "float32"),
    o: T.Buffer((33,), "float32"),
    p: T.Buffer((33,), "float32"),
) -> None:
    acc = T.alloc_buffer((33,), "float32")
    for j in range(33):
        acc[j] = T.float32(0)
        for i in range(40):
            acc[j] += x[i, j]
    for j in range(33):
        p[j] = o[j]
    for j in range(33):
        o[j] = acc[j]


def test_a_sum_is_written_where_it_would_be_copied():
    assert len(plans(filtered)) == 1
    assert_same_results(filtered, (9, 75), (11,), (9, 65))


def test_a_sum_is_copied_where_something_reads_the_old_values_before():
    assert len(plans(copied_later)) == 3
    assert_same_results(copied_later, (40, 33), (33,), (33,))


@T.prim_func
def distances(
    x: T.Buffer((37, 3), "float32"), y: T.Buffer((45, 3), "float32"), o: T.Buffer((37, 45), "int32")
) -> None:
    for i, j in T.grid(37, 45):
        acc = T.float32(0)
        for k in range(3):
            acc += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
        o[i, j] = T.cast(T.sqrt(acc), "int32")


def test_what_is_made_of_a_sum_is_stored_and_not_the_sum():
    made = schedule_function(distances, Target("haswell"))
    assert [plan.kind for plan in made.plans] == ["reduction"]
    x, y = (RANDOM.standard_normal((n, 3)).astype("float32") * 4 for n in (37, 45))
    found, wanted = np.empty((37, 45), "int32"), np.empty((37, 45), "int32")
    loomir.compile(distances)(x, y, found)
    loomir.compile(distances, schedule=False)(x, y, wanted)
    np.testing.assert_array_equal(found, wanted)


@T.prim_func
def lower(a: T.Buffer((33, 35), "float32"), o: T.Buffer((33, 35), "float32")) -> None:
    for i, j in T.grid(33, 35):
        if j < i:
            o[i, j] = a[i, j]
        else:
            if j == i:
                o[i, j] = 1.0
            else:
                o[i, j] = o[i, j] - a[i, j]


@T.prim_func
def two_places(a: T.Buffer((33, 35), "float32"), o: T.Buffer((33, 36), "float32")) -> None:
    for i, j in T.grid(33, 35):
        if j < i:
            o[i, j] = a[i, j]
        else:
            o[i, j + 1] = a[i, j]


def test_branches_that_store_to_one_element_are_one_value():
    made = schedule_function(lower, Target("haswell"))
    assert [plan.kind for plan in made.plans] == ["element-wise"]
    assert IfThenElse not in by_class(made.func.body)
    assert_same_results(lower, (33, 35), (33, 35))


def test_branches_that_store_to_two_elements_are_not():
    assert "element-wise" not in plans(two_places)
    assert_same_results(two_places, (33, 35), (33, 36))


@T.prim_func
def complex_products(
    a: T.Buffer((4096, 2), "float32"),
    b: T.Buffer((4096, 2), "float32"),
    o: T.Buffer((4096, 2), "float32"),
) -> None:
    for i in range(4096):
        o[i, 0] = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]
        o[i, 1] = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]


def test_a_nest_that_stores_parts_of_pairs_stays_whole():
    assert set(plans(complex_products)) <= {"loops as written"}
    assert_same_results(complex_products, (4096, 2), (4096, 2), (4096, 2))


@T.prim_func
def unpacked(x: T.Buffer((5, 64), "uint8"), o: T.Buffer((5, 512), "uint8")) -> None:
    for i, j in T.grid(5, 512):
        o[i, j] = (x[i, j // 8] >> T.cast(j % 8, "uint8")) & T.uint8(1)


def test_bits_of_bytes_are_shuffled_in_pairs_of_vectors():
    made = schedule_function(unpacked, Target("haswell"))
    assert [plan.kind for plan in made.plans] == ["transpose"]
    mixed = [e for e in by_class(made.func.body)[Shuffle] if isinstance(e, Shuffle)]
    assert mixed
    assert all(len(e.vectors) == 2 for e in mixed)
    assert FloorMod not in by_class(made.func.body)
    x, found = RANDOM.integers(0, 256, (5, 64), "uint8"), np.empty((5, 512), "uint8")
    for run in (loomir.compile(unpacked), loomir.compile(unpacked, "haswell")):
        run(x, found)
        np.testing.assert_array_equal(found, np.unpackbits(x, axis=1, bitorder="little"))


@T.prim_func
def sparse(
    indptr: T.Buffer((65,), "int32"),
    col: T.Buffer((900,), "int32"),
    val: T.Buffer((900,), "float32"),
    x: T.Buffer((50, 32), "float32"),
    y: T.Buffer((64, 32), "float32"),
) -> None:
    for row in range(64):
        for j in range(32):
            y[row, j] = 0.0
        for p in range(indptr[row], indptr[row + 1]):
            for j in range(32):
                y[row, j] += val[p] * x[col[p], j]


@T.prim_func
def sliding(indptr: T.Buffer((65,), "int32"), y: T.Buffer((200,), "float32")) -> None:
    for row in range(64):
        for p in range(indptr[row], indptr[row + 1]):
            y[row + p] += 1.0


@T.prim_func
def scattered(
    idx: T.Buffer((4096,), "int32"),
    x: T.Buffer((4096, 64), "float32"),
    o: T.Buffer((256, 64), "float32"),
) -> None:
    for i, j in T.grid(4096, 64):
        o[idx[i], j] += x[i, j]


def loops_of(func: PrimFunc) -> list[For]:
    return [loop for loop in by_class(func.body)[For] if isinstance(loop, For)]


def test_rows_of_a_sparse_product_are_independent():
    assert plans(sparse) == ["loops as written"]
    first, *_ = [loop for loop in loops_of(sparse) if loop.loop_var.name_hint == "row"]
    assert not explain_dependence(first, {})
    ends = np.sort(RANDOM.integers(0, 900, 65)).astype("int32")
    col = RANDOM.integers(0, 50, 900).astype("int32")
    val, x = (RANDOM.standard_normal(n).astype("float32") for n in (900, (50, 32)))
    found, wanted = np.empty((64, 32), "float32"), np.empty((64, 32), "float32")
    loomir.compile(sparse)(ends, col, val, x, found)
    loomir.compile(sparse, schedule=False)(ends, col, val, x, wanted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("func", [sliding, scattered])
def test_loops_that_may_meet_an_element_twice_run_in_order(func: PrimFunc):
    outer, *_ = [loop for loop in loops_of(func) if loop.loop_var.name_hint in ("row", "i")]
    assert explain_dependence(outer, {})
    made = schedule_function(func, Target("haswell")).func
    assert all(loop.kind is not ForKind.PARALLEL for loop in loops_of(made))
