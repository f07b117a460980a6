"""Pipelines are checked when built, say what each pass did, and catch a pass that breaks a fact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loomir.ir import passes
from loomir.ir.module import IRModule
from loomir.ir.passes import PassRun, Pipeline, function_fact, register, report, verify_facts
from loomir.ir.stage_files import dump_to
from loomir.ir.visit import rewrite
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError
from loomir.tir import BufferStore, PrimFunc
from loomir.transform import LOWER_CPU, LowerOptions, lower
from loomir.transform.tir.facts import LOWERED
from loomir.transform.tir.loops.unroll_loop import unroll_loop
from loomir.transform.tir.loops.vectorize_loop import vectorize_loop
from tests.transform.meaning import parse

TEXT = """
@T.prim_func
def main(A: T.Buffer((4, 4), "int32")):
    for i in T.unroll(2):
        A[i, 0] = i
"""


@pytest.fixture
def _fresh_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", dict(passes.PASSES))
    monkeypatch.setattr(passes, "_BY_FUNCTION", dict(passes._BY_FUNCTION))


def test_each_pass_reports_time_and_whether_it_changed_something():
    times: list[PassRun] = []
    lower(parse(TEXT), times=times)
    changed = {ran.name: ran.changed for ran in times}
    assert changed["tir.FlattenBuffer"]
    assert not changed["tir.LowerThreadBinding"]
    assert "tir.LowerThreadBinding  (unchanged)" in report(times)


def test_a_pass_over_functions_maps_the_functions_of_modules_too():
    module = parse(TEXT)
    made = vectorize_loop(module)
    assert isinstance(made, IRModule)
    assert made is module
    unrolled = unroll_loop(module)
    assert isinstance(unrolled, IRModule)
    main = module["main"]
    assert isinstance(main, PrimFunc)
    assert unrolled["main"].script() == unroll_loop(main).script()
    assert "T.unroll" not in unrolled.script()


def test_stages_are_dumped_in_order(tmp_path: Path):
    lower(parse(TEXT), on_stage=dump_to(tmp_path).write)
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(LOWER_CPU.steps)
    assert files[0].name == "00-tir.LowerCrossThreadReduction.py"
    assert files[3].read_text() == "# unchanged since 00-tir.LowerCrossThreadReduction.py\n"
    simplified = [f for f in files if f.name.endswith("tir.StmtSimplify.py")]
    assert "A_1[T.int64(4)] = 1" in simplified[-1].read_text()


def test_the_pipeline_ensures_what_code_generation_relies_on():
    made = lower(parse(TEXT), LowerOptions(), verify=True)
    verify_facts(made, LOWERED, "lowering")
    with pytest.raises(InternalError, match="flat_buffers does not hold after nothing"):
        verify_facts(parse(TEXT), {"flat_buffers"}, "nothing")


@pytest.mark.usefixtures("_fresh_tables")
def test_a_missing_fact_is_found_when_the_pipeline_is_built():
    @register("test.NeedsFlat", requires={"flat_buffers"})
    def needs_flat(func: PrimFunc) -> PrimFunc:
        return func

    with pytest.raises(CompileError, match=r"put tir\.FlattenBuffer before it"):
        Pipeline("p", (needs_flat,))
    with pytest.raises(CompileError, match="does not ensure flat_buffers"):
        Pipeline("p", (), ensures={"flat_buffers"})
    Pipeline("p", (needs_flat,), assumes={"flat_buffers"})


@pytest.mark.usefixtures("_fresh_tables")
def test_a_pass_that_breaks_a_promise_is_named():
    @register("test.Liar", establishes={"flat_buffers"})
    def liar(func: PrimFunc) -> PrimFunc:
        return func

    pipeline = Pipeline("p", (liar,))
    with pytest.raises(InternalError, match=r"flat_buffers does not hold after test\.Liar"):
        pipeline.run(parse(TEXT), verify=True)
    mod = parse(TEXT)
    assert pipeline.run(mod, verify=False) is mod


@pytest.mark.usefixtures("_fresh_tables")
def test_what_a_pass_leaves_as_it_is_is_not_checked_again(monkeypatch: pytest.MonkeyPatch):
    asked: list[IRModule] = []
    monkeypatch.setitem(passes.FACTS, "seen", lambda mod: asked.append(mod) or ())

    @register("test.Idle")
    def idle(func: PrimFunc) -> PrimFunc:
        return func

    @register("test.Copies")
    def copies(mod: IRModule) -> IRModule:
        return IRModule(mod.functions)

    mod = parse(TEXT)
    made = Pipeline("p", (idle, copies, idle), assumes={"seen"}).run(mod, verify=True)
    assert asked == [mod, made]


TWO = """
@I.ir_module
class Module:
    @T.prim_func
    def callee(A: T.Buffer((4, 4), "int32")):
        A[0, 0] = 1

    @T.prim_func
    def caller(A: T.Buffer((4, 4), "int32")):
        cls = Module
        cls.callee(A.data)
