"""Draw other candidates than those of least predicted time: a search may choose any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, TypeVar

from fuzz.choices import SeedChoices
from loomir.autoschedule.ir.decision import Choice, Decisions
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["DrawnSource"]

_Choice = TypeVar("_Choice", bound=Choice)


class _Drawn(Decisions):
    """Chooses by a seed; the same candidate each time that the same is asked."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__(explores=True)
        self._seed, self._share = seed, share

    def choose(self, key: str, first: _Choice, others: Callable[[], Iterable[_Choice]]) -> _Choice:
        candidates = list(dict.fromkeys((first, *others())))
        choices = SeedChoices(f"{self._seed} {key}")
        chosen: Any = choices.pick(candidates) if choices.chance(self._share) else first
        if key == "loops":
            chosen = first  # loops as written are no schedule
        return chosen


class DrawnSource:
    """Decides for all functions of a program."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._share = SeedChoices(f"share {seed}").pick((0.15, 0.4, 1.0))

    def find_decisions(self, func: PrimFunc, constants: Set[Var], target: Target) -> Decisions:
        """Return decisions that are drawn."""
        return _Drawn(self._seed, self._share)
