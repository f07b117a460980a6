"""The language reference says what the tables in the source say, and marks where Loomir decides."""

from __future__ import annotations

import re

import pytest

import loomir.script.tir
from loomir.script import from_source
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.tir.refused_names import REFUSED
from loomir.script.builder.tir.table import AXIS, NAMES
from loomir.support.diagnostics import CompileError
from loomir.tir.builtins.accuracy import ACCURACY
from loomir.tir.builtins.table import BUILTINS
from tests.docs.builtin_page import page
from tests.docs.markdown import ROOT, headings

PAGE = ROOT / "docs" / "reference" / "tirscript.md"
TABLE = PAGE.with_name("builtins.md")


def section(title: str) -> str:
    """Return the text between a heading and the next one of its level."""
    assert title in headings(PAGE)
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_of_builtins_is_what_the_source_says(request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        TABLE.write_text(page(), encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == page()
    assert set(re.findall(r"^\| `T\.(\w+)\(", page(), re.MULTILINE)) == set(BUILTINS)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_names_that_are_missing_are_refused_with_what_to_use(name: str):
    assert name not in NAMES
    assert not hasattr(loomir.script.tir, name)
    text = f"from loomir.script import tir as T\n@T.prim_func\ndef f():\n    T.{name}()\n"
    with pytest.raises(CompileError) as caught:
        from_source(text)
    (found,) = caught.value.diagnostics
    assert found.code == "SCR0004"
    assert REFUSED[name].why in found.message
    assert found.help == REFUSED[name].instead
    assert found.span is not None


def test_the_bounds_of_errors_are_those_of_the_source():
    rows = [line for line in section("Accuracy").splitlines() if line.startswith("| `T.")]
    assert rows == [f"| `T.{n}` | {row.float32} | {row.float64} |" for n, row in ACCURACY.items()]


def test_every_name_of_the_language_is_in_the_reference():
    text = PAGE.read_text(encoding="utf-8") + TABLE.read_text(encoding="utf-8")
    # "Each dtype is a function in `T`" speaks of all of those.
    names = {n for n, value in NAMES.items() if not isinstance(value, DTypeFunction)}
    assert sorted(names - set(re.findall(r"\bT\.(\w+)", text))) == []
    axes = set(re.findall(r"\bT\.axis\.(\w+)", text))
    assert sorted(set(AXIS) - axes) == []


def test_every_mark_points_to_a_decision_and_every_decision_on_texts_is_there():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([TS]\d+) \| \S.* \|$", section("Decisions"), re.MULTILINE)
    marks = set(re.findall(r"«(\w+)»", text))
    assert marks - set(rows) == set()
    assert rows == [f"T{i}" for i in range(1, 55)] + [f"S{i}" for i in range(1, 16) if i != 6]