"""


@pytest.mark.usefixtures("_fresh_tables")
@pytest.mark.parametrize(
    ("function", "text", "asked"),
    [
        ("callee", "def callee(A: T.Buffer((4, 4), 'int32')):\n    A[0, 0] = 2", ["callee"]),
        ("callee", "def callee(B: T.Buffer((4, 4), 'int32')):\n    B[0, 0] = 1", None),
        ("other", "def other(B: T.Buffer((4, 4), 'int32')):\n    B[0, 0] = 1", ["other"]),
    ],
)
def test_functions_that_a_pass_leaves_are_not_checked_again(
    monkeypatch: pytest.MonkeyPatch, function: str, text: str, asked: list[str] | None
):
    seen: list[str] = []
    monkeypatch.setattr(passes, "FACTS", dict(passes.FACTS))
    monkeypatch.setattr(passes, "_OF_FUNCTIONS", dict(passes._OF_FUNCTIONS))
    function_fact("seen", PrimFunc)(lambda subject: seen.append(subject.func.name) or ())
    mod = parse(TWO)
    old = next((f for v, f in mod.functions.items() if v.name_hint == function), None)
    new = parse(f"@T.prim_func\n{text}\n")[function]
    if asked is not None and isinstance(old, PrimFunc) and isinstance(new, PrimFunc):
        # The same interface: a call sees nothing of the change.
        new = PrimFunc(old.params, new.body, old.ret_type, old.buffer_map, old.attrs)

    @register("test.Replaces", establishes={"seen"})
    def replaces(mod: IRModule) -> IRModule:
        return mod.with_function(function, new)

    made = Pipeline("p", (replaces,), assumes={"seen"}).run(mod, verify=True)
    all_of_them = [func.name for func in made.functions.values()]
    assert seen == ["callee", "caller", *(all_of_them if asked is None else asked)]


def test_a_call_is_checked_again_where_its_callee_changes():
    mod = parse(TWO)
    verify_facts(mod, {"well_formed"}, "nothing")
    (callee,) = parse(
        "@T.prim_func\ndef callee(n: T.int32):\n    T.evaluate(n)\n"
    ).functions.values()
    made = mod.with_function("callee", callee)
    with pytest.raises(InternalError, match="well_formed does not hold after renaming"):
        verify_facts(made, {"well_formed"}, "renaming", since=(mod, {"well_formed"}))


def test_facts_share_one_walk(monkeypatch: pytest.MonkeyPatch):
    walks: list[object] = []
    by_class = passes.by_class
    monkeypatch.setattr(passes, "by_class", lambda root: walks.append(root) or by_class(root))
    made = lower(parse(TWO), verify=False)
    verify_facts(made, LOWERED, "lowering")
    assert walks == [func.body for func in made.functions.values() if isinstance(func, PrimFunc)]


def test_the_environment_asks_a_process_to_verify():
    asked = "from loomir.ir import passes; print(passes.is_verifying())"
    env = {**os.environ, "LOOMIR_VERIFY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_an_access_out_of_range_is_found_after_the_pass_that_makes_it():
    def move(store: BufferStore) -> BufferStore:
        row, column = store.indices
        return BufferStore(store.buffer, store.value, (row + 3, column))

    mod = parse(TEXT)
    verify_facts(mod, {"within_extents"}, "nothing")
    (var,) = mod.functions
    moved = mod.with_functions({var: rewrite(mod.functions[var], {BufferStore: move})})
    with pytest.raises(InternalError, match="within_extents does not hold after moving"):
        verify_facts(moved, {"well_formed", "within_extents"}, "moving")


@pytest.mark.usefixtures("_fresh_tables")
def test_mistakes_of_all_functions_are_reported_together():
    @register("test.Refuses")
    def refuses(func: PrimFunc) -> PrimFunc:
        raise CompileError(Diagnostic("TEST", func.name))

    mod = parse(TEXT)
    two = IRModule({**mod.functions, **parse(TEXT.replace("main", "other")).functions})
    with pytest.raises(CompileError) as caught:
        Pipeline("p", (refuses,)).run(two)
    assert [d.message for d in caught.value.diagnostics] == ["main", "other"]


@pytest.mark.usefixtures("_fresh_tables")
def test_a_name_is_registered_once():
    with pytest.raises(InternalError, match="registered twice"):

        @register("tir.UnrollLoop")
        def again(func: PrimFunc) -> PrimFunc:
            return func
