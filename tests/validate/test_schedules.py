"""Schedules are compared with their programs, and the step that is wrong is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import loomir
import loomir.autoschedule.driver as scheduling
from loomir import validate_schedule
from loomir.autoschedule import rule_table
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.steps import READ, REWRITES, TIDY, LiftedKernel
from loomir.autoschedule.trace_steps import Step, serial_loops
from loomir.interp import Interpreter
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import rebuild, rewrite
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.expr import FloorDiv, IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For

TARGETS = ("x86-64", "haswell", "skylake-avx512", "sapphirerapids", "neoverse-n1", "apple-m1")


@T.prim_func
def product(
    a: T.Buffer(("n", "k"), "float32"),
    b: T.Buffer(("k", "m"), "float32"),
    c: T.Buffer(("n", "m"), "float32"),
):
    n, m, k = T.int64(), T.int64(), T.int64()
    for i, j, p in T.grid(n, m, k):
        with T.sblock("C"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] += a[vi, vp] * b[vp, vj]


@T.prim_func
def total(x: T.Buffer(("n",), "float32"), y: T.Buffer((1,), "float32")):
    n = T.int64()
    for i in range(n):
        with T.sblock("total"):
            vi = T.axis.reduce(n, i)
            with T.init():
                y[0] = T.float32(0)
            y[0] += x[vi]


@T.prim_func
def taken(
    x: T.Buffer(("n",), "float32"), at: T.Buffer(("m",), "int32"), y: T.Buffer(("m",), "float32")
):
    m = T.int64()
    for i in range(m):
        y[i] = x[at[i]] + T.float32(1)


@T.prim_func
def twice(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    kept = T.alloc_buffer((8,), "float32")
    for i in range(8):
        kept[i] = x[i] + T.float32(1)
    for i in range(8):
        y[i] = kept[i] * kept[i]


@T.prim_func
def large(a: T.Buffer((4096, 514), "float32"), c: T.Buffer((4096, 512), "float32")):
    for i, j, p in T.grid(4096, 512, 3):
        with T.sblock("C"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] += a[vi, vj + vp]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("func", [total, taken, twice], ids=lambda f: f.name)
def test_right_schedules_are_told_so_for_any_machine(func: PrimFunc, target: str) -> None:
    report = validate_schedule(func, target)
    assert report.ok, str(report)
    (one,) = report.functions
    assert (one.status, one.calls, one.not_compared) == ("right", 3, ())
    assert report.target == target


@pytest.mark.parametrize("target", ["haswell", "sapphirerapids"])
def test_sizes_may_be_given(target: str) -> None:
    report = validate_schedule(product, target, sizes={"n": 5, "m": 20, "k": 7}, seeds=[0])
    assert report.ok
    assert report.functions[0].elements == 5 * 7 + 7 * 20 + 5 * 20


def loses_a_step(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let the loops of a plan end one iteration too early."""

    def planned(*args: Any, **options: Any) -> Any:
        made = func(*args, **options)
        if made is None:
            return None
        plan = made[0] if isinstance(made, tuple) else made

        def shorter(loop: For) -> For:
            return rebuild(loop, {"extent": loop.extent - IntImm(1, loop.extent.dtype)})

        plan = dataclasses.replace(plan, stmt=rewrite(plan.stmt, {For: shorter}))
        return (plan, made[1]) if isinstance(made, tuple) else plan

    return planned


def test_a_rule_that_loses_a_term_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(scheduling, "plan_group", loses_a_step(rule_table.plan_group))
    report = validate_schedule(total, "haswell", sizes={"n": 50}, seeds=[0])
    assert not report.ok
    difference = report.functions[0].difference
    assert difference is not None
    assert difference.step.endswith(" of y")
    assert (difference.argument, difference.index) == ("y", (0,))
    assert isinstance(difference.written, int)
    assert difference.scheduled < difference.written
    assert difference.sizes == {"n": 50}
    assert f"y[0] is {difference.scheduled} instead of {difference.written}" in str(report)


