"""Convolutions that are drawn for vectors of channels reach them, and are right there."""

from __future__ import annotations

import pytest

from fuzz.choices import SeedChoices
from fuzz.default_schedule.constants import constants_of, schedule_with
from fuzz.default_schedule.exact_comparison import differs
from fuzz.default_schedule.explained import explain_schedule
from fuzz.default_schedule.small_machines import small
from fuzz.families.directed_channels import draw
from loomir.tir.function import PrimFunc

ZEROS = "steps that see only zeros are left out"


def test_vectors_of_channels_are_reached_and_explained() -> None:
    told: list[str] = []
    for seed in range(200):
        case = draw(seed)
        func = case.module["main"]
        assert isinstance(func, PrimFunc)
        constants = constants_of(func, SeedChoices("all"), 1.0)
        with small(SeedChoices(f"sizes {seed}"), "sapphirerapids") as target:
            made = schedule_with(func, constants, target)
            choices = [choice for plan in made.plans for choice in plan.choices]
            if not any("vectors lie along output channels" in choice for choice in choices):
                continue
            if not told:
                explain_schedule(func, constants, target)
                assert differs(case, case.module.with_function("main", made.func)) == ""
        told += choices
        text = "\n".join(told)
        if all(f"{ZEROS}, of {what}" in text for what in ("lines", "their ends")):
            return
    pytest.fail("nothing is left out of lines, or of their ends")
