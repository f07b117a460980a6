"""The page of schedules lists the primitives that there are."""

from __future__ import annotations

import pytest

from loomir.schedule import PRIMITIVES
from tests.docs.markdown import ROOT
from tests.docs.schedule_page import page

PAGE = ROOT / "docs" / "reference" / "schedule.md"


def _own(text: str) -> str:
    """Leave out what the program on the page prints, which another test writes."""
    before, _, rest = text.partition("```output\n")
    return before + rest.partition("```\n")[2]


def test_the_page_of_schedules_is_what_the_table_says(request: pytest.FixtureRequest):
    wanted = page()
    if request.config.getoption("--update-golden"):
        old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else wanted
        printed = old.partition("```output\n")[2].partition("```\n")[0]
        PAGE.write_text(wanted.replace("```output\n...\n", f"```output\n{printed}"), "utf-8")
    assert _own(PAGE.read_text(encoding="utf-8")) == _own(wanted), "--update-golden writes it anew"
    assert all(f"### {name}\n" in wanted for name in PRIMITIVES)
