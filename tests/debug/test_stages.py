"""Two stages compared: as text, by the values they compute, and pass by pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loomir
from loomir.autoschedule import driver
from loomir.debug.texts import compare_texts
from loomir.ir import passes
from loomir.ir.module import IRModule
from loomir.ir.passes import Pipeline, register
from loomir.ir.visit import rebuild, rewrite
from loomir.script import from_source
from loomir.tir.expr import const
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore
from loomir.transform.relax.bindings.normalize import normalize
from loomir.transform.relax.kernels.legalize_ops import legalize_ops
from loomir.transform.relax.memory.static_plan_block_memory import static_plan_block_memory
from tests.cli.test_commands import EXAMPLES, invoke

HEADER = "from loomir.script import ir as I, relax as R, tir as T\n"
TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            c = R.multiply(b, a)
            R.output(c)
        return c

    @R.function
    def other(x: R.Tensor((2,), "float32")):
        return x
"""
X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


def lowered(mod: IRModule) -> IRModule:
    """Make a kernel of each operator, and plan memory."""
    return Pipeline("p", (normalize, legalize_ops, static_plan_block_memory)).run(mod)


def module(text: str = TEXT) -> IRModule:
    made = from_source(HEADER + text)
    assert isinstance(made, IRModule)
    return made


def test_programs_equal_up_to_names_are_told_so():
    found = compare_texts(module(), module(TEXT.replace("b", "bb")))
    assert found.difference is None
    assert found.say_result() == "equal up to names"
    assert compare_texts(module(), module()).say_result() == "equal"


def test_the_first_place_that_differs_is_named():
    found = compare_texts(module(), module(TEXT.replace("R.exp", "R.sin")), ("A", "B"))
    assert found.say_result().startswith("differ first at root.functions[main].body")
    assert "relax.exp" in found.say_result()
    assert "relax.sin" in found.say_result()
    assert found.diff[:2] == ("--- A", "+++ B")
    assert [line[0] for line in found.diff[3:]].count("-") == 1


def test_functions_that_only_one_has_are_named():
    found = compare_texts(module(), lowered(module()))
    assert found.say_result() == "differ: only one has add, exp, multiply"


def test_the_first_value_that_differs_is_named():
    other = module(TEXT.replace("R.add(a, x)", "R.subtract(a, x)"))
    found = loomir.compare_stages(module(), other, [X])
    assert found is not None
    assert found.name == "b"
    assert found.index == (1, 2)
    assert found.left - found.right == pytest.approx(2)
    assert found.error == pytest.approx(2)
    assert found.count == 6
    assert found.span is not None
    assert found.span.line == 9
    assert str(found).startswith("b[1, 2] is ")


def test_stages_that_agree_agree():
    assert loomir.compare_stages(module(), lowered(module()), [X]) is None


def test_values_are_compared_within_planned_memory():
    other = lowered(module(TEXT.replace("R.add(a, x)", "R.subtract(a, x)")))
    found = loomir.compare_stages(module(), other, [X])
    assert found is not None
    assert found.name == "b"


def test_ulps_are_counted():
    text = "@R.function\ndef main(x: R.Tensor((1,), 'float32')):\n    y = R.{}\n    return y\n"
    parsed = [
        from_source(HEADER + text.format(op))
        for op in ("abs(x)", "multiply(x, R.const(1.0000002384185791, 'float32'))")
    ]
    found = loomir.compare_stages(parsed[0], parsed[1], [np.ones(1, "float32")], tolerance=0.0)
    assert found is not None
    assert found.ulps == 2
    assert loomir.compare_stages(parsed[0], parsed[1], [np.ones(1, "float32")]) is None


@pytest.fixture
def _fresh_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", dict(passes.PASSES))
    monkeypatch.setattr(passes, "_BY_FUNCTION", dict(passes._BY_FUNCTION))


@pytest.mark.usefixtures("_fresh_tables")
def test_a_wrong_pass_over_kernels_is_named_and_its_function():
    @register("test.Wrong")
    def wrong(func: PrimFunc) -> PrimFunc:
        if " + " not in func.script():
            return func
        made = from_source(HEADER + func.script().replace(" + ", " - "))
        assert isinstance(made, PrimFunc)
        return made

    @register("test.Fine")
    def fine(mod: IRModule) -> IRModule:
        return mod.with_functions(dict(mod.functions))

    kernels = lowered(module())
    found = loomir.bisect(kernels, [X], pipeline=Pipeline("p", (fine, wrong, fine)))
    assert found is not None
    assert (found.stage, found.functions) == ("test.Wrong", ("add",))
    assert found.difference is not None
    assert found.difference.name == "b"
    assert str(found).startswith("test.Wrong of add: b[")
    assert loomir.bisect(kernels, [X], pipeline=Pipeline("p", (fine, fine))) is None


