"""Sources of a generator's decisions: a seed, Hypothesis, or plain bytes."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

__all__ = ["ByteChoices", "Choices", "HypothesisChoices", "SeedChoices"]

T = TypeVar("T")
_EXACT = 1 << 40


class Choices(ABC):
    """A source of decisions; everything is drawn as an integer in a closed range."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """Draw from ``low`` to ``high``, both included."""

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """Draw one of the options, by weight; the first is the one that shrinking prefers."""
        total = sum(weight for weight, _ in options)
        at = self.integer(0, 999_999) / 1e6 * total
        for weight, option in options:
            at -= weight
            if at < 0:
                return option
        return options[-1][1]

    def chance(self, share: float) -> bool:
        """Draw true in this share of cases."""
        return self.integer(0, 999_999) < share * 1e6


class SeedChoices(Choices):
    """Decisions of a pseudo-random generator."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """Draw from ``low`` to ``high``, both included."""
        span = high - low + 1
        if span <= _EXACT:
            return low + int(self._random.random() * span)  # four times as fast as randint
        return self._random.randint(low, high)


class HypothesisChoices(Choices):
    """Decisions of Hypothesis, which then shrinks what fails."""

    def __init__(self, draw: Any, integers: Any) -> None:
        self._draw = draw
        self._integers = integers

    def integer(self, low: int, high: int) -> int:
        """Draw from ``low`` to ``high``, both included."""
        value: int = self._draw(self._integers(low, high))
        return value


class ByteChoices(Choices):
    """Decisions read from bytes, as coverage-guided fuzzers make them; zeros after their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self, low: int, high: int) -> int:
        """Draw from ``low`` to ``high``, both included."""
        span = high - low + 1
        size = max(1, ((span - 1).bit_length() + 7) // 8)
        part = self._data[self._at : self._at + size]
        self._at += size
        return low + int.from_bytes(part, "little") % span
