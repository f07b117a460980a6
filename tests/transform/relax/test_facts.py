"""Facts of graphs are checked after every pass, and a pass that breaks one is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir.codegen.llvm.relax.operators import OPERATORS
from loomir.ir import passes
from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import Pass, Pipeline, register, verify_facts
from loomir.ir.visit import rewrite
from loomir.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    PrimValue,
    SeqExpr,
    Tuple,
    VarBinding,
)
from loomir.relax.operator.definition import find_op, op_names
from loomir.relax.shape import INT64, ShapeExpr
from loomir.script import from_source
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import IntImm
from loomir.transform.pipelines import LOWER_RELAX, lower_relax
from loomir.transform.relax import normalize, to_non_dataflow
from loomir.transform.relax.facts import GENERATED, LOWERED_GRAPH
from loomir.transform.relax.graph_reading import make_call

TEXT = """
from loomir.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.matmul(w, b)
            d = R.exp(c)
            e = R.matmul(d, w)
            f = R.nn.relu(e)
            R.output(f)
        return f
"""
NAMES = [step.name.removeprefix("relax.") for step in LOWER_RELAX.steps]


@pytest.fixture(autouse=True)
def _fresh_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", dict(passes.PASSES))
    monkeypatch.setattr(passes, "_BY_FUNCTION", dict(passes._BY_FUNCTION))


def program() -> IRModule:
    made = from_source(TEXT)
    assert isinstance(made, IRModule)
    return made


def steps_until(name: str) -> list[Callable[..., Any]]:
    """List the passes of the pipeline up to the last of a name."""
    last = len(NAMES) - NAMES[::-1].index(name)
    taken: tuple[Pass, ...] = LOWER_RELAX.steps[:last]
    return [step.function for step in taken]


def calls_of(name: str, change: Callable[[Call], Call]) -> Callable[[IRModule], IRModule]:
    """Make a pass that changes the calls of an operator."""

    def rule(call: Call) -> Call:
        is_one = isinstance(call.op, Op) and call.op.name == f"relax.{name}"
        return change(call) if is_one else call

    return graphs({Call: rule})


def graphs(rules: dict[type, Callable[[Any], Any]]) -> Callable[[IRModule], IRModule]:
    def change(mod: IRModule) -> IRModule:
        functions = {
            var: rewrite(func, rules) if isinstance(func, Function) else func
            for var, func in mod.functions.items()
        }
        return mod.with_functions(functions)

    return change


def with_args(call: Call, *args: Any) -> Call:
    return Call(call.op, args, call.sinfo_args, call.attrs, span=call.span)


def lose_a_kernel(mod: IRModule) -> IRModule:
    kept = {var: f for var, f in mod.functions.items() if var.name_hint != "softmax"}
    assert len(kept) < len(mod.functions)
    return mod.with_functions(kept)


def add_a_kernel(mod: IRModule) -> IRModule:
    kernel = next(func for func in mod.functions.values() if not isinstance(func, Function))
    return mod.with_function("forgotten", kernel)


def back_to(name: str) -> Callable[[IRModule], IRModule]:
    """Make a pass that undoes all that came after one."""
    return lambda mod: Pipeline("p", steps_until(name), assumes=LOWER_RELAX.assumes).run(program())


def lose_a_binding(block: BindingBlock) -> BindingBlock:
    return type(block)(block.bindings[1:], span=block.span)


def use_an_operator(binding: VarBinding) -> VarBinding:
    value = binding.value
    is_exp = isinstance(value, Call) and getattr(value.args[0], "name_hint", "") == "exp"
    if not is_exp or not isinstance(value, Call) or not isinstance(value.args[1], Tuple):
        return binding
    return VarBinding(binding.var, make_call("exp", value.args[1].fields[0]), span=binding.span)


def give_one_more(call: Call) -> Call:
    kernel, given, *others = call.args
    assert isinstance(given, Tuple)
    return with_args(call, kernel, Tuple((*given.fields, given.fields[0])), *others)


def moved_to(offset: int) -> Callable[[Call], Call]:
    def move(call: Call) -> Call:
        storage, _, *others = call.args
        return with_args(call, storage, PrimValue(IntImm(offset, INT64)), *others)

    return move


def smaller(call: Call) -> Call:
    return with_args(call, ShapeExpr((IntImm(64, INT64),)), *call.args[1:])


def nest(seq: SeqExpr) -> SeqExpr:
    return SeqExpr(seq.blocks, make_call("exp", seq.body), span=seq.span)


BROKEN = [
    ("relax_normal_form", "Normalize", graphs({SeqExpr: nest}), "the result of a sequence"),
    ("relax_well_formed", "Normalize", graphs({DataflowBlock: lose_a_binding}), "'a'"),
    ("relax_well_formed", "LegalizeOps", lose_a_kernel, "no function named 'softmax'"),
    ("relax_derived", "LegalizeOps", calls_of("call_tir", give_one_more), "parameters, but"),
    ("operators_lowered", "LegalizeOps", graphs({VarBinding: use_an_operator}), "relax.exp"),
    ("no_kernel_groups", "FuseTIR", back_to("FuseOps"), "is a group of kernels"),
    ("functions_used", "DeadCodeElimination", add_a_kernel, "nothing uses the function"),
    (
        "arenas_planned",
        "StaticPlanBlockMemory",
        calls_of("memory.alloc_tensor", moved_to(0)),
        "over",
    ),
    ("arenas_planned", "StaticPlanBlockMemory", calls_of("memory.alloc_tensor", moved_to(4)), "64"),
    (
        "arenas_planned",
        "StaticPlanBlockMemory",
        calls_of("memory.alloc_storage", smaller),
        "end of",
    ),
]


@pytest.mark.parametrize(("fact", "after", "change", "words"), BROKEN)
def test_a_pass_that_breaks_a_fact_is_named(
    fact: str, after: str, change: Callable[[IRModule], IRModule], words: str
):
    @register("test.Breaks")
    def breaks(mod: IRModule) -> IRModule:
        return change(mod)

    steps = steps_until(after)
    pipeline = Pipeline("p", [*steps, breaks], assumes=LOWER_RELAX.assumes)
    assert fact in pipeline.facts[-1]
    with pytest.raises(
        InternalError, match=rf"(?s)^{fact} does not hold after test\.Breaks.*{words}"
    ):
        pipeline.run(program(), verify=True)


def test_a_pass_that_makes_dataflow_blocks_again_is_named():
    mod = program()

    @register("test.Breaks")
    def breaks(_: IRModule) -> IRModule:
        return mod

    with pytest.raises(InternalError, match=r"^no_dataflow does not hold after test\.Breaks"):
        Pipeline("p", [normalize, to_non_dataflow, breaks]).run(mod, verify=True)


def test_the_pipeline_ensures_what_code_generation_relies_on():
    made = lower_relax(program(), verify=True)
    verify_facts(made, LOWERED_GRAPH, "lowering")
    assert "main" in made
    with pytest.raises(InternalError, match="operators_lowered does not hold after nothing"):
        verify_facts(program(), {"operators_lowered"}, "nothing")


def test_code_generation_has_code_for_operators_that_are_left():
    for name in op_names():
        known = find_op(name)
        assert known is not None
        is_lowered = known.lower or known.legalize or known.reference
        assert (name in OPERATORS) == (name in GENERATED or not is_lowered), name
