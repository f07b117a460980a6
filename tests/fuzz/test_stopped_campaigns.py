"""A campaign that is stopped says how to go on with it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from fuzz.campaign import LoopCampaign
from fuzz.emulator import EmulatorCampaign
from fuzz.processes import Campaign, run_campaign
from fuzz.schedules import SchedulesCampaign


@pytest.mark.parametrize(
    ("kind", "option"),
    [(SchedulesCampaign, "--seed"), (EmulatorCampaign, "--seed"), (LoopCampaign, "--start")],
)
def test_a_stopped_campaign_names_the_option_that_goes_on(
    kind: type[Campaign],
    option: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(kind, "work", lambda self: None)
    options = Namespace(count=3, jobs=1, minutes=0.0, limit=9.0, save=tmp_path, kinds=False)
    assert run_campaign(kind, 5, ["unrun"], options) == 1
    assert f"go on with {option} 5 --count 3" in capsys.readouterr().out
