"""Sources of an idiom's elements, and ways to clamp a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from fuzz.choices import Choices
from fuzz.families.idioms.values import (
    INTEGERS,
    Value,
    bits_of,
    cast,
    chosen,
    const,
    is_signed,
    larger,
    limits,
    smaller,
)

__all__ = [
    "NARROW",
    "SIGNED",
    "UNSIGNED",
    "Source",
    "as_dtype",
    "clip",
    "clipped_to",
    "wider",
]

NARROW: Final = ("int8", "uint8", "int16", "uint16")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
SIGNED: Final = ("int8", "int16", "int32", "int64")


class Source(ABC):
    """Where idioms take elements from."""

    c: Choices

    @abstractmethod
    def load(self, dtype: str) -> Value:
        """Read an element of some array."""

    @abstractmethod
    def pair(self, dtype: str, count: int = 2) -> list[Value]:
        """Read neighbouring elements."""

    @abstractmethod
    def look_up(self, dtype: str, index: Value, size: int) -> Value:
        """Read an element of a table, whose index is from 0 on and below its size."""

    @abstractmethod
    def short(self, dtype: str) -> Value:
        """Read a float of few digits, of which products and sums are exact in float64."""

    @abstractmethod
    def named(self, value: Value) -> Value:
        """Return a value a name in the program, maybe."""


def wider(c: Choices, *dtypes: str) -> str:
    """Draw a dtype that holds all numbers of others, and their sums mostly."""
    least = max(bits_of(d) for d in dtypes)
    signed = any(is_signed(d) for d in dtypes)
    found = [d for d in INTEGERS if bits_of(d) > least and (is_signed(d) or not signed)]
    return c.pick(found or ["int64"])


def as_dtype(x: Value, dtype: str) -> Value:
    """Convert a value, unless it is of the dtype."""
    return x if x.dtype == dtype else cast(x, dtype)


def clip(s: Source, x: Value, low: float | None, high: float | None) -> Value:
    """Clamp a value to a range, in one of many spellings."""
    c = s.c
    order = [end for end in ("low", "high") if (low if end == "low" else high) is not None]
    if c.chance(0.5):
        order.reverse()
    for end in order:
        bound = low if end == "low" else high
        assert bound is not None
        how = c.weighted([(5, 0), (2, 1), (1, 2), (1, 3)])
        edge = const(bound, x.dtype)
        if how == 0:
            made = larger(x, edge) if end == "low" else smaller(x, edge)
        elif how == 1:
            made = larger(edge, x) if end == "low" else smaller(edge, x)
        elif how == 2:
            made = chosen(x < edge if end == "low" else x > edge, edge, x)
        else:
            made = chosen(edge <= x if end == "low" else x <= edge, x, edge, lazy=c.chance(0.3))
        x = s.named(made)
    return x


def clipped_to(s: Source, x: Value, dtype: str, *, off: bool = False) -> Value:
    """Clamp integers to about the range of a dtype."""
    c = s.c
    low, high = limits(dtype)
    least, most = limits(x.dtype)
    if off or c.chance(0.15):
        low += c.pick([0, 1, -1, 0])
        high += c.pick([0, -1, 1, 0])
    if c.chance(0.1):
        low, high = 0, c.pick([high, high // 2, 255, 127, 65535])
    ends = c.weighted([(6, "both"), (2, "low"), (2, "high")])
    floor = low if ends != "high" and low >= least else None
    ceiling = high if ends != "low" and high <= most else None
    return clip(s, x, floor, ceiling)
