"""Contractions of every form: right as they are written, and as they are scheduled for any CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fuzz.choices import SeedChoices
from fuzz.default_schedule.small_machines import small
from fuzz.families.cases import Case
from fuzz.families.contractions.contractions import draw
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.tir.function import PrimFunc
from loomir.transform import ScheduleOptions, schedule
from loomir.transform.relax.kernels.legalize_ops import legalize_ops

TARGETS = ("x86-64", "haswell", "alderlake", "icelake-server", "znver4", "sapphirerapids")


def holds(case: Case, module: IRModule, arguments: tuple[Any, ...]) -> None:
    result = interpret(module, case.entry, *arguments)
    if not isinstance(case.module[case.entry], PrimFunc):
        arguments = (np.asarray(result),)
    for found, wanted in zip(arguments, case.expected, strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("seed", range(10))
def test_numpy_and_the_interpreter_agree_on_what_is_written(seed: int) -> None:
    case, again = draw(seed), draw(seed)
    assert case.module.script() == again.module.script()
    holds(case, case.module, case.arguments)


@pytest.mark.parametrize("seed", range(1_000, 1_011))
def test_schedules_for_small_caches_change_nothing(seed: int) -> None:
    case = draw(seed)
    graph = not isinstance(case.module[case.entry], PrimFunc)
    name = TARGETS[seed % len(TARGETS)]
    with small(SeedChoices(seed), name) as target:
        made = schedule(
            legalize_ops(case.module) if graph else case.module, ScheduleOptions(target)
        )
    holds(case, made, case.arguments)
