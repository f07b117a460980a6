"""Whole functions get loops by rule, and mean what they meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.autoschedule.builders import thread_partition
from loomir.autoschedule.driver import SCHEDULED, ScheduledFunction, schedule_function
from loomir.ir.visit import by_class
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import STEPS_AT_ONCE, For, ForKind

RANDOM = np.random.default_rng(3)


def scheduled(func: PrimFunc, *, tasks: bool = False) -> ScheduledFunction:
    """Schedule a function; with ``tasks`` as if there were much to do."""
    if not tasks:
        return schedule_function(func, Target("native"))
    with mock.patch.multiple(thread_partition, WORTH=0.0, TASK=20.0):
        return schedule_function(func, Target("native"))


def same(
    func: PrimFunc,
    *shapes: Sequence[int],
    dtype: str = "float32",
    rtol: float = 0,
    summed: int | tuple[int, ...] | None = None,
) -> None:
    """Compare the scheduled function, with and without tasks, with the function as written.

    Where these are sums over the axes ``summed`` of the first array, ``rtol`` is relative to the
    sums of magnitudes: terms may cancel.
    """
    drawn = [np.array(RANDOM.standard_normal(shape) * 4, dtype) for shape in shapes]
    near: Any = 0 if summed is None else rtol * np.abs(drawn[0]).sum(summed)
    wanted = [array.copy() for array in drawn]
    loomir.interpret(func, func.name, *wanted)
    for tasks in (False, True):
        made = scheduled(func, tasks=tasks)
        assert made.plans
        assert made.func.attrs[SCHEDULED]
        assert not loomir.verify(made.func)
        interpreted = [array.copy() for array in drawn]
        loomir.interpret(made.func, func.name, *interpreted)
        native = [array.copy() for array in drawn]
        level = 0 if tasks else 2  # LLVM's passes show nothing more of the same loops as tasks
        with quick_codegen():
            loomir.compile(made.func, opt_level=level, schedule=False, cache=False)(*native)
        for a, b, c in zip(wanted, interpreted, native, strict=True):
            for found in (b, c):
                if summed is None:
                    np.testing.assert_allclose(found, a, rtol=rtol, atol=rtol)
                else:
                    assert (np.abs(found - a) <= (near if a is wanted[-1] else 0)).all()


def test_elements_are_taken_in_vectors_over_collapsed_axes():
    x, y = te.placeholder((3, 5, 7), name="x"), te.placeholder((3, 5, 7), name="y")
    func = te.create_prim_func([x, y, topi.add(topi.multiply(x, y), x)])
    made = scheduled(func)
    assert [plan.kind for plan in made.plans] == ["element-wise"]
    assert "along v_i0, v_i1, v_i2" in made.plans[0].choices[0]
    same(func, (3, 5, 7), (3, 5, 7), (3, 5, 7))
    # A vector across the end of an axis is one in memory all the same.
    code = loomir.compile(made.func, cache=False).llvm_ir()
    assert not re.search(r"[su](div|rem) <|gather|insertelement", code)


def test_a_row_that_is_added_to_each_row_keeps_both_axes():
    x, y = te.placeholder((6, 40), name="x"), te.placeholder((40,), name="y")
    func = te.create_prim_func([x, y, topi.add(x, y)])
    assert "along v_i1" in scheduled(func).plans[0].choices[0]
    same(func, (6, 40), (40,), (6, 40))


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_transposes(axes: tuple[int, ...]):
    x = te.placeholder((4, 18, 35), name="x")
    out = tuple((4, 18, 35)[a] for a in axes)
    same(te.create_prim_func([x, topi.transpose(x, axes)]), (4, 18, 35), out)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_reductions_over_any_axes(name: str, axis: int | tuple[int, ...]):
    x = te.placeholder((3, 4, 37), name="x")
    func = te.create_prim_func([x, getattr(topi, name)(x, axis)])
    left = {0, 1, 2} - ({axis} if isinstance(axis, int) else set(axis))
    out = tuple((3, 4, 37)[a] for a in sorted(left))
    if name == "sum":
        same(func, (3, 4, 37), out, rtol=5e-7, summed=axis)
    else:
        same(func, (3, 4, 37), out, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float64", "float16"])
def test_other_elements(dtype: str):
    x = te.placeholder((5, 67), dtype, name="x")
    same(te.create_prim_func([x, topi.maximum(topi.add(x, x), x)]), (5, 67), (5, 67), dtype=dtype)
    same(te.create_prim_func([x, topi.max(x, 0)]), (5, 67), (67,), dtype=dtype)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (7,), ()])
def test_shapes_without_much_in_them(shape: tuple[int, ...]):
    x = te.placeholder(shape, name="x")
    same(te.create_prim_func([x, topi.multiply(x, x)]), shape, shape)


@T.prim_func
def symbolic(a: T.handle, b: T.handle, c: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i, j in T.grid(m, n):
        with T.sblock("square"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = A[x, y] * A[x, y] - T.float32(1)
    for j, i in T.grid(n, m):
        with T.sblock("columns"):
            y, x = T.axis.remap("SR", [j, i])
            with T.init():
                C[y] = T.float32(0)
            C[y] += B[x, y]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 70), (33, 4)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    same(symbolic, shape, shape, shape[1:])


@T.prim_func
def bare(A: T.Buffer((9, 34), "float32"), B: T.Buffer((9, 34), "float32")):
    for i in range(9):
        for j in range(34):
            A[i, j] = A[i, j] * T.float32(2) + T.float32(i)
    for i, j in T.grid(8, 34):
        B[i + 1, j] = A[i, j]
    for i in range(9):
        B[i, 3] = T.float32(0)
        for k in range(34):
            B[i, 3] = B[i, 3] + A[i, k]


def test_loops_without_blocks_and_stores_in_place():
    assert [p.kind for p in scheduled(bare).plans] == ["element-wise", "element-wise", "reduction"]
    same(bare, (9, 34), (9, 34))


@T.prim_func
def opaque(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(64):
        B[i] = A[i] + 1
    for i in range(1, 64):
        B[i] = B[i - 1] + B[i]
    for i in range(64):
        A[i] = B[i]


def test_what_is_no_stage_stays_where_it_is():
    made = scheduled(opaque)
    assert len(made.plans) == 2
    assert "for i in range(1, 64)" in made.func.script()
    same(opaque, (64,), (64,), dtype="int32")


@T.prim_func
def by_hand(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        A[i] = T.float32(1)
    for i in range(4):
        for j in T.vectorized(16):
            B[i * 16 + j] = A[i * 16 + j]


def test_a_schedule_by_hand_stays_as_it_is():
    assert scheduled(by_hand).func is by_hand


def test_a_scheduled_function_is_not_scheduled_again():
    made = scheduled(symbolic).func
    assert scheduled(made).func is made


def test_cheap_values_are_computed_where_they_are_used():
    x = te.placeholder((8, 8), name="x")
    twice = topi.add(topi.multiply(x, x), x)
    func = te.create_prim_func([x, topi.sum(twice, 1)])
    made = scheduled(func)
    assert len(made.plans) == 1
    assert "multiply" not in made.func.script()
    same(func, (8, 8), (8,), rtol=1e-5)


def test_costly_values_are_computed_once():
    x = te.placeholder((8, 8), name="x")
    func = te.create_prim_func([x, topi.softmax(x)])
    assert scheduled(func).func.script().count("T.exp") <= 2  # a vector, and what is left over
    same(func, (8, 8), (8, 8), rtol=1e-5)


@T.prim_func
def gather(
    A: T.Buffer((50,), "float32"), J: T.Buffer((40,), "int32"), B: T.Buffer((40,), "float32")
):
    for i in range(40):
        B[i] = T.if_then_else(J[i] >= 0 and J[i] < 50, A[J[i]], T.float32(0))


def test_elements_at_places_that_are_read():
    index = RANDOM.integers(-5, 55, 40).astype("int32")
    source, out = RANDOM.standard_normal(50).astype("float32"), np.zeros(40, "float32")
    made = scheduled(gather, tasks=True)
    assert made.plans
    loomir.compile(made.func, cache=False)(source, index, out)
    inside = (index >= 0) & (index < 50)
    np.testing.assert_array_equal(out, np.where(inside, source[np.clip(index, 0, 49)], 0))


def test_compiling_without_a_schedule_leaves_the_order_of_sums():
    x = te.placeholder((4, 1000), name="x")
    func = te.create_prim_func([x, topi.sum(x, 1)])
    data, out = RANDOM.standard_normal((4, 1000)).astype("float32"), np.zeros(4, "float32")
    loomir.compile(func, schedule=False)(data, out)
    wanted = np.zeros(4, "float32")
    for k in range(1000):
        wanted += data[:, k]
    np.testing.assert_array_equal(out, wanted)


def test_a_loop_of_one_step_may_be_used_in_a_block_that_does_not_bind_it():
    @T.prim_func
    def sums(A: T.Buffer((1,), "int32")):
        for i in range(3, 4):
            for k in range(6):
                with T.sblock("sums"):
                    _v = T.axis.reduce(6, k)
                    with T.init():
                        A[0] = i
                    A[0] = A[0] + i

    out = np.zeros(1, "int32")
    loomir.compile(sums, cache=False)(out)
    assert out[0] == 21


def test_native_code_writes_out_no_steps_of_loops_around_loops_of_products() -> None:
    a, b = te.placeholder((96, 100)), te.placeholder((100, 96))
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    loops = by_class(schedule_function(func, Target("haswell")).func.body)[For]
    kinds = ForKind.SERIAL, ForKind.PARALLEL
    stepping = [loop for loop in loops if loop.kind in kinds and str(loop.extent) != "T.int64(1)"]

    def steps(loop: For) -> Any:
        return getattr(loop.annotations.get(STEPS_AT_ONCE), "value", None)

    inside = [[p for p in stepping if p in by_class(q.body).get(For, ())] for q in stepping]
    assert any(inside)
    for loop, below in zip(stepping, inside, strict=True):
        assert steps(loop) == 1 if below else steps(loop) != 1
