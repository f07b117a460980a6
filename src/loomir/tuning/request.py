"""Requests to measure a candidate, and their outcomes: plain values that any executor can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from loomir.autoschedule.ir.decision import (
    Choice,
    Decision,
    choice_from_plain,
    choice_to_plain,
)

__all__ = ["Outcome", "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate to measure; ``text`` is the function as JSON, ``constants`` argument indices.

    ``seconds`` limits the measurement; after ``limit`` seconds in all, the process is killed.
    """

    program: str
    text: str
    constants: tuple[int, ...]
    sizes: Mapping[str, int]
    target: str
    choices: Mapping[str, Choice]
    seed: int = 0
    seconds: float = 0.04
    limit: float = 30.0

    def to_plain(self) -> dict[str, Any]:
        """Return the request as plain data for JSON."""
        return {
            "program": self.program,
            "text": self.text,
            "constants": list(self.constants),
            "sizes": dict(self.sizes),
            "target": self.target,
            "choices": {k: choice_to_plain(v) for k, v in self.choices.items()},
            "seed": self.seed,
            "seconds": self.seconds,
            "limit": self.limit,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Request:
        """Read what ``to_plain`` wrote."""
        fields = dict(plain)
        fields["constants"] = tuple(fields["constants"])
        fields["choices"] = {k: choice_from_plain(v) for k, v in fields["choices"].items()}
        return cls(**fields)

    def with_choices(self, choices: Mapping[str, Choice]) -> Request:
        """Return the request for another candidate."""
        return replace(self, choices=dict(choices))

    def with_seconds(self, seconds: float) -> Request:
        """Return the request for a longer measurement."""
        return replace(self, seconds=seconds)


class Outcome(NamedTuple):
    """The result of a trial: ``ok``, ``wrong`` or ``failed``, the times, and the decisions met.

    ``is_repeated``: another trial had the same loops, and its times are returned.
    """

    status: str
    seconds: float | None = None
    default_seconds: float | None = None
    why: str = ""
    space: Mapping[str, Decision] = MappingProxyType({})
    is_repeated: bool = False
    machine: str = ""
    """The key of the measuring machine."""
    version: str = ""
    """The version of Loomir on that machine."""

    def effective(self, choices: Mapping[str, Choice]) -> dict[str, Choice]:
        """Return the choices that were applied and differ from the default schedule."""
        return {
            key: decision.chosen
            for key, decision in self.space.items()
            if key in choices and decision.chosen != decision.candidates[0]
        }

    def to_plain(self) -> dict[str, Any]:
        """Return the outcome as plain data for JSON."""
        made = self._asdict()
        made["space"] = {
            key: [
                [choice_to_plain(c) for c in decision.candidates],
                choice_to_plain(decision.chosen),
            ]
            for key, decision in self.space.items()
        }
        return made

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Outcome:
        """Read what ``to_plain`` wrote."""
        fields = dict(plain)
        fields["space"] = {
            key: Decision(tuple(map(choice_from_plain, candidates)), choice_from_plain(chosen))
            for key, (candidates, chosen) in fields["space"].items()
        }
        return cls(**fields)
