"""The promise: engines agree on random programs, in bits and in kinds of errors."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Iterator

import pytest

from fuzz.tir.engines import ENGINES
from fuzz.tir.generate import program_of_seed
from fuzz.tir.worker import CHECKS, check, plan_of

PROGRAMS = 1_000
SHARE = 50


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End the process, and say where it was, where a program does not end."""
    faulthandler.dump_traceback_later(600, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("first", range(0, PROGRAMS, SHARE))
def test_engines_agree_with_the_interpreter(first: int) -> None:
    for seed in range(first, first + SHARE):
        program = program_of_seed(seed)
        engines = plan_of(seed)
        # Compiling comes first and is for all; what comes after it also has tests of its own.
        found = check(program, program.module, seed, engines if seed % 4 == 0 else engines[:1])
        assert not found, f"seed {seed}: {found}\n{program.module.script()}"


def test_every_engine_has_its_turn() -> None:
    turns = Counter(name for seed in range(PROGRAMS) for name in plan_of(seed))
    assert not {*ENGINES, *CHECKS} - {*turns} - {"lowered"}  # which each-pass contains
    assert all(count >= PROGRAMS // 500 for count in turns.values())
