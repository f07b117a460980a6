"""Idioms at every length: all of them are drawn, and the reference is right."""

from __future__ import annotations

import pytest

from fuzz.families.cases import fresh, outcome
from fuzz.families.lengths import KINDS, draw
from loomir.interp import interpret


def test_every_length_is_drawn_of_every_kind() -> None:
    assert len({(kind.name, kind.form) for kind in KINDS}) == len(KINDS)
    lengths = {draw(len(KINDS) * step).arguments[0].shape for step in range(200)}
    assert lengths == {(n,) for n in range(1, 201)}


@pytest.mark.parametrize("number", range(0, len(KINDS), 4))
def test_the_reference_is_what_the_loops_compute(number: int) -> None:
    case = draw(number + len(KINDS) * 11 * (number % 3))
    arguments = [fresh(argument) for argument in case.arguments]
    interpret(case.module, case.entry, *arguments)
    assert outcome(case, arguments) == ""
