"""Reductions over the threads of a block of a GPU, as schedules for GPUs write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.interp import Interpreter
from loomir.ir.visit import pre_order
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, RunError
from loomir.tir.analysis.cross_thread import serialize_cross_thread_reductions
from loomir.tir.stmt import For, ForKind

# Sums of columns: each thread of a row sums every fourth element, then the threads are combined.
RFACTORED = """
@T.prim_func
def f(x: T.Buffer((10, 6), "float32"), y: T.Buffer((6,), "float32")):
    part = T.alloc_buffer((4, 6), scope="local")
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(3, thread="threadIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                with T.sblock("part_init"):
                    vt = T.axis.spatial(4, ty)
                    v0 = T.axis.spatial(6, bx * 3 + tx)
                    part[vt, v0] = T.float32(0)
                for k in T.serial(3):
                    with T.sblock("part_update"):
                        vt = T.axis.spatial(4, ty)
                        v0 = T.axis.spatial(6, bx * 3 + tx)
                        vk = T.axis.reduce(3, k)
                        T.where(k * 4 + ty < 10)
                        part[vt, v0] = part[vt, v0] + x[vk * 4 + vt, v0]
        for tx in T.thread_binding(3, thread="threadIdx.x"):
            for ty in T.thread_binding(4, thread="THREAD"):
                with T.sblock("sum"):
                    vt = T.axis.reduce(4, ty)
                    v0 = T.axis.spatial(6, bx * 3 + tx)
                    T.reads(part[vt, v0])
                    T.writes(y[v0])
                    with T.init():
                        y[v0] = T.float32(0)
                    y[v0] = y[v0] + part[vt, v0]
"""


def rfactored(thread: str = "threadIdx.y") -> Any:
    return from_source(RFACTORED.replace("THREAD", thread))


def data() -> tuple[Any, Any, Any]:
    x = np.arange(60, dtype="float32").reshape(10, 6)
    return x, np.full(6, np.nan, "float32"), x.sum(0)


@pytest.mark.parametrize("options", [{}, {"checked": True}, {"schedule": False}])
def test_threads_of_a_block_combine_what_they_hold(options: dict[str, Any]):
    x, y, wanted = data()
    loomir.compile(rfactored(), cache=False, **options)(x, y)
    np.testing.assert_array_equal(y, wanted)


def test_the_interpreter_sees_no_race_in_a_declared_reduction():
    x, y, wanted = data()
    Interpreter(rfactored(), track=True).call("f", [x, y], {})
    np.testing.assert_array_equal(y, wanted)


def test_blocks_of_a_grid_cannot_reduce():
    with pytest.raises(CompileError) as caught:
        loomir.compile(rfactored("blockIdx.y"))
    assert caught.value.diagnostics[0].code == "TIR0413"


def test_only_loops_that_a_block_reduces_over_change():
    func = rfactored()
    changed = serialize_cross_thread_reductions(func)
    kinds = [
        (part.loop_var.name_hint, part.kind)
        for part in pre_order(changed.body)
        if isinstance(part, For)
    ]
    serial = [name for name, kind in kinds if kind is ForKind.SERIAL]
    assert serial == ["k", "ty"]
    assert sum(kind is ForKind.THREAD_BINDING for _, kind in kinds) == 4


def test_a_race_of_threads_outside_of_a_declared_reduction_is_still_seen():
    text = """
@T.prim_func
def f(x: T.Buffer((8,), "int32"), y: T.Buffer((1,), "int32")):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        y[0] = y[0] + x[t]
"""
    program = from_source(text)
    for run in (
        lambda *a: Interpreter(program, track=True).call("f", list(a), {}),
        loomir.compile(program, checked=True, cache=False),
    ):
        with pytest.raises(RunError):
            run(np.ones(8, "int32"), np.zeros(1, "int32"))


def test_a_value_by_way_of_an_outer_block_is_followed():
    text = """
@T.prim_func
def f(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("outer"):
                vi = T.axis.spatial(4, i)
                vt = T.axis.reduce(8, t)
                with T.init():
                    y[vi] = T.float32(0)
                for u in range(1):
                    with T.sblock("inner"):
                        wk = T.axis.reduce(8, vt + u)
                        y[vi] = y[vi] + x[vi, wk]
"""
    x = np.arange(32, dtype="float32").reshape(4, 8)
    y = np.zeros(4, "float32")
    loomir.compile(from_source(text), checked=True, cache=False)(x, y)
    np.testing.assert_array_equal(y, x.sum(1))
