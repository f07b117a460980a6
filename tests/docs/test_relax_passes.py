"""The page of passes on graphs lists every one, and marks those that compiling runs."""

from __future__ import annotations

import re

from loomir.ir.passes import PASSES
from loomir.transform.pipelines import LOWER_RELAX, OPTIMIZE_RELAX
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "relax-passes.md"


def test_every_pass_is_listed_once():
    rows = re.findall(r"^\| `(relax\.\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(name for name in PASSES if name.startswith("relax."))


def test_what_compiling_runs_is_marked_in_its_order():
    marked = re.findall(r"^\| `(relax\.\w+)` ●", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert marked == list(
        dict.fromkeys(step.name for step in (*LOWER_RELAX.steps, *OPTIMIZE_RELAX.steps))
    )
