"""The tie between tests and specifications refuses what it cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clause import clauses, coverage, read_list, specifications, uncovered


def test_lists_have_every_clause_of_the_specifications():
    sizes = {name: len(kinds) for name, kinds in specifications().items()}
    assert sizes["tir"] == 327
    assert sizes["tvmscript"] == 116


def test_unknown_clause_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"no specification has a clause TIR-EVAL-5; did you mean"):
        clauses("TIR-EVAL-5")


def test_a_test_must_name_a_clause():
    with pytest.raises(ValueError, match="at least one"):
        clauses()


def test_mark_keeps_the_function_and_its_clauses():
    def check() -> None: ...

    marked = clauses("TIR-EVAL-05", "TS-RT-01")(check)
    assert marked is check
    (mark,) = (m for m in check.pytestmark if m.name == "clauses")
    assert mark.args == ("TIR-EVAL-05", "TS-RT-01")


def test_coverage_counts_testable_clauses_only():
    everything = [clause for kinds in specifications().values() for clause in kinds]
    assert "TS-MAP-01" in everything
    (line,) = (row for row in coverage(everything) if row.startswith("tvmscript"))
    assert line == "tvmscript: 115 / 115 clauses covered"
    assert uncovered(everything) == []
    assert "TIR-EVAL-05" in uncovered([])


@pytest.mark.parametrize("line", ["TIR-EVAL-05", "TIR-EVAL-05 X", "TIR-EVAL-04 S"])
def test_malformed_list_is_refused(tmp_path: Path, line: str):
    path = tmp_path / "clauses-x.txt"
    path.write_text(f"# head\nTIR-EVAL-04 S\n{line}\n")
    with pytest.raises(ValueError, match=r"clauses-x.txt:3"):
        read_list(path)
