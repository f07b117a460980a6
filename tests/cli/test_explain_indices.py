"""Kernels whose inputs are indices are measured on valid ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loomir.cli.valid_inputs import make_valid_inputs
from loomir.driver import as_module
from loomir.runtime.report.profile import Roof
from loomir.script import from_source
from loomir.tir.analysis.index_inputs import index_inputs
from tests.cli.test_commands import invoke

CSR = """
@T.prim_func
def spmv(
    starts: T.Buffer((101,), "int64"), columns: T.Buffer((400,), "int64"),
    values: T.Buffer((400,), "float32"), x: T.Buffer((50,), "float32"),
    y: T.Buffer((100,), "float32"),
):
    for i in range(100):
        y[i] = T.float32(0)
        for k in range(starts[i], starts[i + 1]):
            y[i] += values[k] * x[columns[k]]
"""
EMBED = """
@T.prim_func
def embed(w: T.Buffer((7, 4), "float32"), at: T.Buffer((99,), "int32"), y: T.Buffer((99,), "float32")):
    for i in range(99):
        k: T.let = at[i] * 2
        y[i] = w[k, 1]
"""
CHECKED = """
@T.prim_func
def checked(at: T.Buffer((33,), "int64"), y: T.Buffer((1,), "int64")):
    for i in range(33):
        T.evaluate(T.checked_index(at[i], T.int64(7), "y", 0))
    y[0] = T.int64(1)
"""
TAKE = """
@R.function
def take(w: R.Tensor((7, 4), "float32"), at: R.Tensor((33,), "int64")):
    return R.take(w, at, axis=0)
"""


def test_loops_over_rows_are_given_rising_starts():
    mod = as_module(from_source(CSR))
    uses = {(u.buffer.name, u.is_bound) for u in index_inputs(mod["spmv"])}
    assert uses == {("starts", True), ("columns", False)}
    starts, columns, *_ = make_valid_inputs(mod, "spmv", {}, 0)
    assert (np.diff(starts) >= 0).all()
    assert starts.max() > 100
    assert 0 <= columns.min() < columns.max() < 50


def test_factors_and_names_are_seen():
    mod = as_module(from_source(EMBED))
    _, at, _ = make_valid_inputs(mod, "embed", {}, 0)
    assert (at.min(), at.max()) == (0, 2)


def test_checks_of_indices_are_seen():
    mod = as_module(from_source(CHECKED))
    at, _ = make_valid_inputs(mod, "checked", {}, 0)
    assert 0 <= at.min() < at.max() < 7


def test_operators_of_graphs_are_given_valid_indices():
    mod = as_module(from_source(TAKE))
    _, at = make_valid_inputs(mod, "take", {}, 0)
    assert 0 <= at.min() < at.max() < 7


@pytest.mark.parametrize("text", [CSR, EMBED, TAKE])
def test_they_are_explained_and_measured(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    roof = Roof(1e10, 1e11)
    monkeypatch.setattr("loomir.cli.explain.find_roof", lambda compile: roof)
    monkeypatch.setattr("loomir.profiling.roof.find_roof", lambda compile: roof)
    path = tmp_path / "file.py"
    path.write_text("from loomir.script import tir as T, relax as R\n" + text)
    status, output = invoke("explain", str(path), "--json")
    assert status == 0, output
    (kernels,) = [v for k, v in json.loads(output).items() if k != "ok"]
    assert all(kernel["seconds"] > 0 for kernel in kernels.values())


def test_inputs_of_the_file_come_first(tmp_path: Path):
    path = tmp_path / "file.py"
    given = "\n\ndef inputs(rng):\n    return {'at': rng.integers(2, 3, 99).astype('int32')}\n"
    path.write_text("from loomir.script import tir as T\n" + EMBED + given)
    status, output = invoke("explain", str(path), "--json")
    assert status == 0, output