def test_a_step_before_the_rules_is_named(monkeypatch: Any) -> None:
    first, *others = REWRITES

    def doubled(lifted: LiftedKernel) -> LiftedKernel:
        made = first.rewrite(lifted).kernel
        stage = made.parts[-1]
        assert isinstance(stage, Stage)
        stage = dataclasses.replace(stage, value=stage.value * T.float32(2))
        made = dataclasses.replace(made, parts=(*made.parts[:-1], stage))
        return lifted._replace(kernel=made)

    wrong = dataclasses.replace(first, rewrite=doubled)
    monkeypatch.setattr(scheduling, "REWRITES", (wrong, *others))
    report = validate_schedule(twice, "sapphirerapids")
    difference = report.functions[0].difference
    assert difference is not None
    assert (difference.step, difference.argument, difference.index) == ("inlining", "y", (0,))
    assert difference.scheduled == 2 * difference.written


def test_a_wrong_last_step_is_named(monkeypatch: Any) -> None:
    def cleared(stmt: Any) -> Any:
        return rewrite(stmt, {For: lambda loop: rebuild(loop, {"extent": loop.extent * 0})})

    monkeypatch.setattr(scheduling, "fold_constants", cleared)
    difference = validate_schedule(twice, "neoverse-n1").functions[0].difference
    assert difference is not None
    assert difference.step == "tidying"


def test_a_schedule_that_raises_is_wrong(monkeypatch: Any) -> None:
    def longer(stmt: Any) -> Any:
        return rewrite(stmt, {For: lambda loop: rebuild(loop, {"extent": loop.extent + 1})})

    monkeypatch.setattr(scheduling, "fold_constants", longer)
    difference = validate_schedule(twice, "x86-64").functions[0].difference
    assert difference is not None
    assert difference.written == "no error"
    assert str(difference.scheduled).startswith("RUN0203: ")


def test_rounding_never_hides_a_term(monkeypatch: Any) -> None:
    def without_the_smallest(func: Any, target: Any, **options: Any) -> Any:
        made = schedule_function(func, target, **options)

        def shorter(loop: For) -> For:
            return rebuild(loop, {"extent": FloorDiv(loop.extent, IntImm(2, loop.extent.dtype))})

        body = rewrite(func.body, {For: shorter})
        return made._replace(
            func=PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs)
        )

    monkeypatch.setattr("loomir.validate.schedules.schedule_function", without_the_smallest)
    x = np.array([1e30, 1e-30], "float32")
    report = validate_schedule(total, "haswell", arguments=(x, np.zeros(1, "float32")))
    difference = report.functions[0].difference
    assert difference is not None
    small = Fraction(float(np.float32(1e-30)))
    assert difference.written - difference.scheduled == small
    assert np.float32(1e30) + np.float32(1e-30) == np.float32(1e30)


def test_large_sizes_are_compared_smaller_and_it_is_said() -> None:
    report = validate_schedule(large, "icelake-server", seeds=[0])
    (one,) = report.functions
    assert one.status == "right"
    assert one.not_compared == ("not compared with its own sizes: that takes too long",)
    old = dict(one.smaller)
    assert old[514] == old[512] + 2
    assert old[4096] == 8 * old[512]
    assert "in place of 4096" in str(report)


def test_what_cannot_be_compared_is_never_right() -> None:
    report = validate_schedule(product, "haswell", sizes={"n": 64, "m": 64, "k": 64}, budget=100)
    assert not report.ok
    assert report.not_compared == report.functions
    assert report.functions[0].status == "not compared"
    assert "n = 64" in str(report)

    handle = from_source("""
from loomir.script import ir as I, tir as T

@T.prim_func
def main(p: T.handle, x: T.Buffer((8,), "float32")):
    for i in range(8):
        x[i] = x[i] + T.float32(1)
""")
    assert isinstance(handle, PrimFunc)
    report = validate_schedule(handle, "haswell")
    assert not report.ok
    assert "not compared: no value can be made up for the handle p" in str(report)


