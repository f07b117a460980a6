"""A search finds the best candidate of a space that it sees little by little."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from loomir.autoschedule.ir.decision import Choice, Decision
from loomir.tuning import cost_model
from loomir.tuning.cost_model import make_cost_model
from loomir.tuning.request import Outcome
from loomir.tuning.search import Search, key_of_choices

SPACE: dict[str, tuple[Choice, ...]] = {
    "rule": ("rows", "loops"),
    "tile": tuple((r, v) for r in (4, 2, 8, 16) for v in (1, 2, 4)),
    "depth": (64, 16, 32, 128, 256),
    "tasks": (16, 1, 4, 64, 0),
}


def time_of(choices: Mapping[str, Choice]) -> float:
    """Return a made-up time: how much a tile matters depends on the depth."""
    tile = choices.get("tile", (4, 1))
    assert isinstance(tile, tuple)
    depth, tasks = choices.get("depth", 64), choices.get("tasks", 16)
    assert isinstance(depth, int)
    assert isinstance(tasks, int)
    if choices.get("rule", "rows") == "loops":
        return 3.0 + (choices.get("unroll", 1) == 1)
    away = abs(math.log2(tile[0] / 8)) + abs(tile[1] - 2) / 4
    return 1.0 + away * 32 / depth + abs(math.log2(depth / 128)) / 4 + (tasks == 0) * 0.5


def outcome_of(choices: Mapping[str, Choice]) -> Outcome:
    """Measure a made-up candidate; one rule decides other things."""
    space = {key: Decision(c, choices.get(key, c[0])) for key, c in SPACE.items()}
    if choices.get("rule") == "loops":
        space = {"rule": space["rule"], "unroll": Decision((1, 2, 4), choices.get("unroll", 1))}
    return Outcome("ok", time_of(choices), time_of({}), space=space)


def run(count: int, seed: int = 0) -> tuple[Search, list[dict[str, Choice]]]:
    """Search with so many measurements."""
    search, tried = Search(seed), list[dict[str, Choice]]()
    while len(tried) < count and not search.is_finished:
        choices = search.propose()
        if choices is None:
            break
        tried.append(choices)
        search.tell(choices, outcome_of(choices))
    return search, tried


@pytest.mark.parametrize("seed", range(4))
def test_the_best_candidate_is_found_in_far_fewer_trials_than_there_are(seed: int):
    search, tried = run(100, seed)
    best = min(map(time_of, tried))
    assert best == 1.0  # there are 12 * 5 * 5 + 3
    assert search.best == pytest.approx(1.0 / time_of({}))
    assert time_of(search.fastest(1)[0]) == 1.0


def test_no_candidate_is_proposed_twice_and_the_default_comes_first():
    _, tried = run(200)
    assert tried[0] == {}
    keys = list(map(key_of_choices, tried))
    assert len(set(keys)) == len(keys)


def test_what_only_another_rule_decides_is_searched_too():
    _, tried = run(200)
    assert {"rule": "loops", "unroll": 2} in tried


def test_candidates_differ_from_the_default():
    _, tried = run(100)
    assert all(choices[key] != SPACE[key][0] for choices in tried for key in choices.keys() & SPACE)


def test_a_search_ends_where_nothing_is_gained():
    search, tried = run(10_000)
    assert search.is_finished or search.propose() is None
    assert len(tried) < 400


def test_earlier_trials_are_not_made_again_and_their_gain_counts():
    first, tried = run(60)
    second = Search(1)
    for choices in tried[1:]:
        second.tell(choices, outcome_of(choices)._replace(space={}))
    assert second.best == first.best
    assert second.propose() == {}  # it shows what can be decided
    second.tell({}, outcome_of({}))
    again = second.propose()
    assert again is not None
    assert again not in tried


def test_failures_count_as_slow():
    search = Search()
    assert search.propose() == {}
    search.tell({}, outcome_of({}))
    while (choices := search.propose()) is not None and len(search.times) < 40:
        failed = choices.get("depth") == 256
        search.tell(choices, Outcome("failed") if failed else outcome_of(choices))
        assert choices not in search.fastest(100) or not failed


@pytest.mark.parametrize("with_forest", [False, True])
def test_the_cost_model_ranks_what_it_has_not_seen(
    with_forest: bool, monkeypatch: pytest.MonkeyPatch
):
    if with_forest:
        assert cost_model._forest_class() is not None
    else:
        monkeypatch.setattr(cost_model, "_forest_class", lambda: None)
    every = [{"depth": d, "tasks": t} for d in SPACE["depth"] for t in SPACE["tasks"]]
    seen, unseen = every[::2] * 2, every[1::2]
    model = make_cost_model(SPACE, seen, [math.log(time_of(c)) for c in seen], 0)
    expected = model.predict(unseen)
    order = sorted(range(len(unseen)), key=lambda k: expected[k])
    times = [time_of(unseen[k]) for k in order]
    assert sum(times[:6]) < sum(times[-6:])
