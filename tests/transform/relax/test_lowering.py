"""Each pass on graphs keeps what a program means, and makes of it what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.module import IRModule
from loomir.ir.passes import pass_of
from loomir.ir.visit import pre_order
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.rewriter import copy_with_fresh_vars
from loomir.script import from_source
from loomir.tir import PrimFunc
from loomir.tir import Var as ShapeVar
from loomir.transform.pipelines import LOWER_RELAX, lower_relax
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination

Array = Any


def described(shape: Sequence[Any] | None, dtype: str = "float32", ndim: int | None = None) -> Any:
    return relax.TensorStructInfo(shape, dtype, ndim=ndim)  # type: ignore[arg-type]


def program(build: Callable[..., Any], params: Sequence[Any]) -> IRModule:
    """Make a module whose ``main`` is what ``build`` emits, in a dataflow block."""
    builder = BlockBuilder()
    variables = [relax.Var(f"x{i}", info) for i, info in enumerate(params)]
    with builder.function("main", variables):
        with builder.dataflow():
            out = builder.emit_output(build(builder, *variables))
        builder.emit_func_output(out)
    return builder.get()


def calls(mod: IRModule) -> list[str]:
    """List the operators that ``main`` calls."""
    func = mod["main"]
    assert isinstance(func, relax.Function)
    return [
        part.op.name.removeprefix("relax.")
        for part in pre_order(func)
        if isinstance(part, relax.Call) and isinstance(part.op, relax.Op)
    ]


def flat(value: Any) -> list[Array]:
    return [a for v in value for a in flat(v)] if isinstance(value, tuple) else [np.asarray(value)]


def assert_each_pass_keeps_the_meaning(mod: IRModule, *args: Array) -> IRModule:
    """Interpret the module before and after each pass."""
    wanted = flat(loomir.interpret(mod, "main", *args))
    stages: list[tuple[str, IRModule]] = []
    made = lower_relax(mod, on_stage=lambda name, m: stages.append((name, m)), verify=True)
    for name, stage in stages:
        found = flat(loomir.interpret(stage, "main", *args))
        assert len(found) == len(wanted), name
        for a, b in zip(wanted, found):
            assert a.dtype == b.dtype, name
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
    return made


def random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_a_graph_becomes_kernels_in_an_arena():
    n = ShapeVar("n", "int64")

    def build(b: BlockBuilder, x: Any, y: Any) -> Any:
        total = b.emit(op.sum(op.multiply(op.add(x, y), op.add(x, y)), [1], keepdims=True))
        return op.add(op.exp(b.emit(op.nn.softmax(total))), y)

    mod = program(build, [described((n, 4)), described((4,))])
    made = assert_each_pass_keeps_the_meaning(mod, random(3, 4), random(4))
    assert calls(made) == ["memory.alloc_storage", "memory.alloc_tensor", "call_tir"]
    assert sorted(made) == ["add_1", "fused_add_multiply_sum", "fused_softmax_exp_inplace", "main"]


def test_what_is_known_only_at_run_time_is_computed_too():
    def build(b: BlockBuilder, x: Any, y: Any) -> Any:
        return relax.Tuple((b.emit(op.exp(x)), b.emit(op.exp(y))))

    mod = program(build, [described(None, ndim=2), relax.TensorStructInfo()])
    made = assert_each_pass_keeps_the_meaning(mod, random(2, 3), random(2, 2, 2))
    assert calls(made) == ["call_tir", "call_pure_packed"]


@pytest.mark.parametrize(
    ("name", "other", "code"),
    [("where", np.ones((2, 2), "float32"), "RUN0212"), ("take", np.array([7]), "RUN0203")],
)
def test_what_is_computed_by_a_reference_fails_as_it_does_interpreted(
    name: str, other: Any, code: str
):
    x, y = described(None, ndim=-1), described(None, str(other.dtype), ndim=-1)

    def build(b: BlockBuilder, x: Any, y: Any) -> Any:
        first = b.emit(op.reshape(x, (3,)))
        if name == "take":
            return op.take(x, y, 0)
        return op.where(b.emit(op.greater(first, relax.Constant(np.float32(0)))), x, y)

    mod = program(build, [x, y])
    args = np.ones(3, "float32"), other
    for run in (
        lambda: loomir.interpret(mod, "main", *args),
        lambda: loomir.compile(mod)["main"](*args),
    ):
        with pytest.raises(loomir.RunError) as caught:
            run()
        assert caught.value.diagnostic.code == code


def test_constants_are_folded():
    def build(b: BlockBuilder, x: Any) -> Any:
        two = b.emit(op.add(relax.Constant(np.ones(3, "float32")), relax.Constant(np.float32(1))))
        return op.multiply(x, two)

    made = assert_each_pass_keeps_the_meaning(program(build, [described((3,))]), random(3))
    assert calls(made) == ["call_tir"]


def test_a_failing_constant_call_is_left_to_fail():
    def build(b: BlockBuilder, x: Any) -> Any:
        zero = relax.Constant(np.zeros(1, "int32"))
        return op.add(x, b.emit(op.floor_divide(relax.Constant(np.ones(1, "int32")), zero)))

    mod = program(build, [described((1,), "int32")])
    made = lower_relax(mod, verify=True)
    for stage in (mod, made):
        with pytest.raises(ZeroDivisionError):
            loomir.interpret(stage, "main", np.ones(1, "int32"))


def test_unused_values_and_functions_go():
    def build(b: BlockBuilder, x: Any) -> Any:
        b.emit(op.exp(x))
        return op.negative(x)

    mod = program(build, [described((3,))])
    func = mod["main"]
    assert isinstance(func, relax.Function)
    unused = copy_with_fresh_vars(relax.Function(func.params, func.body))
    mod = mod.with_function("unused", unused)
    made = assert_each_pass_keeps_the_meaning(mod, random(3))
    assert calls(made) == ["call_tir"]
    assert sorted(made) == ["main", "negative"]


def test_blocks_join_where_what_was_between_them_goes():
    builder = BlockBuilder()
    x, y = relax.Var("x", described((3,))), relax.Var("y", described((3,)))
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit_output(op.exp(x))
        builder.emit(relax.Function((y,), relax.SeqExpr((), y)))
        with builder.dataflow():
            second = builder.emit_output(op.sin(first))
        builder.emit_func_output(second)
    made = dead_code_elimination(builder.get())
    main = made["main"]
    assert isinstance(main, relax.Function)
    assert len(main.body.blocks) == 1  # type: ignore[attr-defined]
    assert_each_pass_keeps_the_meaning(builder.get(), random(3))


def test_a_result_that_leaves_is_not_shared():
    def build(b: BlockBuilder, x: Any) -> Any:
        return relax.Tuple((b.emit(op.exp(x)), b.emit(op.exp(x))))

    made = lower_relax(program(build, [described((3,))]))
    first, second = loomir.interpret(made, "main", random(3))
    first[0] = 7
    assert second[0] != 7


def test_nothing_to_do_gives_the_module_back():
    mod = lower_relax(program(lambda b, x: op.exp(x), [described((3,))]))
    for step in LOWER_RELAX.steps:
        if step.name != "relax.StaticPlanBlockMemory":
            assert loomir.ir.passes.apply(step, mod) is mod, step.name
    assert pass_of(LOWER_RELAX.steps[0].function) is LOWER_RELAX.steps[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_kernels_of_powers_know_constant_exponents(dtype: str):
    mod = from_source(f'''
from loomir.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "{dtype}")):
        y = R.power(x, R.const(3, "{dtype}"))
        z = R.power(y, R.const([2], "{dtype}"))
        return (y, z)
''')
    lowered = lower_relax(mod)
    kernels = [f for f in lowered.functions.values() if isinstance(f, PrimFunc)]
    assert sorted(len(k.params) for k in kernels) == [2, 3]


def test_what_is_planned_for_an_impure_function_compiles_again():
    mod = from_source("""
from loomir.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 3), "float32")):
        y = R.exp(x)
        R.print(R.sum(y), format="{}")
        return R.sum(y, axis=1)
""")
    planned = lower_relax(mod)
    assert loomir.verify(planned) == ()
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(loomir.compile(planned)["main"](x), np.exp(x).sum(1), rtol=1e-6)
