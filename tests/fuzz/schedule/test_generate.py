"""Random sequences of schedule primitives keep the meaning of programs."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fuzz.schcampaign import ScheduleCampaign
from fuzz.schedule.generate import MOVES, check, sequence_of_seed, turn_of
from loomir.schedule import PRIMITIVES
from loomir.schedule.primitive import compute_location, inlining, reducing, splitting

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
    for seed in range(60):
        made = sequence_of_seed(seed)
        if made.program.moves:  # which are there to be refused
            continue
        done.update(made.done)
        refused.update(made.refused)
    assert done.total() > refused.total()
    assert len(done) > len(MOVES) / 2


@pytest.mark.parametrize(
    ("module", "name", "passes"),
    [
        (splitting, "find_carrying_loops", ()),
        (inlining, "cannot_feed", None),
        (compute_location, "repeatable", ""),
        (reducing, "explain_repetition", ""),
        (compute_location, "_cannot_run_at_once", None),
    ],
)
def test_a_check_that_is_not_made_is_missed(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, passes: object
) -> None:
    """Without one of its checks a primitive changes the meaning of some sequence."""
    assert hasattr(module, name)
    monkeypatch.setattr(module, name, lambda *_args, **_named: passes)
    assert any(check(seed, native=False)["found"] for seed in range(100))


def test_turns_look_at_all_and_closely_at_some() -> None:
    turns = [turn_of(seed) for seed in range(2000)]
    assert sum(turn.close for turn in turns) > 200
    assert sum(turn.checked for turn in turns) > 50
    assert {turn.level for turn in turns} == {None, 0, 1, 2, 3}
    assert all(turn.compiled for turn in turns if turn.checked or turn.level is not None)


def test_what_is_for_threads_or_lanes_is_always_compiled() -> None:
    marked: list[int] = []
    for seed in range(200):
        made = sequence_of_seed(seed, close=False)
        if {"parallel", "vectorize"} & set(made.done) and not turn_of(seed).compiled:
            text = made.sch.mod.script()
            marked += [seed] if "T.parallel(" in text or "T.vectorized(" in text else []
    assert len(marked) > 5
    for seed in marked[:5]:
        assert "compiled" in check(seed)["kinds"]


def test_a_sequence_is_the_same_however_it_is_looked_at() -> None:
    for seed in range(0, 60, 3):
        close, plain = sequence_of_seed(seed), sequence_of_seed(seed, close=False)
        assert (close.done, close.refused) == (plain.done, plain.refused)
        assert close.sch.mod.script() == plain.sch.mod.script()


def test_kinds_count_what_was_done_and_what_was_refused() -> None:
    made = sequence_of_seed(3)
    kinds = check(3)["kinds"]
    assert {*made.done, *(f"refused {name}" for name in made.refused)} <= set(kinds)


def test_a_campaign_reports_and_keeps(tmp_path: Path) -> None:
    campaign = ScheduleCampaign(range(2), [], save=tmp_path)
    report = campaign.run()
    assert (report.count, report.failures) == (2, [])
    path = campaign.keep({"seed": 1, "found": {"meaning": "wrong"}}, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "# meaning: wrong" in text
    assert "def apply_func(sch" in text
