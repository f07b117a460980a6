"""The reference of Relax's language names what the language has, and marks where Loomir decides."""

from __future__ import annotations

import re

from loomir.script.builder.relax.table import BUILDER_NAMES, NAMES
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "relaxscript.md"


def test_every_name_of_the_language_is_in_the_reference():
    named = set(re.findall(r"\b[RI]\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert sorted({*NAMES, *BUILDER_NAMES} - named) == []


def test_every_mark_is_a_row_of_the_decisions_and_every_row_has_a_mark():
    page = PAGE.read_text(encoding="utf-8")
    text, _, decisions = page.partition("## Decisions")
    marks = set(re.findall(r"«([RSTX]\d+)»", text))
    assert marks == set(re.findall(r"^\| «([RSTX]\d+)» \| \S", decisions, re.MULTILINE))
