"""The language reference says what the tables in the source say, and marks where Loomir decides."""

from __future__ import annotations

import re

from loomir.ir.op import Effect
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.table import AXIS, NAMES
from loomir.tir.accuracy import ACCURACY
from loomir.tir.op import BUILTINS
from tests.docs.markdown import ROOT, headings

PAGE = ROOT / "docs" / "reference" / "tirscript.md"
# Used inside the compiler only; no program can write them.
INSIDE = {name for name, row in BUILTINS.items() if row.op.effect is Effect.SPECIAL_CALL_ARG}
INSIDE |= {"check", "checked_index"} | {name for name in BUILTINS if name.startswith("watch_")}


def section(title: str) -> str:
    """Give the text between a heading and the next one of its level."""
    assert title in headings(PAGE)
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def builtin_rows() -> list[str]:
    """Write the table of builtins as the page must have it."""
    return [f"| `T.{n}` | {row.summary} |" for n, row in BUILTINS.items() if n not in INSIDE]


def test_the_table_of_builtins_is_the_one_of_the_source():
    rows = [line for line in section("Builtins").splitlines() if line.startswith("| `T.")]
    assert rows == builtin_rows()


def test_the_bounds_of_errors_are_those_of_the_source():
    rows = [line for line in section("Accuracy").splitlines() if line.startswith("| `T.")]
    assert rows == [f"| `T.{n}` | {row.float32} | {row.float64} |" for n, row in ACCURACY.items()]


def test_every_name_of_the_language_is_in_the_reference():
    text = PAGE.read_text(encoding="utf-8")
    # "Each dtype is a function in `T`" speaks of all of those.
    names = {n for n, value in NAMES.items() if not isinstance(value, DTypeFunction)}
    assert sorted(names - set(re.findall(r"\bT\.(\w+)", text)) - INSIDE) == []
    axes = set(re.findall(r"\bT\.axis\.(\w+)", text))
    assert sorted(set(AXIS) - axes) == []


def test_every_mark_points_to_a_decision_and_every_decision_on_texts_is_there():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([TS]\d+) \| \S.* \|$", section("Decisions"), re.MULTILINE)
    marks = set(re.findall(r"«(\w+)»", text))
    assert marks - set(rows) == set()
    assert rows == [f"T{i}" for i in range(1, 55)] + [f"S{i}" for i in range(1, 16) if i != 6]
