"""The table of kernels: rows are what they say, and a run measures, compares and writes."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.peers import PEERS, missing
from benchmarks.results import Outcome, RowTimes, as_markdown, as_svg
from benchmarks.rows import ROWS, Row, inputs_of, reference_of

ROOT = Path(__file__).parents[2]


def small(row: Row) -> Row:
    """Return a row of few elements, that a plain sum can check."""
    shapes = {
        "linear": ((2, 3), (4, 3)),
        "attention": ((1, 2, 3, 4),) * 3,
        "gelu": ((9,),),
        "sum": ((3, 5),),
    }[row.kind]
    return Row(row.name, row.kind, shapes, (), 0, settings=row.settings)


def test_references_are_the_formulas():
    by_kind = {row.kind: row for row in ROWS}
    x, w = inputs_of(small(by_kind["linear"]))
    wanted = [[sum(float(a) * float(b) for a, b in zip(p, q)) for q in w] for p in x]
    assert np.allclose(reference_of(small(by_kind["linear"]), [x, w]), wanted, atol=1e-12)
    (x,) = inputs_of(small(by_kind["gelu"]))
    wanted = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(float)]
    assert np.allclose(reference_of(small(by_kind["gelu"]), [x]), wanted, rtol=0, atol=1e-12)
    q, k, v = inputs_of(small(by_kind["attention"]))
    scores = np.exp(np.einsum("bhqd,bhkd->bhqk", q, k).astype(float) / 2)
    wanted = np.einsum("bhqk,bhkd->bhqd", scores / scores.sum(-1, keepdims=True), v)
    assert np.allclose(reference_of(small(by_kind["attention"]), [q, k, v]), wanted, atol=1e-6)


def test_convolutions_are_those_of_windows():
    settings = {"stride": 2, "padding": 1, "groups": 1}
    row = Row("c", "conv", ((1, 2, 5, 5), (3, 2, 3, 3)), (1, 3, 3, 3), 0, settings=settings)
    x, w = inputs_of(row)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    made = reference_of(row, [x, w])
    assert made.shape == row.out
    for o, i, j in np.ndindex(3, 3, 3):
        window = padded[0, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        assert made[0, o, i, j] == pytest.approx((window * w[o]).sum(), abs=1e-9)


def test_ratios_and_shares_are_those_of_least_times():
    row = Row("a & b", "gelu", ((4,),), (4,), 100)
    found = RowTimes(row, {"loomir": [2.0, 1.0], "x": [4.0, 3.0], "y": [5.0]}, {}, {}, {})
    none = RowTimes(row, {"loomir": [2.0]}, {}, {}, {"x": "wrong"})
    roof = {"flops": 200.0, "bandwidth": 64.0, "int8 flops": 800.0}
    outcome = Outcome(1, "a CPU", 2, roof, [found, none], {})
    assert (found.best, found.ratio, outcome.mean) == ("x", 3.0, pytest.approx(3.0))
    assert outcome.share(found, "loomir") == 0.5  # limited by operations, not by 32 bytes
    narrow = RowTimes(
        dataclasses.replace(row, dtype="int8", flops=400), {"loomir": [1.0]}, {}, {}, {}
    )
    assert outcome.share(narrow, "loomir") == 0.5  # instructions take four steps at once
    assert "| a & b | 1000.000 ms | 50% | +50% | x |" in as_markdown([outcome])
    words = list(ET.fromstring(as_svg([outcome])).itertext())
    assert {"a & b", "3.00 (x)"} <= set(words)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_a_run_measures_compares_and_writes(tmp_path: Path):
    command = [sys.executable, "-m", "benchmarks.kernels", "--quick", "--threads", "1"]
    command += ["--rows", "batched", "--peers", "loomir,numpy,halide", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (outcome,) = json.loads((tmp_path / "kernels.json").read_text())
    (row,) = outcome["rows"]
    assert not row["problems"]
    assert {"loomir", "numpy"} <= set(row["seconds"])
    assert 0 <= row["errors"]["loomir"] < 1e-5
    assert row["ratio"] == pytest.approx(
        min(v for k, v in row["seconds"].items() if k != "loomir") / row["seconds"]["loomir"]
    )
    if missing("halide"):
        assert "halide is left out: halide not installed" in done.stdout
    assert all((ROOT / "benchmarks" / "peers" / f"{m}.py").exists() for m, _ in PEERS.values())


def test_unknown_names_are_refused():
    for words, remedy in ((["--peers", "mumpy"], "numpy"), (["--rows", "gem 5"], "gemm 512")):
        command = [sys.executable, "-m", "benchmarks.kernels", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert remedy in done.stderr
