"""The table of models: two small ones are exported, run by two runtimes, compared and written."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.models import ARCHITECTURES
from benchmarks.models.cases import CASES, Case
from benchmarks.models.files import write
from benchmarks.models.peers import PEERS, missing
from benchmarks.models.results import ModelTimes, Outcome, RuntimeResult, as_markdown, as_svg

ROOT = Path(__file__).parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.models", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's exporter
def test_a_run_measures_compares_and_writes(tmp_path: Path):
    for case in (c for c in CASES if c.name in ("mlp", "llama_decode")):
        folder = tmp_path / f"{case.name}-small"
        folder.mkdir()
        assert write(case, "small", folder, ["onnx", "pt"]) == {"onnx": "", "pt": ""}
    with np.load(tmp_path / "mlp-small" / "wanted.npz") as file:
        wrong = {name: file[name] for name in file.files}
    (tmp_path / "mlp-small" / "wanted.npz").unlink()
    np.savez(tmp_path / "mlp-small" / "wanted.npz", **{n: y + 1 for n, y in wrong.items()})
    words = ["--size", "small", "--models", "mlp", "llama_d*", "--threads", "1", "--rounds", "2"]
    words += ["--seconds", "0.01", "--peers", "loomir", "pytorch", "apache-tvm"]
    done = run(*words, "--files", str(tmp_path), "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (outcome,) = json.loads((tmp_path / "models.json").read_text())
    mlp, llama = outcome["models"]
    assert mlp["problems"]["loomir"].startswith("wrong: differs by")
    assert set(mlp["runtimes"]) == set()
    ours = llama["runtimes"]["loomir"]
    assert 0 < ours["error"] < llama["bound"]
    for start in ("cold", "warm"):
        assert 0 < ours[start]["imported"] < ours[start]["loaded"] < ours[start]["called"]
    assert ours["memory"]["peak"] >= ours["memory"]["imported"] > 1 << 20
    assert ours["latency"] == min(ours["rounds"])
    assert len(ours["rounds"]) == 2
    theirs = llama["runtimes"]["pytorch"]
    assert llama["best"]["latency"] == "pytorch"
    assert llama["ratio"]["latency"] == pytest.approx(theirs["latency"] / ours["latency"])
    if missing("apache-tvm"):
        assert "apache-tvm is left out: tvm not installed" in done.stdout


def test_ratios_are_those_of_the_best_peer():
    case = Case("a & b", "mlp")
    ours = RuntimeResult(
        {"called": 2.0}, {"called": 1.0}, {"peak": 300}, {"peak": 200}, 1e-7, [2.0, 1.0]
    )
    other = RuntimeResult(
        {"called": 1.0}, {"called": 3.0}, {"peak": 150}, {"peak": 150}, 1e-7, [3.0]
    )
    slow = RuntimeResult({"called": 9.0}, {"called": 9.0}, {"peak": 100}, {"peak": 90}, 1e-7, [9.0])
    found = ModelTimes(
        case, {"loomir": ours, "loomir pt2": RuntimeResult(), "x": other, "y": slow}, {}
    )
    none = ModelTimes(case, {"x": other}, {"loomir": "wrong"})
    outcome = Outcome(2, "a CPU", "small", (0.0, 1.0), [found, none])
    assert (found.best(lambda m: m.latency), found.ratio(lambda m: m.latency)) == ("x", 3.0)
    assert (found.best(lambda m: m.memory["peak"]), ours.variation) == ("y", 0.5)
    assert math.isnan(none.ratio(lambda m: m.latency))
    assert outcome.mean(lambda m: m.latency) == pytest.approx(3.0)
    text = as_markdown([outcome])
    assert "| a & b | 1.00 s |  | 3.00 s | 9.00 s | x | 3.00 |" in text
    assert "- a & b, loomir: wrong" in text
    assert {"a & b", "3.00 (x)", "0.33 (y)"} <= set(ET.fromstring(as_svg([outcome])).itertext())


def test_every_architecture_has_a_case_and_every_peer_a_module():
    assert {c.architecture for c in CASES} == set(ARCHITECTURES)
    folder = ROOT / "benchmarks" / "models" / "peers"
    assert all((folder / f"{peer.module}.py").exists() for peer in PEERS.values())


def test_unknown_names_are_refused():
    for words, remedy in ((["--peers", "mumpy"], "openvino"), (["--models", "bart"], "resnet50")):
        done = run(*words)
        assert done.returncode == 2
        assert remedy in done.stderr
