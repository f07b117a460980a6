"""Plain loops mean what they meant after the default schedule took them."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fuzz.nestcampaign import NestCampaign
from fuzz.nests.generate import nests_of_seed
from fuzz.scheduling import rules_of
from fuzz.tir.worker import check
from loomir.autoschedule.lift import lift_loops, loop_distribution
from loomir.autoschedule.rules.loops import parallelize
from loomir.check.tir.verify import verify

PROGRAMS = 80
SHARE = 20


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End the process, and say where it was, where a program does not end."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("first", range(0, PROGRAMS, SHARE))
def test_schedules_keep_the_meaning(first: int) -> None:
    for seed in range(first, first + SHARE):
        program = nests_of_seed(seed)
        assert not verify(program.module)
        engine = "scheduled-haswell" if seed % 5 == 4 else "scheduled"
        found = check(program, program.module, seed, [engine])
        assert not found, f"seed {seed}: {found}"


def test_many_rules_take_loops() -> None:
    taken = Counter(rule for seed in range(60) for rule in rules_of(nests_of_seed(seed).module))
    assert len(taken) >= 6
    assert "matrix product" in taken


@pytest.mark.parametrize(
    ("module", "name", "passes"),
    [
        (parallelize, "explain_dependence", ""),
        (loop_distribution, "_is_iteration_private", True),
        (lift_loops, "_loads", False),
        (lift_loops, "are_equal", True),
    ],
)
def test_a_check_that_is_not_made_is_missed(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, passes: object
) -> None:
    """Without one of its checks a rule changes the meaning of some program."""
    assert hasattr(module, name)
    monkeypatch.setattr(module, name, lambda *_args: passes)
    assert any(is_changed(seed) for seed in range(100))


def is_changed(seed: int) -> bool:
    program = nests_of_seed(seed)
    return bool(check(program, program.module, seed, ["scheduled"]))


def test_a_campaign_reports_and_keeps(tmp_path: Path) -> None:
    campaign = NestCampaign(range(2), ["scheduled"], save=tmp_path)
    report = campaign.run()
    assert (report.count, report.failures) == (2, [])
    path = campaign.keep({"seed": 1, "found": {"scheduled": "wrong"}}, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "# scheduled: wrong" in text
    assert "def main(" in text
