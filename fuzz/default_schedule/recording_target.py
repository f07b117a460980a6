"""Targets that record the queries of a schedule: targets with equal answers get equal loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomir.target import Target

__all__ = ["RecordingTarget", "answers_alike"]

_FACTS = frozenset(Target.__slots__) - {"name"}


class RecordingTarget(Target):
    """A target that records what was asked of it, with the answers.

    Its name is not a fact, since only diagnostics have it; ``has`` is one for each extension.
    """

    __slots__ = ("_known", "facts")

    def __init__(self, target: Target) -> None:
        super().__init__(target.name)
        self.caches = target.caches
        self._known = target.extensions
        self.facts: dict[str, Any] = {}

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _FACTS:
            self.facts[name] = value
        return value

    def has(self, extension: str) -> bool:
        """Tell whether the machine has instructions, and keep that this was asked."""
        answer = extension in self._known
        self.facts[f"has {extension}"] = answer
        return answer


def answers_alike(facts: Mapping[str, Any], target: Target) -> bool:
    """Tell whether a target gives the answers that another one gave."""
    for fact, answer in facts.items():
        what, _, extension = fact.partition(" ")
        if (target.has(extension) if extension else getattr(target, what)) != answer:
            return False
    return True
