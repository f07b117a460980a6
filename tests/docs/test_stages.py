"""The page on compiling lists the stages and the steps that there are, with what each does."""

from __future__ import annotations

import re

from loomir.autoschedule.rule_table import rules_of
from loomir.autoschedule.steps import STEPS
from loomir.driver.stages import STAGES
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "how-a-compile-works.md"


def rows_of(heading: str) -> list[list[str]]:
    """Read the table with a heading, row by row."""
    table = PAGE.read_text(encoding="utf-8").partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return [re.split(r" \| ", line.strip("| ")) for line in table.splitlines()[2:]]


def test_every_stage_is_listed_in_its_order():
    first, *rows, last = rows_of("stage")
    assert (first[0], last[0]) == ("parse", "call")
    assert [row[:2] for row in rows] == [[stage.name, stage.does] for stage in STAGES]


def test_the_files_of_stages_exist():
    paths = [path for row in rows_of("stage") for path in re.findall(r"`([\w/]+[/.]\w*)`", row[-1])]
    assert len(paths) >= len(STAGES)
    assert [path for path in paths if not (ROOT / "src" / "loomir" / path).exists()] == []


def test_every_step_of_the_default_schedule_is_listed_in_its_order():
    assert rows_of("step") == [[step.name, step.does] for step in STEPS]


def test_every_rule_is_listed_in_its_order():
    rules = rules_of(frozenset())
    assert rows_of("rule") == [[rule.name, rule.takes, rule.reason] for rule in rules]
