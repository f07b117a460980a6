"""A little of each campaign; ``python -m tests.script.campaign`` runs as much as one likes."""

from __future__ import annotations

import pytest

from tests.clause import clauses
from tests.script.campaign import CHECKS, main

COUNTS = {"round-trip": 300, "mutate": 1500, "calls": 1500, "mutate-graphs": 900, "graphs": 1200}


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("part", range(3))
def test_part_of_a_campaign(check: str, part: int, capsys: pytest.CaptureFixture[str]):
    count = COUNTS[check] // 3
    failed = main([check, "--count", str(count), "--start", str(part * count)])
    assert not failed, capsys.readouterr().out


def test_a_failure_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def fail(seed: int) -> str:
        raise KeyError(seed)

    monkeypatch.setitem(CHECKS, "calls", fail)
    assert main(["calls", "--count", "2", "--start", "5"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seed 5: KeyError: 5",
        "seed 6: KeyError: 6",
        "2 seeds, 2 failures: ",
    ]
