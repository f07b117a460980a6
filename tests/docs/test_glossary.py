"""The glossary names files that exist, and explains each term once."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT, prose

PAGE = ROOT / "docs" / "glossary.md"
PACKAGE = ROOT / "src" / "loomir"


def rows() -> list[list[str]]:
    """Read the cells of each term's row."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for _, line in prose(PAGE)
        if line.startswith("| ")
    ]
    return [row for row in cells if row[0] != "term" and not row[0].startswith("---")]


def test_each_term_names_files_that_exist():
    paths = [(row[0], path) for row in rows() for path in re.findall(r"`([^`]+)`", row[3])]
    assert {term for term, _ in paths} == {row[0] for row in rows()}
    assert [found for found in paths if not (PACKAGE / found[1]).is_file()] == []


def test_each_term_has_one_full_row():
    terms = [row[0] for row in rows()]
    assert len(terms) == len(set(terms)) >= 40
    assert [row for row in rows() if len(row) != 4 or not all(row)] == []
