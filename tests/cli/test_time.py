"""Measuring with ``loomir run --time``: any sizes, graphs too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from loomir.cli.work import timing
from tests.cli.test_commands import EXAMPLES, invoke

KERNEL = """\
import numpy as np
from loomir.script import tir as T

SIZES = {"n": 8}

@T.prim_func
def double(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] + A[i]

def reference(a, b):
    if len(a) != 8:
        raise ValueError("the table holds 8")
    return a * 2

def flops(n):
    return 1_000_000 * n
"""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "_SECONDS", 0.0)


def test_sizes_that_the_reference_refuses_are_timed_and_the_others_judged(tmp_path: Path):
    path = tmp_path / "double.py"
    path.write_text(KERNEL)
    status, output = invoke("run", str(path), "--time", "--size", "n=1000")
    assert status == 0, output
    first, *judged, compiled, timed = output.splitlines()
    stage = r"[a-zA-Z ]+ [\d.]+ [mu]?s"  # which ones take long depends on the machine
    assert re.fullmatch(rf"double: compiled in [\d.]+ m?s \({stage}(, {stage})*\)", compiled)
    assert first == "double: the reference refuses these sizes; judged with the file's own"
    assert judged == ["double: agrees with NumPy", "double: agrees with the interpreter"]
    assert "GFLOP/s" in timed
    status, output = invoke("run", str(path), "--size", "n=1000")
    assert (status, "the table holds 8" in output) == (1, True)
    path.write_text(KERNEL.replace("a * 2", "a * 3"))
    assert invoke("run", str(path), "--time", "--size", "n=1000")[0] == 1


def test_flops_may_ask_for_sizes(tmp_path: Path):
    path = tmp_path / "double.py"
    path.write_text(KERNEL)
    facts = json.loads(invoke("run", str(path), "--time", "--json")[1])
    assert facts["double"]["seconds"] > 0
    stages = facts["double"]["stage_seconds"]
    assert {"schedule", "assemble and load"} < stages.keys()
    assert sum(stages.values()) <= facts["double"]["compile_seconds"]
    assert timing._flops(__import__("types").SimpleNamespace(flops=lambda n: n), {"n": 7}) == 7
    assert timing._flops(__import__("types").SimpleNamespace(flops=lambda: 5), {"n": 7}) == 5


def test_too_much_for_the_interpreter_is_no_mistake_where_numpy_judges(tmp_path: Path):
    path = tmp_path / "large.py"
    path.write_text(
        KERNEL.replace("(n,)", "(N,)")
        .replace("    n = T.int64()\n", "")
        .replace("(n)", "(N)")
        .replace("SIZES =", "N = 8\nSIZES =")
        .replace("!= 8", "!= N")
    )
    status, output = invoke("run", str(path), "--size", "N=6000000")
    assert status == 0, output
    assert "double: too much work for the interpreter" in output


def test_graphs_are_timed():
    path = EXAMPLES / "relax" / "mlp.py"
    status, output = invoke("run", str(path), "--time", "--size", "batch=2", "--json")
    assert status == 0
    assert json.loads(output)["MLP"]["seconds"] > 0
