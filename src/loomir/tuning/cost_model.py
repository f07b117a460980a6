"""A learned cost model: predict the time of a candidate from those that were measured.

Features are the choices: one column for each candidate of each decision, the logarithms of numbers,
and the products of each two of these. With scikit-learn installed (``pip install 'loomir[tune]'``)
the model is a forest of trees; without it, it is linear in these columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from loomir.autoschedule.ir.decision import Choice
from loomir.support.fork_safe import import_module

__all__ = ["CostModel", "make_cost_model"]

_RIDGE: Final = 1.0
_ENOUGH: Final = 24
"""The number of measurements from which a random forest predicts better than a linear model."""
_TREES: Final = 40

Choices = Mapping[str, Choice]


class CostModel(Protocol):
    """Predicts the logarithm of time relative to the default schedule."""

    def predict(self, candidates: Sequence[Choices]) -> Sequence[float]:
        """Predict for candidates."""
        ...


def make_cost_model(
    space: Mapping[str, Sequence[Choice]],
    tried: Sequence[Choices],
    times: Sequence[float],
    seed: int,
) -> CostModel:
    """Fit a model to candidates and the logarithms of their relative times.

    ``space`` lists the candidates of each decision, that of the default schedule first.
    """
    columns = _Columns(space)
    table, wanted = columns.encode(tried), np.array(times, "float64")
    forest = _forest_class() if len(tried) >= _ENOUGH else None
    if forest is not None:
        model = forest(n_estimators=_TREES, min_samples_leaf=1, random_state=seed, n_jobs=1)
        model.fit(table, wanted)
        return _Forest(columns, model)
    wide: Any = np.hstack([table, np.ones((len(tried), 1))])
    linalg: Any = np.linalg
    weights = linalg.solve(wide.T @ wide + _RIDGE * np.eye(wide.shape[1]), wide.T @ wanted)
    return _Linear(columns, weights)


class _Columns:
    """Encodes choices as rows of numbers."""

    def __init__(self, space: Mapping[str, Sequence[Choice]]) -> None:
        self.space = {key: tuple(candidates) for key, candidates in space.items() if candidates}

    def encode(self, candidates: Sequence[Choices]) -> Any:
        rows: list[list[float]] = []
        for choices in candidates:
            chosen = {key: choices.get(key, known[0]) for key, known in self.space.items()}
            row = [float(chosen[k] == c) for k, known in self.space.items() for c in known]
            numbers = [n for key in self.space for n in self._numbers(key, chosen[key])]
            rows.append([*row, *numbers, *_products(numbers)])
        made: Any = np.array(rows, "float64")
        return made.reshape(len(rows), -1)

    def _numbers(self, key: str, choice: Choice) -> list[float]:
        """Return the logarithms of a choice's numbers, relative to those of the default."""
        first = self.space[key][0]
        wanted = first if isinstance(first, tuple) else (first,)
        given = choice if isinstance(choice, tuple) else (choice,)
        return [
            _log(a) - _log(b) if type(a) is int and type(b) is int else 0.0
            for a, b in zip((*given, *wanted[len(given) :]), wanted, strict=False)
        ]


def _log(number: int) -> float:
    return math.log2(1 + abs(number))


def _products(numbers: Sequence[float]) -> list[float]:
    """Return the products of all pairs, since the best value of one depends on another."""
    return [a * b for k, a in enumerate(numbers) for b in numbers[k:]]


class _Linear(CostModel):
    def __init__(self, columns: _Columns, weights: Any) -> None:
        self._columns, self._weights = columns, weights

    def predict(self, candidates: Sequence[Choices]) -> Sequence[float]:
        table = self._columns.encode(candidates)
        return [float(x) for x in table @ self._weights[:-1] + self._weights[-1]]


class _Forest(CostModel):
    def __init__(self, columns: _Columns, model: Any) -> None:
        self._columns, self._model = columns, model

    def predict(self, candidates: Sequence[Choices]) -> Sequence[float]:
        return [float(x) for x in self._model.predict(self._columns.encode(candidates))]


@cache
def _forest_class() -> Any:
    """Return scikit-learn's random forest, None if it is not installed."""
    try:
        return import_module("sklearn.ensemble").ExtraTreesRegressor
    except ImportError:
        return None
