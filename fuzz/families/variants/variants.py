"""A family of programs in forms that schedules rewrite to others.

It has products of bytes minus zero points, and what other modules of this folder draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.cases import Case
from fuzz.families.variants import padded_reads, running, zero_points
from fuzz.families.variants.text import Draft, source_of
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["KINDS", "VERSION", "draw"]

VERSION: Final = 3

_Draw: TypeAlias = Callable[[Choices, np.random.Generator], Draft]

KINDS: Final[Mapping[str, _Draw]] = {
    "product with zero points": zero_points.draw_product,
    "convolution with zero points": zero_points.draw_convolution,
    "windows with padded reads": padded_reads.draw,
    "greatest by comparison": running.draw,
}
"""What is drawn, each as often."""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    c = SeedChoices(f"variants {VERSION} {seed}")
    draft = KINDS[c.pick(list(KINDS))](c, np.random.default_rng(seed))
    module = from_source(source_of(draft))
    assert isinstance(module, IRModule)
    expected = tuple(draft.expected.get(name, array) for name, array in draft.arrays.items())
    return Case("variants", seed, module, "main", tuple(draft.arrays.values()), expected)
