"""Random sequences of schedule primitives keep the meaning of programs."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.schcampaign import ScheduleCampaign
from fuzz.schgen import MOVES, check, sequence_of_seed
from loomir.schedule import PRIMITIVES

SEQUENCES = 100
SHARE = 20
# What no move draws: it refuses always, or it is tested with those that it undoes.
NOT_DRAWN = {"bind", "unannotate"}


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End the process, and say where it was, where a sequence does not end."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("first", range(0, SEQUENCES, SHARE))
def test_sequences_keep_the_meaning(first: int) -> None:
    for seed in range(first, first + SHARE):
        found = check(seed, native=seed % 4 == 0)["found"]
        assert not found, f"seed {seed}: {found}"


def test_every_primitive_that_edits_is_drawn() -> None:
    drawn = {name for _, name, _ in MOVES}
    assert {row.name for row in PRIMITIVES.values() if not row.is_query} == drawn | NOT_DRAWN


def test_most_moves_do_something() -> None:
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for seed in range(40):
        made = sequence_of_seed(seed)
        done.update(made.done)
        refused.update(made.refused)
    assert done.total() > refused.total()
    assert len(done) > len(MOVES) / 2


def test_a_campaign_reports_and_keeps(tmp_path: Path) -> None:
    campaign = ScheduleCampaign(range(2), [], save=tmp_path)
    report = campaign.run()
    assert (report.count, report.failures) == (2, [])
    path = campaign.keep({"seed": 1, "found": {"meaning": "wrong"}}, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "# meaning: wrong" in text
    assert "def apply_func(sch" in text
