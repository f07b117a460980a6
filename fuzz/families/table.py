"""The families of programs for campaigns, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from fuzz.families import (
    directed,
    elements,
    first_drafts,
    lengths,
    named_values,
    reductions,
    selections,
    windows,
)
from fuzz.families.algorithms import algorithms
from fuzz.families.cases import Case
from fuzz.families.contractions import contractions
from fuzz.families.idioms import idioms
from fuzz.families.networks import networks
from fuzz.families.other_campaigns import constructs, nests, primitives
from fuzz.families.tensors import tensors
from fuzz.families.variants import variants

__all__ = ["FAMILIES", "Draw"]

Draw: TypeAlias = Callable[[int], Case]
"""Draws the case of a seed."""

FAMILIES: Final[Mapping[str, Draw]] = {
    "algorithms": algorithms.draw,
    "constructs": constructs,
    "contractions": contractions.draw,
    "directed": directed.draw,
    "elements": elements.draw,
    "firsts": first_drafts.draw,
    "idioms": idioms.draw,
    "lengths": lengths.draw,
    "named": named_values.draw,
    "nests": nests,
    "networks": networks.draw,
    "primitives": primitives,
    "reductions": reductions.draw,
    "selections": selections.draw,
    "tensors": tensors.draw,
    "variants": variants.draw,
    "windows": windows.draw,
}
