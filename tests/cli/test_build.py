"""``loomir build``: programs in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import loomir
from tests.cli.test_commands import EXAMPLES, invoke

PROGRAMS = """\
from loomir.script import tir as T

N = 8

@T.prim_func
def fill(A: T.Buffer((N,), "float32")):
    for i in range(N):
        A[i] = T.float32(2)

@T.prim_func
def ask(A: T.Buffer((N,), "float32")):
    A[0] = T.call_packed("my.answer", dtype="float32")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    return tmp_path / "programs.py"


def test_an_executable_is_built_and_loaded(file: Path):
    out = file.with_name("fill.loom")
    status, output = invoke("build", f"{file}:fill", "--size", "N=3", "-o", str(out))
    assert status == 0, output
    assert f"{out.stat().st_size:,} bytes" in output
    status, output = invoke("run", str(out))
    assert status == 1
    assert "it is a saved executable" in output
    assert "loomir.load(" in output
    x = np.zeros(3, "float32")
    loomir.load(out)(x)
    assert x.tolist() == [2, 2, 2]


def test_a_library_is_built_with_its_header(file: Path):
    out = file.with_name("fill.o")
    status, output = invoke(
        "build", f"{file}:fill", "--target", "x86-64-v2", "--json", "-o", str(out)
    )
    assert status == 0, output
    said = json.loads(output)
    assert said["ok"] is True
    assert said["functions"] == ["fill"]
    assert said["files"] == {str(p): p.stat().st_size for p in (out, out.with_suffix(".h"))}
    assert "int32_t loomir_fill(const DLTensor *A);" in out.with_suffix(".h").read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["{file}:fill", "-o", "{dir}/x.exe"], "CLI0009"),
        (["{file}", "-o", "{dir}/x.loom"], "CLI0010"),
        (["{file}:fil", "-o", "{dir}/x.loom"], "CLI0002"),
        (["{file}:ask", "-o", "{dir}/x.o"], "RUN0471"),
        (["{file}:fill", "-o", "{dir}/no/x.loom"], "RUN0467"),
        (["{file}:fill", "--target", "z80", "-o", "{dir}/x.loom"], "TGT0001"),
        (["{dir}/absent.py", "-o", "{dir}/x.loom"], "CLI0001"),
    ],
)
def test_what_cannot_be_built_is_told(file: Path, words: list[str], code: str):
    before = set(file.parent.iterdir())
    status, output = invoke("build", *[w.format(file=file, dir=file.parent) for w in words])
    assert status == 1
    assert code in output
    assert set(file.parent.iterdir()) == before


def test_a_graph_is_built(tmp_path: Path):
    out = tmp_path / "mlp.loom"
    status, output = invoke("build", f"{EXAMPLES / 'relax' / 'mlp.py'}", "-o", str(out))
    assert status == 0, output
    assert loomir.load(out).functions
