"""What may not be meant is told by warnings of Python: once, where the user calls."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import loomir
from loomir import relax
from loomir.cli import app
from loomir.ir import GlobalVar, IRModule
from loomir.script import from_source, parse_file
from loomir.script import ir as I
from loomir.script import relax as R
from tests.clause import clauses

UNSURE = """
@R.function
def main(s: R.Tensor(("n",), "float32")) -> R.Tensor((2,), "float32"):
    y: R.Tensor((2,), "float32") = R.add(s, s)
    return y
"""
SURE = UNSURE.replace('"n"', "2")


@clauses("RX-DER-11c")
def test_a_text_that_may_not_be_meant_is_read_with_a_warning() -> None:
    with pytest.warns(loomir.CompileWarning) as told:
        program = from_source(UNSURE, name="graph.py")
    assert len(told) == 1
    assert told[0].filename == __file__
    text = str(told[0].message)
    assert text.startswith("warning[RLX0202]: 'y' is annotated as R.Tensor((2,)")
    assert " --> graph.py:4:" in text
    # Not a second time for the same program.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loomir.compile(program)


def test_a_decorator_warns_at_the_function() -> None:
    with pytest.warns(loomir.CompileWarning, match="RLX0202") as told:

        @R.function
        def main(s: R.Tensor(("n",), "float32")) -> R.Tensor((2,), "float32"):
            y: R.Tensor((2,), "float32") = R.add(s, s)
            return y

    assert [w.filename for w in told] == [__file__]
    assert isinstance(main, relax.Function)


def test_a_class_warns_for_each_of_its_functions() -> None:
    with pytest.warns(loomir.CompileWarning, match="RLX0202") as told:

        @I.ir_module
        class Module:
            @R.function
            def first(s: R.Tensor(("n",), "float32")) -> R.Tensor((2,), "float32"):  # noqa: N805
                y: R.Tensor((2,), "float32") = R.add(s, s)
                return y

            @R.function
            def second(s: R.Tensor(("n",), "float32")) -> R.Tensor((3,), "float32"):  # noqa: N805
                y: R.Tensor((3,), "float32") = R.add(s, s)
                return y

    assert [w.filename for w in told] == [__file__, __file__]
    assert isinstance(Module, IRModule)


def test_what_was_not_read_from_a_text_is_told_when_it_is_compiled() -> None:
    x = relax.Var("x", relax.TensorStructInfo(dtype="float32", ndim=1))
    y = relax.Var("y", relax.TensorStructInfo((2,), "float32"))
    block = relax.BindingBlock((relax.VarBinding(y, x),))
    func = relax.Function((x,), relax.SeqExpr((block,), y), attrs={"global_symbol": "main"})
    with pytest.warns(loomir.CompileWarning, match="RLX0202"):
        loomir.compile(IRModule({GlobalVar("main"): func}))


def test_what_is_meant_is_read_and_compiled_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loomir.compile(from_source(SURE))


def test_a_file_that_is_not_run_is_read_with_a_warning() -> None:
    with pytest.warns(loomir.CompileWarning, match="RLX0202"):
        parse_file("from loomir.script import relax as R\n" + UNSURE)


def test_check_lists_what_reading_noted(tmp_path: Path) -> None:
    path = tmp_path / "graph.py"
    path.write_text("from loomir.script import relax as R\n" + UNSURE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = CliRunner().invoke(app, ["check", str(path)])
    assert shown.exit_code == 0
    assert shown.output.count("warning[RLX0202]") == 1
