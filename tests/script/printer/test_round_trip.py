"""What is printed is read back as the same program, and printed as the same text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loomir.check.tir.verify import verify
from loomir.ir import GlobalVar, IRModule, assert_structural_equal
from loomir.script import from_source, parse_file
from loomir.tir import PrimFunc
from loomir.transform.pipelines import LowerOptions, lower
from tests.clause import clauses
from tests.script.parser.programs import read
from tests.script.printer.random_program import Maker


def assert_round_trip(program: PrimFunc | IRModule) -> None:
    text = program.script()
    again = from_source(text)
    assert_structural_equal(program, again)
    assert again.script() == text


def assert_well_formed(program: PrimFunc | IRModule) -> None:
    """Verify a random program, except for indices (any numbers) and who may call it."""
    assert {found.code for found in verify(program)} <= {"TIR0421", "TIR0423", "TIR0424"}


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_random_functions_come_back(start: int):
    for seed in range(start, start + 50):
        program = Maker(seed).func()
        assert_well_formed(program)
        assert_round_trip(program)


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("start", range(0, 100, 50))
def test_random_modules_come_back(start: int):
    for seed in range(start, start + 50):
        program = Maker(seed).module()
        assert_well_formed(program)
        assert_round_trip(program)


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))


@clauses("TS-RT-01")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_stage_of_the_examples_comes_back(path: Path):
    seen: list[str] = []

    def stage(name: str, module: IRModule) -> None:
        seen.append(name)
        assert_round_trip(module)

    for program in parse_file(path.read_text(), name=str(path)).values():
        assert verify(program) == ()
        assert_round_trip(program)
        module = program
        if isinstance(program, PrimFunc):
            module = IRModule({GlobalVar(program.name): program})
        for checked in (False, True):
            lower(module, LowerOptions(checked=checked), on_stage=stage)
    assert len(seen) > 10


@pytest.mark.parametrize(
    "value", [10**4299, 10**4300, -(10**5000), 1 << 20_000], ids=["a", "b", "c", "d"]
)
def test_attributes_of_any_length_come_back(value: int):
    plain = read("@T.prim_func\ndef f(x: T.int32):\n    T.evaluate(x)\n")
    attrs = {"k": value, "deep": {"in": ((value, 1), -value)}}
    made = replace(plain, attrs=attrs)
    again = from_source(made.script())
    assert isinstance(again, PrimFunc)
    assert again.attrs == attrs
    assert_round_trip(made)
