"""Models of ONNX on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loomir.cli import app
from tests.frontend.onnx.models import model, onnx


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = model(
        "main (float[N, 4] x) => (float[N] y) { a = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, a) }"
    )
    onnx.save(made, tmp_path / "sum.onnx")
    return tmp_path / "sum.onnx"


def run(*arguments: object) -> str:
    done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "100"}).invoke(
        app, [str(a) for a in arguments]
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_run_describes_what_comes_out(file: Path):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.save(file.parent / "x.npy", x)
    output = run("run", file, "--input", f"x={file.parent / 'x.npy'}")
    assert "output y: float32 (2,), from 6 to 22, mean 14" in output


def test_run_draws_inputs_and_times_calls(file: Path):
    output = run("run", file, "--dim", "N=3", "--time")
    assert "input x: float32 (3, 4)" in output
    assert "drawn at random" in output
    assert "ms a call" in output


def test_run_shows_where_the_time_of_a_call_goes(file: Path):
    assert "(outside of kernels)" in run("run", file, "--profile")
    (kernel,) = json.loads(run("run", file, "--profile", "--json"))["profile"]
    assert (kernel["kernel"], kernel["calls"]) == ("sum", 1)


def test_sizes_are_extents_too(file: Path):
    assert "input x: float32 (5, 4)" in run("run", file, "--size", "N=5")


@pytest.mark.parametrize("option", ["--interpret", "--check-bounds", "--checked", "--nan"])
def test_models_run_in_every_way(file: Path, option: str):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.save(file.parent / "x.npy", x)
    output = run("run", file, "--input", f"x={file.parent / 'x.npy'}", option)
    assert "output y: float32 (2,), from 6 to 22, mean 14" in output


def test_the_interpreter_compiles_nothing(file: Path):
    assert "compile_seconds" not in json.loads(run("run", file, "--interpret", "--json"))


def test_the_first_infinity_of_a_model_is_found(file: Path):
    np.save(file.parent / "x.npy", np.full((2, 4), 3e38, "float32"))
    given = ["run", str(file), "--input", f"x={file.parent / 'x.npy'}", "--nan"]
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, given)
    assert done.exit_code == 1
    assert "RUN0" in done.output


def test_programs_of_models_are_shown_and_dumped(file: Path):
    assert "@R.function" in run("run", file, "--show", "script")
    assert "define" in run("run", file, "--show", "llvm")
    stages = file.parent / "stages"
    run("run", file, "--dump", stages)
    assert any(stages.iterdir())


def test_run_gives_facts_as_json(file: Path):
    facts = json.loads(run("run", file, "--json"))
    assert facts["y"].startswith("float32 (1,)")


def test_check_lists_all_that_cannot_be_imported(tmp_path: Path, file: Path):
    assert "1 program, no mistakes" in run("check", file)
    onnx.save(
        model("main (float[N] x) => (float[N] y, float[N] z) { y = own.A(x) z = own.B(x) }"),
        tmp_path / "own.onnx",
    )
    done = CliRunner().invoke(app, ["check", str(tmp_path / "own.onnx")])
    assert done.exit_code == 1
    assert "own.A" in done.output
    assert "own.B" in done.output


@pytest.mark.parametrize("given", ["y=x.npy", "x", "x=missing.npy", "x=/dev/null"])
def test_input_that_is_not_there_is_refused(file: Path, given: str):
    done = CliRunner().invoke(app, ["run", str(file), "--input", given])
    assert done.exit_code == 1
    assert "CLI0013" in done.output


def test_explain_and_build_take_models(file: Path):
    assert "rows: sum" in run("explain", file, "--no-measure")
    run("build", file, "-o", file.parent / "sum.so")
    assert (file.parent / "sum.so").exists()
