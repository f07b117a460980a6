"""The generator of graphs, and the promise on what it makes."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from fuzz.choices import ByteChoices
from fuzz.relax.engines import CHECKS, ENGINES, disagreement, outcome_of
from fuzz.relax.generate import generate, program_of_seed
from fuzz.relax.ill_formed import DEFECTS
from fuzz.relax.ops import sampled
from fuzz.relax.program import RelaxProgram, values_differ, wrongly_described
from fuzz.relax.worker import check, plan_of
from fuzz.rxcampaign import GraphCampaign
from loomir.ir.module import IRModule
from loomir.relax import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

PROGRAMS = 120
SHARE = 10


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End the process, and say where it was, where a program does not end."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("first", range(0, PROGRAMS, SHARE))
def test_engines_agree_with_the_interpreter(first: int) -> None:
    for seed in range(first, first + SHARE):
        program = program_of_seed(seed)
        # Compiling is for all; the other ways have campaigns of their own and take longer.
        found = check(program, seed, plan_of(seed) if seed % 4 == 0 else ["quick"])
        assert not found, f"seed {seed}: {found}\n{program.module.script()}"


def test_a_program_is_a_function_of_its_seed() -> None:
    for seed in (3, 17):
        first, again = program_of_seed(seed), program_of_seed(seed)
        assert first.module.script() == again.module.script()
        assert [repr(x) for x in first.arguments] == [repr(x) for x in again.arguments]
    assert program_of_seed(1).module.script() != program_of_seed(2).module.script()


@pytest.mark.parametrize("data", [b"", b"\xff" * 500, bytes(range(256)) * 3])
def test_programs_of_bytes(data: bytes) -> None:
    assert loomir.verify(generate(ByteChoices(data)).module) == ()


def test_every_engine_has_its_turn() -> None:
    turns = Counter(name for seed in range(2_000) for name in plan_of(seed))
    assert {*turns} == {*ENGINES, *CHECKS}
    assert all(count >= 10 for count in turns.values())


def test_operators_and_constructs_are_covered() -> None:
    missing = {d.name.removeprefix("relax.") for d in sampled()}
    for seed in range(1_000):
        missing.difference_update(program_of_seed(seed).made)
        if not missing:
            break
    assert not missing


def test_all_rules_that_a_program_can_break_are_broken() -> None:
    assert {rule for rule, _ in DEFECTS.values()} == {*range(1, 25)} - {10, 12, 13}


ONE = np.ones((2, 3), "float32")


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        (ONE, ONE.astype("float64")),
        (ONE, ONE[:1]),
        (ONE, ONE * 2),
        (ONE, (ONE,)),
        ((ONE, ONE), (ONE,)),
        ((ONE,), (ONE + 1,)),
        (np.float32(1), np.float64(1)),
        (loomir.Shape((1, 2)), (1, 2)),
        (np.zeros(1, "float32"), -np.zeros(1, "float32")),
        (lambda x: x, 1),
        (lambda x: x, lambda x: x + 1),
    ],
)
def test_differences_are_seen(wanted: object, got: object) -> None:
    assert values_differ(wanted, got, (0.0, 0.0), (ONE,))
    assert not values_differ(wanted, wanted, (0.0, 0.0), (ONE,))


def test_a_write_to_an_argument_is_seen() -> None:
    program = RelaxProgram(IRModule({}), [ONE], (0.0, 0.0))

    def writes(entry: str, args: list[Any]) -> Any:
        args[0][0, 0] = 7
        return ONE

    wanted = outcome_of(lambda entry, args: ONE, program)
    assert "argument 0" in disagreement(program, wanted, outcome_of(writes, program))
    assert not disagreement(program, outcome_of(writes, program), wanted)


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (TensorStructInfo((2, 2), "float32"), ONE),
        (TensorStructInfo(None, "float32", ndim=1), ONE),
        (TensorStructInfo((2, 3), "int32"), ONE),
        (TensorStructInfo(), 1),
        (TupleStructInfo((TensorStructInfo(),)), ()),
        (TupleStructInfo((TensorStructInfo((2,)),)), (ONE,)),
        (ShapeStructInfo((2, 2)), loomir.Shape((2, 3))),
        (ShapeStructInfo(ndim=1), loomir.Shape((2, 3))),
        (PrimStructInfo("int32"), np.int64(1)),
    ],
)
def test_wrong_descriptions_are_seen(info: object, value: object) -> None:
    assert wrongly_described(info, value, {})  # type: ignore[arg-type]


def test_a_campaign_reports_and_keeps_failures(tmp_path: Path) -> None:
    campaign = GraphCampaign(range(2), ["described"], save=tmp_path)
    report = campaign.run()
    assert report.count == 2
    assert not report.failures
    kept = campaign.keep({"seed": 1, "found": {"quick": "wrong"}}, tmp_path).read_text()
    assert "seed 1 of rxgen" in kept
    assert "# quick: wrong" in kept
    assert "def main(" in kept
