"""Scenarios of strain, the shortest form, and what the command says of failures."""

from __future__ import annotations

import sys

import pytest

from fuzz.stress import __main__ as stress

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork, rlimits and /proc")


@pytest.mark.parametrize("name", ["forks", "interrupts", "killed_workers"])
def test_processes_bear_strain(name: str):
    assert stress.failure_of(name, 0, 1) == ""


def test_failures_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stress, "failure_of", lambda name, seed, size: f"{name} {seed} {size}")
    assert stress.main(["forks", "--seed", "3", "--size", "2"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "FAILED python -m fuzz.stress.scenarios forks 3 2",
        "forks 3 2",
        "1 scenarios, 1 failed",
    ]
    with pytest.raises(SystemExit):
        stress.main(["nothing"])
