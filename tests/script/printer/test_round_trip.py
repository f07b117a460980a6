"""What is printed is read back as the same program, and printed as the same text."""

from __future__ import annotations

import pytest

from loomir.ir import IRModule, assert_structural_equal
from loomir.script import from_source
from loomir.tir import PrimFunc
from loomir.tir.verify import verify
from tests.clause import clauses
from tests.script.printer.random_program import Maker


def assert_round_trip(program: PrimFunc | IRModule) -> None:
    text = program.script()
    again = from_source(text)
    assert_structural_equal(program, again)
    assert again.script() == text


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_random_functions_come_back(start: int):
    for seed in range(start, start + 50):
        program = Maker(seed).func()
        assert verify(program) == ()
        assert_round_trip(program)


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("start", range(0, 100, 50))
def test_random_modules_come_back(start: int):
    for seed in range(start, start + 50):
        program = Maker(seed).module()
        assert verify(program) == ()
        assert_round_trip(program)
