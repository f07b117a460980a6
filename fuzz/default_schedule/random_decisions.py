"""Draw other candidates than those of least predicted time: a search may choose any of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Set
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from fuzz.choices import SeedChoices
from fuzz.reach import FOLDER, Candidate
from loomir.autoschedule.ir import decision
from loomir.autoschedule.ir.decision import Choice, Decisions, choice_to_plain
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["DrawnSource", "new_candidates"]

_Choice = TypeVar("_Choice", bound=Choice)
_new: Final[set[Candidate]] = set()
_known: Final[set[Candidate]] = set()


def new_candidates() -> list[Candidate]:
    """Return the candidates that were offered and chosen since this was last asked."""
    found = sorted(_new - _known)
    _known.update(_new)
    _new.clear()
    return found


def _note(key: str, candidates: Iterable[Choice], chosen: Choice) -> None:
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename == decision.__file__:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename) if frame is not None else FOLDER
    if path.is_relative_to(FOLDER):
        module, name = str(path.relative_to(FOLDER)), key.rpartition("/")[2]
        for each in candidates:
            _new.add((module, name, json.dumps(choice_to_plain(each)), each == chosen))


class _Drawn(Decisions):
    """Chooses by a seed; the same candidate each time that the same is asked."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__(explores=share > 0)
        self._seed, self._share = seed, share

    def choose(self, key: str, first: _Choice, others: Callable[[], Iterable[_Choice]]) -> _Choice:
        candidates = list(dict.fromkeys((first, *others())))
        choices = SeedChoices(f"{self._seed} {key}")
        chosen: Any = choices.pick(candidates) if choices.chance(self._share) else first
        if key == "loops":
            chosen = first  # loops as written are no schedule
        else:
            _note(key, candidates, chosen)
        return chosen


class DrawnSource:
    """Decides for all functions of a program; with ``draws=False`` as predicted."""

    def __init__(self, seed: int, *, draws: bool = True) -> None:
        self._seed = seed
        self._share = SeedChoices(f"share {seed}").pick((0.15, 0.4, 1.0)) if draws else 0.0

    def find_decisions(self, func: PrimFunc, constants: Set[Var], target: Target) -> Decisions:
        """Return decisions that are drawn."""
        return _Drawn(self._seed, self._share)
