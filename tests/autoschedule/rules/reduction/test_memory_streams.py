"""Passes over what lies in memory: fetched ahead, or in vectors of half a line of the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.ir.visit import by_class
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For
from tests.autoschedule.agreement import scheduled

Operator = Callable[[te.Tensor], te.Tensor]


def made(op: Operator, *shape: int, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, op(x)])


def rows(x: te.Tensor) -> te.Tensor:
    return topi.sum(x, axis=1)


def everything(x: te.Tensor) -> te.Tensor:
    return topi.sum(x)


@pytest.mark.parametrize("op", [rows, everything])
@pytest.mark.parametrize(
    ("count", "dtype", "ahead"),
    [
        (4096, "float32", 4096),
        (4096, "float64", 2048),
        (1024, "float32", 0),  # a cache holds it from one call to the next
    ],
)
def test_what_no_cache_holds_is_fetched_ahead(op: Operator, count: int, dtype: str, ahead: int):
    found = scheduled(made(op, count, 4096, dtype=dtype), target="znver5")
    notes = [loop.annotations for loop in by_class(found.func)[For]]
    asked = {int(n["prefetch_distance"].value) for n in notes if "prefetch_distance" in n}
    assert asked == ({ahead} if ahead else set())
    text = f"what lies {ahead} elements ahead is fetched into the caches"
    assert (text in found.plans[0].choices) == bool(ahead)


@pytest.mark.parametrize(
    ("op", "count", "target", "lanes"),
    [
        (topi.rms_norm, 4096, "znver5", 8),
        (rows, 4096, "znver5", 8),
        (topi.rms_norm, 64, "znver5", 0),  # the second cache gives whole lines
        (topi.rms_norm, 4096, "haswell", 0),  # vectors are no longer
        (topi.softmax, 4096, "znver5", 0),  # the next row is fetched while functions are computed
    ],
)
def test_vectors_of_half_a_line_come_from_memory(op: Operator, count: int, target: str, lanes: int):
    found = scheduled(made(op, count, 768), target=target)
    text = f"vectors of {lanes} come from memory: longer ones lie in two lines"
    assert [c for c in found.plans[0].choices if "come from memory" in c] == [text] * bool(lanes)
    loops = [loop for loop in by_class(found.func)[For] if loop.loop_var.name_hint == "lane"]
    assert (min(int(loop.extent.value) for loop in loops) == 8) == bool(
        lanes or target == "haswell"
    )


@pytest.mark.parametrize("length", [777, 1024, 40, 12])
@pytest.mark.parametrize("op", [topi.rms_norm, lambda x: topi.max(x, axis=1)])
def test_how_rows_are_read_changes_no_bit(op: Operator, length: int):
    count = (4 << 20) // length
    x = np.random.default_rng(3).standard_normal((count, length), "float32")
    func, few = made(op, count, length), made(op, 16, length)
    shape = func.buffer_map[func.params[1]].shape
    whole = np.empty([int(n.value) for n in shape], "float32")
    part = np.empty((16, *whole.shape[1:]), "float32")
    loomir.compile(func)(x, whole)
    loomir.compile(few)(np.ascontiguousarray(x[:16]), part)
    np.testing.assert_array_equal(whole[:16], part)


@pytest.mark.parametrize("dtype", ["int8", "int32", "float64"])
def test_short_vectors_leave_no_element_out(dtype: str):
    x = (np.random.default_rng(4).standard_normal((270, 16384 + 21)) * 9).astype(dtype)
    x[np.arange(270), np.arange(270) * 60 + 264] = 101  # the greatest of each row: anywhere in it
    got = np.empty(270, dtype)
    loomir.compile(made(lambda x: topi.max(x, axis=1), *x.shape, dtype=dtype))(x, got)
    np.testing.assert_array_equal(got, x.max(1))
