"""The families of programs that campaigns draw from, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from fuzz import (
    algorithms,
    contractions,
    directed,
    elements,
    idioms,
    lengths,
    networks,
    reductions,
    tensors,
    windows,
)
from fuzz.cases import Case

__all__ = ["FAMILIES", "Draw"]

Draw: TypeAlias = Callable[[int], Case]
"""Draws the case of a seed."""

FAMILIES: Final[Mapping[str, Draw]] = {
    "algorithms": algorithms.draw,
    "contractions": contractions.draw,
    "directed": directed.draw,
    "elements": elements.draw,
    "idioms": idioms.draw,
    "lengths": lengths.draw,
    "networks": networks.draw,
    "reductions": reductions.draw,
    "tensors": tensors.draw,
    "windows": windows.draw,
}