@pytest.mark.usefixtures("_fresh_tables")
def test_a_wrong_pass_in_the_pipeline_is_named(monkeypatch: pytest.MonkeyPatch):
    from loomir.transform import pipelines

    @register("test.Wrong")
    def wrong(mod: IRModule) -> IRModule:
        made = from_source(mod.script().replace("R.add", "R.subtract"))
        assert isinstance(made, IRModule)
        return made

    steps = [step.function for step in pipelines.LOWER_RELAX.steps]
    monkeypatch.setattr(pipelines, "LOWER_RELAX", Pipeline("p", (steps[0], wrong, *steps[1:])))
    found = loomir.bisect(module(), [X])
    assert found is not None
    assert (found.stage, found.functions) == ("test.Wrong", ("main",))


@pytest.mark.usefixtures("_fresh_tables")
def test_a_pass_after_which_running_fails_is_named():
    @register("test.Fails")
    def fails(mod: IRModule) -> IRModule:
        made = from_source(
            mod.script().replace("    c: ", "    w = R.assert_op(R.const(False))\n        c: ")
        )
        assert isinstance(made, IRModule)
        return made

    text = "@R.function(pure=False)\ndef main(x: R.Tensor((2, 3), 'float32')):\n    c = R.exp(x)\n    return c\n"
    pure = from_source(HEADER + text)
    found = loomir.bisect(pure, [X], pipeline=Pipeline("p", (fails,)))
    assert found is not None
    assert found.stage == "test.Fails"
    assert found.error is not None


def test_a_wrong_step_of_the_default_schedule_is_named(monkeypatch: pytest.MonkeyPatch):
    fold_constants = driver.fold_constants
    monkeypatch.setattr(
        driver,
        "fold_constants",
        lambda stmt: rewrite(
            fold_constants(stmt),
            {BufferStore: lambda s: rebuild(s, {"value": s.value + const(1, s.value.dtype)})},
        ),
    )
    found = loomir.bisect(module(), [X])
    assert found is not None
    assert found.stage == "tir.Schedule, tidying,"
    assert found.functions
    assert str(found).startswith(f"tir.Schedule, tidying, of {found.functions[0]}")


def test_right_programs_have_no_culprit():
    assert loomir.bisect(module(), [X]) is None


def test_bisect_on_the_command_line():
    path = EXAMPLES / "relax" / "mlp.py"
    assert invoke("bisect", str(path), "--size", "batch=2") == (
        0,
        "MLP: every stage computes the same\n",
    )
    status, output = invoke("bisect", str(EXAMPLES / "vector_add.py"), "--size", "n=3", "--json")
    assert status == 0
    assert '"ok"' not in output
    assert "null" in output


def test_diff_on_the_command_line(tmp_path: Path):
    loomir.compile(module(), dump=tmp_path)
    first, same, last = (
        str(next(tmp_path.glob(f"*-{stage}*.py")))
        for stage in ("input", "relax.FoldConstant", "relax.StaticPlan")
    )
    status, output = invoke("diff", first, same)
    assert status == 0
    assert output.startswith("equal")
    status, output = invoke("diff", first, last)
    assert status == 1
    assert output.startswith("differ: only one has ")
    assert "+    @T.prim_func(private=True)" in output
    assert invoke("diff", "--run", first, last, "--size", "n=2") == (0, "all values agree\n")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(Path(first).read_text().replace("R.add", "R.subtract"))
    status, output = invoke("diff", "--run", first, str(wrong), "--size", "n=2")
    assert status == 1
    assert output.startswith("b[")
    named = f"{EXAMPLES / 'relax' / 'mlp.py'}:MLP"
    assert invoke("diff", named, named) == (0, "equal\n")


def test_a_file_of_several_programs_needs_a_name(tmp_path: Path):
    path = tmp_path / "two.py"
    path.write_text(HEADER + TEXT + TEXT.replace("class M", "class N"))
    status, output = invoke("diff", str(path), str(path))
    assert status == 1
    assert "CLI0010" in output
    assert "two.py:M" in output
