"""The default schedule is a pass like any other: on functions and modules, for the machine given."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import SCHEDULED, schedule_function
from loomir.ir.passes import PASSES, Pipeline, apply, pass_of
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from loomir.tir import PrimFunc
from loomir.transform import ScheduleOptions, schedule
from loomir.transform.tir.loops.vectorize_loop import vectorize_loop
from tests.transform.meaning import parse

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def twice(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
        for i, j in T.grid(64, 64):
            B[i, j] = A[i, j] + A[i, j]

    @T.prim_func
    def arranged(A: T.Buffer((64,), "float32")):
        for i in T.serial(64, annotations={"steps_at_once": 2}):
            A[i] = A[i] * T.float32(2)
"""


@T.prim_func
def gather(
    x: T.Buffer((64,), "float32"), i: T.Buffer((64,), "int32"), y: T.Buffer((64,), "float32")
):
    for k in range(64):
        y[k] = x[i[k]]


def test_it_is_registered_with_the_machine_as_its_option():
    step = PASSES["tir.Schedule"]
    assert pass_of(schedule) is step
    assert (step.unit, step.options) == (PrimFunc, ScheduleOptions)


@pytest.mark.parametrize("name", ["haswell", "x86-64-v4", "apple-m1"])
def test_it_does_what_the_driver_does_for_that_machine(name: str):
    mod = parse(TEXT)
    made = apply(PASSES["tir.Schedule"], mod, ScheduleOptions(name))
    for var, func in mod.functions.items():
        assert isinstance(func, PrimFunc)
        wanted = schedule_function(func, loomir.Target(name)).func
        assert made[var.name_hint].script() == wanted.script()
    assert made["twice"].attrs[SCHEDULED]
    assert made["arranged"] is mod["arranged"]
    assert schedule(made, ScheduleOptions(name)) is made


def test_its_option_is_this_machine_by_default():
    func = parse(TEXT)["twice"]
    assert isinstance(func, PrimFunc)
    assert schedule(func).script() == schedule(func, ScheduleOptions("native")).script()
    with pytest.raises(CompileError, match="TGT0001"):
        schedule(func, ScheduleOptions("no such machine"))


def test_loops_with_checks_are_scheduled_where_these_can_be_made_before_them():
    twice = parse(TEXT)["twice"]
    assert isinstance(twice, PrimFunc)
    checked = ScheduleOptions("haswell", check_bounds=True)
    assert "T.vectorized" in schedule(twice, checked).script()
    x, i = np.arange(64, dtype="float32"), np.arange(64, dtype="int32")[::-1].copy()
    y = np.zeros(64, "float32")
    loomir.interpret(schedule(gather, checked), x, i, y)
    assert (y == x[i]).all()


def test_it_undoes_what_lowering_establishes():
    with pytest.raises(CompileError, match="does not ensure no_vector_loops"):
        Pipeline(
            "p",
            (vectorize_loop, schedule),
            assumes={"flat_buffers", "no_blocks", "well_formed"},
            ensures={"no_vector_loops"},
        )


def test_a_program_of_another_kind_is_refused():
    with pytest.raises(CompileError, match="TIR0006"):
        schedule("twice")  # type: ignore[call-overload]
