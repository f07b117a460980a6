"""Models of ONNX, and programs that torch.export saved, on the command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from loomir.cli import app
from loomir.cli.work.other_backends import differences
from loomir.frontend.onnx.model import SequenceType, TensorType
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


PEER = """
import numpy as np

class Prepared:
    def run(self, inputs):
        (x,) = inputs
        return [{result}]

def prepare(model, device):
    assert model.graph.output[0].name == "y" and device == "CPU"
    return Prepared()
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package ``peer``, whose backend the test writes."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("loomir.cli.work.other_backends._SECONDS", 0.0)
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer" / "__init__.py").touch()
    yield tmp_path / "peer"
    for name in ("peer", "peer.backend"):
        sys.modules.pop(name, None)


def compare(file: Path, *arguments: str) -> Result:
    given = ["run", str(file), "--dim", "N=2", "--compare", "peer", *arguments]
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "100"}).invoke(app, given)


def test_another_backend_agrees(file: Path, peer: Path):
    (peer / "backend.py").write_text(PEER.format(result="x.sum(axis=1)"))
    done = compare(file)
    assert done.exit_code == 0, done.output
    assert "output y agrees with peer: " in done.output
    assert re.search(r"ms a call, peer .* ms: .* times its speed", done.output)
    facts = json.loads(compare(file, "--json").output)
    assert facts["ok"] is True
    assert facts["peer"]["y"]["agrees"] is True
    assert facts["peer"]["seconds"] > 0


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ("x.sum(axis=1) + 3", "DIFFERS from peer: differs by at most 3, "),
        ("x.sum(axis=1) * np.nan", "DIFFERS from peer: NaNs or infinities differ"),
        ("x", "DIFFERS from peer: has shape (2,), and (2, 4) there"),
        ("x.sum(axis=1).astype('float64')", "DIFFERS from peer: is float32, and float64 there"),
    ],
)
def test_another_backend_differs(file: Path, peer: Path, result: str, found: str):
    (peer / "backend.py").write_text(PEER.format(result=result))
    done = compare(file, "--interpret")
    assert done.exit_code == 1
    assert f"output y {found}" in done.output


def test_a_tolerance_sets_how_far_outputs_may_differ(file: Path, peer: Path):
    (peer / "backend.py").write_text(PEER.format(result="x.sum(axis=1) * np.float32(1.01)"))
    assert compare(file, "--interpret").exit_code == 1
    assert compare(file, "--interpret", "--tolerance", "0.02").exit_code == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "neither peer nor peer.backend has a function prepare(model)"),
        ("import lost_library", "importing it fails: No module named 'lost_library'"),
        (PEER.format(result="x, x"), "peer cannot run the model: it returns 2 outputs of 1"),
        (PEER.format(result="x[9]"), "peer cannot run the model: index 9 is out of bounds"),
    ],
)
def test_a_backend_that_does_not_work_is_named(file: Path, peer: Path, text: str, found: str):
    (peer / "backend.py").write_text(text)
    done = compare(file, "--interpret")
    assert done.exit_code == 1
    assert "CLI0015" in done.output
    assert found in done.output


def test_backends_that_are_not_there_are_named(file: Path):
    done = CliRunner().invoke(app, ["run", str(file), "--compare", "lost_library.of"])
    assert done.exit_code == 1
    assert "pip install lost_library" in done.output


def test_only_models_have_other_backends():
    done = CliRunner().invoke(app, ["run", "examples/vector_add.py", "--compare", "peer"])
    assert done.exit_code == 1
    assert "CLI0015" in done.output


def test_sequences_are_compared_tensor_by_tensor():
    kind = SequenceType(TensorType("float32", (2,)))
    a, b = np.zeros(2, "float32"), np.ones(2, "float32")
    found = list(differences((a, b), [a, b + 1], kind, "y", None))
    assert [(name, d.agrees) for name, d in found] == [("y[0]", True), ("y[1]", False)]
    ((name, count),) = differences((a, b), [a], kind, "y", None)
    assert (name, count.agrees) == ("y", False)


def test_explain_and_build_take_models(file: Path):
    assert "rows: sum" in run("explain", file, "--no-measure")
    run("build", file, "-o", file.parent / "sum.so")
    assert (file.parent / "sum.so").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.export.Dim("rows", min=3, max=64)
    module = torch.nn.Softmax(dim=1)
    given = (torch.ones(5, 4),)
    made = torch.export.export(module, given, dynamic_shapes=({0: rows},))
    path = tmp_path_factory.mktemp("saved") / "softmax.pt2"
    torch.export.save(made, path)
    return path


def test_saved_programs_run_checked_and_built(saved: Path):
    output = run("run", saved)
    assert "input input: float32 (3, 4)" in output
    assert "\noutput: float32 (3, 4), from " in output
    assert "1 program, no mistakes" in run("check", saved)
    assert "softmax" in run("explain", saved, "--no-measure")
    run("build", saved, "-o", saved.with_suffix(".so"))
    assert saved.with_suffix(".so").exists()


def test_open_extents_of_saved_programs_have_names(saved: Path):
    (name,) = re.findall(r"R.Tensor\(\((\w+), 4\)", run("run", saved, "--show", "script"))[:1]
    assert "input input: float32 (9, 4)" in run("run", saved, "--dim", f"{name}=9", "--interpret")
    done = CliRunner().invoke(app, ["run", str(saved), "--dim", "lines=9"])
    assert done.exit_code == 1
    assert "no extent of that name" in done.output


class ReturnsSizes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, None, bool, torch.Tensor]:
        return x * 2, x.shape[0], None, True, x.sum()


def test_sizes_constants_and_numbers_are_printed_as_they_are(tmp_path: Path):
    program = torch.export.export(ReturnsSizes(), (torch.ones(4, 2),))
    torch.export.save(program, tmp_path / "sizes.pt2")
    output = run("run", tmp_path / "sizes.pt2")
    assert "output[0]: float32 (4, 2), from " in output
    assert "output[1]: 4\noutput[2]: None\noutput[3]: True\n" in output
    assert re.search(r"output\[4\]: float32 \(\), -?[\d.e-]+\n", output)


def test_saved_programs_have_no_other_backends(saved: Path):
    done = CliRunner().invoke(app, ["run", str(saved), "--compare", "peer"])
    assert done.exit_code == 1
    assert "CLI0015" in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such terminal")
def test_a_terminal_shows_what_is_done_and_nothing_else_does(file: Path):
    import pty

    command = [sys.executable, "-m", "loomir", "run", str(file)]
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LOOMIR_CACHE_DIR": ""}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=settings) as child:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal that nobody writes to any more
            while piece := os.read(ours, 4096):
                shown += piece
        assert child.stdout is not None
        said = child.stdout.read()
    os.close(ours)
    assert child.returncode == 0
    assert b"sum.onnx: " in shown
    assert b"output y" in said
    assert b"sum.onnx: " not in said
