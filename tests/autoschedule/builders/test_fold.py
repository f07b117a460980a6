"""Loops that never run leave nothing behind, not even a loop around nothing."""

from __future__ import annotations

from loomir import verify
from loomir.autoschedule.builders.fold import fold_constants
from loomir.autoschedule.driver import schedule_function
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.stmt import BufferStore, For, While
from tests.autoschedule.agreement import draw, interpret_kinds, read_function

PARAMS = 'A: T.Buffer((64,), "float32"), B: T.Buffer((65,), "float32")'


def test_statements_around_loops_that_never_run_stay() -> None:
    func = read_function(
        PARAMS,
        """
for i in range(64):
    B[i] = A[i] + T.float32(1)
for i in range(0):
    B[i + 1] = B[i] * T.float32(2)
""",
    )
    found = by_class(fold_constants(func.body))
    assert len(found[For]) == len(found[BufferStore]) == 1
    assert interpret_kinds(func, draw(func)) == ["element-wise"]


def test_loops_around_nothing_but_such_loops_are_gone() -> None:
    func = read_function(
        PARAMS,
        """
for i in range(64):
    for j in range(0):
        B[i] = B[i] + A[i] * A[i]
    for j in range(0):
        B[i + 1] = B[i] * T.float32(2)
""",
    )
    assert For not in by_class(fold_constants(func.body))
    interpret_kinds(func, draw(func))


def test_a_while_loop_that_never_runs_is_gone() -> None:
    func = read_function(
        PARAMS,
        """
for i in range(64):
    B[i] = A[i]
    while B[i] < T.float32(2) and not T.Cast("bool", T.int8(-5)):
        B[i] = B[i] + T.float32(1)
""",
    )
    assert While not in by_class(fold_constants(func.body))
    assert not verify(schedule_function(func, Target("haswell")).func)
    interpret_kinds(func, draw(func))
