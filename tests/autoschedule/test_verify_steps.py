"""Wrong stages and wrong loops are found, and the step that made them is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import loomir
from loomir.arith.fold import imm64
from loomir.autoschedule import driver
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, LiftedFunction, Stage
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.autoschedule.rule_table import Rule
from loomir.autoschedule.rules.fallback import plan_general
from loomir.autoschedule.steps import LiftedKernel
from loomir.autoschedule.verify_steps import StepVerifier, verify_stages
from loomir.ir.passes import verifying
from loomir.ir.substitution import substitute
from loomir.script import tir as T
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.expr import PrimExpr, Var, const
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind, Stmt


@T.prim_func
def chain(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32")):
    sums = T.alloc_buffer((8,), "float32")
    for i, k in T.grid(8, 6):
        with T.block("sums"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                sums[vi] = T.float32(0)
            sums[vi] = sums[vi] + A[vi, vk]
    for i in range(8):
        with T.block("scaled"):
            vi = T.axis.spatial(8, i)
            B[vi] = sums[vi] * T.float32(2)


@T.prim_func
def overwriting(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    before = T.alloc_buffer((8,), "float32")
    for i in range(8):
        before[i] = T.exp(A[i])
    for i in range(4):
        A[i] = T.float32(1)
    for i in range(4):
        A[i + 4] = T.float32(2)
    for i in range(8):
        B[i] = before[i] + before[7 - i]


def stages_of(func: PrimFunc) -> tuple[LiftedFunction, list[Stage]]:
    kernel = lift_function(func)
    stages = [part for part in kernel.parts if isinstance(part, Stage)]
    assert len(stages) == len(kernel.parts)
    return kernel, stages


def product(stage: Stage) -> Stage:
    assert stage.combine is Combine.SUM
    return stage


INT32 = DataType("int32")
MORE = decl_buffer((8,), "float32", "more")


def with_extent(stage: Stage, extent: int) -> Stage:
    return replace(stage, axes=(Axis(stage.axes[0].var, imm64(extent)),))


BROKEN: dict[str, tuple[Callable[[Stage], Stage], str]] = {
    "two axes of one variable": (
        lambda s: replace(s, axes=(*s.axes, s.axes[0])),
        "two axes have one variable",
    ),
    "an axis of int32": (
        lambda s: replace(s, reduced=(Axis(Var("k", INT32), const(6, INT32)),)),
        "axis 'k' is int32 up to int32",
    ),
    "fewer values than none": (lambda s: with_extent(s, -1), "axis 'vi' has the extent -1"),
    "an extent by another axis": (
        lambda s: replace(s, reduced=(Axis(s.reduced[0].var, s.axes[0].var),)),
        "the extent of axis 'vk' depends on another axis",
    ),
    "an index too many": (
        lambda s: replace(s, indices=(*s.indices, imm64(0))),
        "2 indices for 1 dimensions of 'sums'",
    ),
    "an index that is not an axis": (
        lambda s: replace(s, indices=(s.axes[0].var * 2,)),
        r"index 0 is v\w* \* T.int64\(2\), neither an axis",
    ),
    "an index that moves with an axis twice": (
        lambda s: replace(s, indices=(s.axes[0].var + s.axes[0].var,)),
        "neither an axis",
    ),
    "an index by a reduced axis": (
        lambda s: replace(s, indices=(s.reduced[0].var,)),
        "'vk' is reduced",
    ),
    "an element written again and again": (
        lambda s: replace(s, indices=(imm64(0),)),
        "one element is written for each value of 'vi'",
    ),
    "a value of another dtype": (
        lambda s: replace(s, value=s.value.astype("float64")),
        "a value of float64 is stored to 'sums' of float32",
    ),
    "a start of another dtype": (
        lambda s: replace(s, init=imm64(0)),
        "a sum of float32 starts from a value of int64",
    ),
    "a value that reads the result": (
        lambda s: replace(s, value=BufferLoad(s.buffer, s.indices)),
        "the value reads 'sums', which is being computed",
    ),
    "another element than is updated": (
        lambda s: replace(
            s,
            value=BufferLoad(s.buffer, (imm64(0),)),
            in_place=True,
            combine=Combine.NONE,
            reduced=(),
            init=None,
        ),
        "reads another element of 'sums' than is stored",
    ),
    "a start that reads the result": (
        lambda s: replace(s, init=BufferLoad(s.buffer, s.indices)),
        "what an element starts from reads 'sums'",
    ),
    "a start by a reduced axis": (
        lambda s: replace(s, init=s.reduced[0].var.astype("float32")),
        "'vk' is reduced, and used in what an element starts from",
    ),
    "terms that nothing combines": (
        lambda s: replace(s, combine=Combine.NONE, init=None),
        "nothing combines the terms",
    ),
    "a start without a sum": (
        lambda s: replace(s, combine=Combine.NONE, reduced=()),
        "starts from a value to which nothing is added",
    ),
    "a reduction in place": (lambda s: replace(s, in_place=True), "no update in place"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_stage_that_breaks_a_promise_is_found(name: str):
    break_it, message = BROKEN[name]
    stage = product(stages_of(chain)[1][0])
    verify_stages([stage], "a step")
    with pytest.raises(
        InternalError, match=f"a step is wrong: stage 'sums' of 'sums': .*{message}"
    ):
        verify_stages([break_it(stage)], "a step")


def test_a_stage_of_a_block_starts_where_loops_around_it_say():
    stage = stages_of(chain)[1][0]
    moved = replace(stage, indices=(Var("block", "int64") * 8 + stage.axes[0].var,))
    verify_stages([moved], "a rule", of_block=True)
    with pytest.raises(InternalError, match="neither an axis"):
        verify_stages([moved], "a step")


def shifted(stage: Stage, by: int) -> Stage:
    var = stage.axes[0].var
    return replace(stage, value=substitute(stage.value, {var: var + by}))


STEPS: dict[str, tuple[PrimFunc, Callable[[list[Stage]], list[Stage]], str]] = {
    "an unknown buffer is read": (
        chain,
        lambda s: [replace(s[0], value=BufferLoad(MORE, s[0].indices)), s[1]],
        "it reads 'more', which nothing defines",
    ),
    "an unknown buffer is written": (
        chain,
        lambda s: [s[0], replace(s[1], buffer=MORE)],
        "it writes 'more', which nothing defines",
    ),
    "an unknown variable": (
        chain,
        lambda s: [s[0], replace(s[1], value=Var("f", "float32") * s[1].value)],
        "it uses 'f', which is no axis of it and defined nowhere",
    ),
    "an axis of another stage": (
        chain,
        lambda s: [s[0], replace(s[1], value=s[1].value + s[0].reduced[0].var.astype("float32"))],
        "it uses 'vk', which is no axis",
    ),
    "a read beyond the end": (
        chain,
        lambda s: [s[0], shifted(s[1], 1)],
        r"stage 'scaled' of 'B': .*out of range|outside",
    ),
    "a store beyond the end": (
        chain,
        lambda s: [s[0], replace(s[1], indices=(s[1].axes[0].var + 3,))],
        r"stage 'scaled' of 'B': ",
    ),
    "a stage read before it is made": (chain, lambda s: [s[1], s[0]], "'sums' is read before it"),
    "a result left out": (chain, lambda s: [s[0]], "nothing writes 1 of the arrays"),
    "a read of what was overwritten": (
        overwriting,
        lambda s: [s[1], s[2], s[0], s[3]],
        "it reads what others have overwritten",
    ),
    "a read that no stage did": (
        overwriting,
        lambda s: [s[0], replace(s[1], value=first_of(s[0])), *s[2:]],
        "or never read",
    ),
    "two stages that write one element": (
        overwriting,
        lambda s: [*s[:2], replace(s[2], indices=(s[2].axes[0].var + 3,)), s[3]],
        "it overwrites elements of 1 stages before it",
    ),
}


def first_of(stage: Stage) -> PrimExpr:
    return BufferLoad(stage.buffer, (imm64(0),))


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_makes_a_wrong_kernel_is_named(name: str):
    func, change, message = STEPS[name]
    kernel, stages = stages_of(func)
    verifier = StepVerifier(func)
    verifier.verify_step("reading", kernel)
    verifier.verify_step("nothing", replace(kernel, parts=tuple(stages)))
    with pytest.raises(InternalError, match=f"a step is wrong: .*{message}"):
        verifier.verify_step("a step", replace(kernel, parts=tuple(change(stages))))


def test_lifting_is_compared_with_the_program():
    kernel, (first, second) = stages_of(chain)
    for parts, message in [((first,), "nothing writes"), ((second, first), "before it is made")]:
        with pytest.raises(InternalError, match=f"reading the loops is wrong: .*{message}"):
            StepVerifier(chain).verify_step("reading the loops", replace(kernel, parts=parts))


@T.prim_func
def careless(A: T.Buffer((8,), "float32"), n: T.int64):
    nothing = T.alloc_buffer((8,), "float32")
    for i in range(8):
        A[i] = nothing[i]
    for i in range(8):
        A[i] = A[i] + T.float32(1)
    for i in range(8):
        A[i] = T.float32(1)


def test_what_the_program_gets_wrong_is_no_mistake_of_a_step():
    with verifying():
        schedule_function(careless, Target("haswell"))


# -- by the driver -----------------------------------------------------------------------------
def broken(
    step: Callable[[LiftedKernel], LiftedKernel],
) -> Callable[[LiftedKernel], LiftedKernel]:
    def one(lifted: LiftedKernel) -> LiftedKernel:
        kernel = step(lifted).kernel
        return lifted._replace(kernel=replace(kernel, parts=tuple(reversed(lifted.kernel.parts))))

    return one


def test_the_driver_verifies_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch):
    first, *others = driver.REWRITES
    rewrites = (replace(first, rewrite=broken(first.rewrite)), *others)
    monkeypatch.setattr(driver, "REWRITES", rewrites)
    with verifying(False):
        schedule_function(chain, Target("haswell"))
    with verifying(), pytest.raises(InternalError, match=r"^inlining is wrong: stage 'scaled'"):
        schedule_function(chain, Target("haswell"))


def fallback(change: Callable[[Stmt], Stmt]) -> Callable[..., Any]:
    """Return the rules: one that is wrong."""

    def rule(stages: Sequence[Stage], inner: object, target: Target) -> tuple[Plan, int]:
        plan = plan_general(stages[0], target)
        return replace(plan, stmt=change(plan.stmt)), 1

    return lambda *_: (Rule("wrong", "", "", rule),)


def repeated(stmt: Stmt) -> Stmt:
    var = Var("again", "int64")
    return For(
        var, imm64(0), imm64(2), ForKind.SERIAL, For(var, imm64(0), imm64(2), ForKind.SERIAL, stmt)
    )


def elsewhere(buffer: Any) -> Callable[[Stmt], Stmt]:
    store = loomir.tir.BufferStore(buffer, const(1, buffer.dtype), (imm64(0),))
    return lambda stmt: loomir.tir.SeqStmt((stmt, store))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stmt: loomir.tir.Evaluate(imm64(0)), "stage 'sums' .*the loops do not compute it"),
        (elsewhere(MORE), "the loops use more, which nothing defines"),
        (elsewhere(next(reversed(chain.buffer_map.values()))), "the loops use 'B', not its stages"),
        (repeated, "'again' is bound twice"),
    ],
)
def test_a_rule_that_makes_wrong_loops_is_named(
    change: Callable[[Stmt], Stmt], message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver, "rules_of", fallback(change))
    with verifying(), pytest.raises(InternalError, match=rf"(?s)^reduction is wrong: .*{message}"):
        schedule_function(chain, Target("haswell"))
