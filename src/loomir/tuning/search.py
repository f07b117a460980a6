"""Search the candidates of a program: each single change, then evolution by a cost model."""

from __future__ import annotations

import json
import math
import random
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from loomir.autoschedule.ir.decision import Choice, Decision
from loomir.tuning.cost_model import make_cost_model
from loomir.tuning.request import Outcome

__all__ = ["Search"]

_PRESSURE: Final = 3
"""How strongly fast parents are preferred: at twice the speed, 2**3 times as often."""
_BATCH: Final = 8
"""Candidates that are measured before the cost model is fitted again."""
_OFFSPRING: Final = 96
"""Candidates that the cost model ranks for each batch."""
_AT_RANDOM: Final = 0.4
"""The fraction of candidates that are measured regardless of the cost model."""
_CROSSED: Final = 0.4
"""The fraction of offspring that take half of their choices from a second parent."""
_PATIENCE: Final = 160
"""Measurements without a gain after which a search ends."""
_GAIN: Final = 0.99
"""The time relative to the best so far below which a candidate counts as a gain."""
_FAILED: Final = 1.0
"""The logarithm of the time that a failure counts as: e times that of the default schedule."""


class Search:
    """Proposes candidates of one program and learns from their outcomes.

    A candidate is a table of choices that differ from the default schedule. The space grows during
    the search, since other rules have other decisions.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self.space: dict[str, tuple[Choice, ...]] = {}
        """The candidates of each decision, with that of the default schedule first."""
        self.times: dict[str, tuple[Mapping[str, Choice], float]] = {}
        """Measured candidates: choices, and time relative to the default schedule."""
        self.failures: dict[str, Mapping[str, Choice]] = {}
        self._known: set[str] = {key_of_choices({})}
        self._has_begun = False
        self._singles: deque[dict[str, Choice]] = deque()
        self._offspring: deque[dict[str, Choice]] = deque()
        self._since_gain = 0
        self.best = 1.0
        """The least relative time so far."""

    @property
    def is_finished(self) -> bool:
        """Whether more measurements are unlikely to find anything."""
        return self._has_begun and not self._singles and self._since_gain >= _PATIENCE

    def propose(self) -> dict[str, Choice] | None:
        """Return a candidate that was not proposed before; None if there is none at present."""
        if not self._has_begun:
            self._has_begun = True
            return {}  # the default schedule itself, which shows the decisions
        while True:
            queue = self._singles or self._offspring
            if not queue:
                self._offspring.extend(self._evolve(_BATCH) if self.space else ())
                queue = self._offspring
            if not queue:
                return None
            choices = self._take(queue.popleft())
            if choices is not None:
                return choices

    def _take(self, choices: dict[str, Choice]) -> dict[str, Choice] | None:
        key = key_of_choices(choices)
        if key in self._known:
            return None
        self._known.add(key)
        return choices

    def tell(self, choices: Mapping[str, Choice], outcome: Outcome) -> None:
        """Record the outcome of a candidate."""
        self._widen(choices, outcome.space)
        key = key_of_choices(choices)
        self._known.add(key)
        self._since_gain += 1
        if (
            outcome.status not in ("ok", "best")
            or not outcome.seconds
            or not outcome.default_seconds
        ):
            self.failures[key] = choices
            return
        relative = outcome.seconds / outcome.default_seconds
        self.times[key] = choices, relative
        if relative < self.best * _GAIN:
            self.best = relative
            self._since_gain = 0

    def fastest(self, count: int) -> list[Mapping[str, Choice]]:
        """List the fastest candidates."""
        return [choices for choices, _ in sorted(self.times.values(), key=lambda t: t[1])[:count]]

    def _widen(self, choices: Mapping[str, Choice], found: Mapping[str, Decision]) -> None:
        """Add new decisions to the space; single changes of them are proposed next."""
        parts: list[list[dict[str, Choice]]] = []
        for key, decision in found.items():
            known = self.space.get(key, ())
            added = [c for c in decision.candidates if c not in known]
            if not added:
                continue
            self.space[key] = (*known, *added)
            around = {k: v for k, v in choices.items() if k != key}
            parts.append(
                [{**around, key: c} for c in added if c != decision.candidates[0] or known]
            )
        # Round-robin, so that each decision is tried early.
        for place in range(max((len(part) for part in parts), default=0)):
            self._singles.extend(part[place] for part in parts if place < len(part))

    def _evolve(self, count: int) -> Iterable[dict[str, Choice]]:
        """Return the offspring that the cost model ranks best, and some random ones."""
        offspring: dict[str, dict[str, Choice]] = {}
        measured = list(self.times.values()) or [({}, 1.0)]
        # All are parents, fast ones more often: only the fastest few would be too similar.
        weights = [(self.best / max(time, self.best)) ** _PRESSURE for _, time in measured]
        for _ in range(_OFFSPRING):
            chosen = self._random.choices(measured, weights, k=2)
            child = self._make_child(*(choices for choices, _ in chosen))
            key = key_of_choices(child)
            if key not in self._known:
                offspring.setdefault(key, child)
        listed = list(offspring.values())
        if not listed:
            return []
        tried = [choices for choices, _ in measured] + list(self.failures.values())
        times = [math.log(max(t, 1e-3)) for _, t in measured] + [_FAILED] * len(self.failures)
        model = make_cost_model(self.space, tried, times, self._seed)
        expected = model.predict(listed)
        order = sorted(range(len(listed)), key=expected.__getitem__)
        for place in range(min(count, len(order))):
            if self._random.random() < _AT_RANDOM:
                other = self._random.randrange(place, len(order))
                order[place], order[other] = order[other], order[place]
        return [listed[place] for place in order[:count]]

    def _make_child(
        self, parent: Mapping[str, Choice], other: Mapping[str, Choice]
    ) -> dict[str, Choice]:
        """Mutate a candidate, or cross two of them."""
        child = dict(parent)
        if parent != other and self._random.random() < _CROSSED:
            for key in self._random.sample(sorted(self.space), len(self.space) // 2):
                self._set(child, key, other.get(key, self.space[key][0]))
            return child
        for key in self._random.choices(sorted(self.space), k=self._random.choice((1, 1, 2, 3))):
            self._set(child, key, self._random.choice(self.space[key]))
        return child

    def _set(self, child: dict[str, Choice], key: str, choice: Choice) -> None:
        if choice == self.space[key][0]:
            child.pop(key, None)
        else:
            child[key] = choice


def key_of_choices(choices: Mapping[str, Choice]) -> str:
    """Return a text that equal choices share."""
    return json.dumps(sorted(choices.items()))