def test_programs_that_always_raise_are_not_compared() -> None:
    @T.prim_func
    def beyond(x: T.Buffer(("n",), "float32"), y: T.Buffer(("n",), "float32")):
        n = T.int64()
        for i in range(n):
            y[i] = x[i + n] + T.float32(1)

    report = validate_schedule(beyond, "haswell")
    assert not report.ok
    assert "each call that was made up raises RUN0203" in str(report)


def test_scheduled_functions_are_not_scheduled_again() -> None:
    @T.prim_func
    def vectors(x: T.Buffer((8,), "float32")):
        for i in range(2):
            for j in T.vectorized(4):
                x[i * 4 + j] = x[i * 4 + j] + T.float32(1)

    report = validate_schedule(vectors, "haswell")
    assert report.ok
    assert report.functions[0].status == "not scheduled"


def test_graphs_are_compared_by_kernels() -> None:
    module = from_source("""
from loomir.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 5), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.nn.relu(R.matmul(x, w)))
            R.output(y)
        return y
""")
    assert isinstance(module, IRModule)
    report = validate_schedule(module, "neoverse-v1")
    assert report.ok, str(report)
    assert len([f for f in report.functions if f.status == "right"]) >= 1


def test_every_step_of_scheduling_means_the_same() -> None:
    x = np.arange(12, dtype="float32").reshape(4, 3)
    steps: list[Step] = []
    schedule_function(product, Target("haswell"), on_step=steps.append)
    assert [s.name for s in steps] == [
        READ.name,
        *(rewrite.name for rewrite in REWRITES),
        "matrix product of c",
        TIDY.name,
    ]
    for step in steps:
        func = PrimFunc(
            product.params, step.body(), product.ret_type, product.buffer_map, product.attrs
        )
        out = np.full((4, 4), 7, "float32")
        Interpreter(IRModule({GlobalVar("product"): func})).call(
            "product", (x, x.T.copy(), out), {}
        )
        np.testing.assert_array_equal(out, x @ x.T)


def test_plain_loops_do_not_write_elements_that_take_no_terms() -> None:
    steps: list[Step] = []
    schedule_function(product, Target("haswell"), on_step=steps.append)
    func = rebuild(product, {"body": steps[0].body()})
    out = np.full((2, 2), 7, "float32")
    empty = np.zeros((2, 0), "float32")
    arguments = (empty, empty.T.copy(), out)
    Interpreter(IRModule({GlobalVar("product"): func})).call("product", arguments, {})
    assert (out == 7).all()
    assert serial_loops.__doc__


def test_compile_checks_schedules_where_asked(monkeypatch: Any) -> None:
    exe = loomir.compile(twice, verify_schedule=True)
    out = np.zeros(8, "float32")
    exe(np.arange(8, dtype="float32"), out)
    np.testing.assert_array_equal(out, (np.arange(8) + 1) ** 2)

    def cleared(stmt: Any) -> Any:
        return rewrite(stmt, {For: lambda loop: rebuild(loop, {"extent": loop.extent * 0})})

    monkeypatch.setattr(scheduling, "fold_constants", cleared)
    loomir.compile(twice, verify_schedule=True, schedule=False)
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(twice, verify_schedule=True)
    assert caught.value.diagnostic.code == "SCH0011"
    assert "after tidying" in caught.value.diagnostic.message
    with pytest.raises(loomir.CompileError, match="RUN0012"):
        loomir.compile(twice, verify_schedule="yes")


def test_compile_warns_of_what_it_cannot_check() -> None:
    @T.prim_func
    def stuck(p: T.handle, x: T.Buffer((8,), "float32")):
        for i in range(8):
            x[i] = x[i] + T.float32(1)

    with pytest.warns(loomir.CompileWarning, match="SCH0012"):
        loomir.compile(stuck, verify_schedule=True)
