"""Decisions choose between candidates, and say which of them had no effect."""

from __future__ import annotations

import json
from collections.abc import Set

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.decision import (
    Choice,
    Decision,
    Decisions,
    choice_from_plain,
    choice_to_plain,
    decisions_from,
)
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import draw, read_function


class OneSource:
    """Gives the same decisions for each function."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions

    def find_decisions(
        self, func: PrimFunc, constants: Set[Var], target: Target
    ) -> Decisions | None:
        return self.decisions


@pytest.mark.parametrize("choice", [True, 4, "rows", (4, 8)])
def test_choices_survive_json(choice: Choice) -> None:
    assert choice_from_plain(json.loads(json.dumps(choice_to_plain(choice)))) == choice


def test_what_is_given_is_chosen_where_it_is_a_candidate() -> None:
    made = Decisions({"size": 8, "fuses": 1, "tile": (2, 2), "other": 3})
    assert made.choose("size", 4, lambda: (8, 16)) == 8
    assert made.choose("size", 4, lambda: (8,)) == 4  # another decision, of other candidates
    assert made.choose("fuses", True, lambda: (False,)) is True  # 1 is no bool
    assert made.choose("tile", (4, 4), lambda: ((2, 4),)) == (4, 4)
    assert made.made["size#2"] == Decision((4, 8), 4)
    assert made.ignored == ("tile", "other")


PARAMS = 'x: T.Buffer((40,), "float32"), o: T.Buffer((41,), "float32")'


def test_schedules_follow_decisions() -> None:
    func = read_function(PARAMS, "for i in range(40):\n    o[i] = x[i] + T.float32(1)")
    (wanted,) = (draw(func),)
    loomir.interpret(func, func.name, *wanted)
    seen: list[PrimFunc] = []
    for loops, kinds in (("scheduled", ["element-wise"]), ("as written", [])):
        decisions = Decisions({"loops": loops}, on_scheduled=seen.append)
        with decisions_from(OneSource(decisions)):
            made = schedule_function(func, Target("haswell"))
        assert [plan.kind for plan in made.plans] == kinds
        assert not decisions.ignored
        found = draw(func)
        loomir.interpret(made.func, func.name, *found)
        np.testing.assert_array_equal(found[1], wanted[1])
        assert seen.pop() is made.func
    assert made.func is func
