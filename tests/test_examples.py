"""The text of every example, printed, is the same program again."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomir.cli.files.source import load_file, programs_of
from loomir.ir import assert_structural_equal
from loomir.script import from_source
from tests.clause import clauses

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted([*EXAMPLES.glob("*.py"), *(EXAMPLES / "relax").glob("*.py")])


@clauses("TS-RT-01", "TS-OV-03")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_printed_text_parses_back(path: Path):
    programs = programs_of(load_file(path))
    assert programs
    for program in programs.values():
        text = program.script()
        again = from_source(text)
        assert_structural_equal(program, again)
        assert again.script() == text
