"""Tie tests to the sentences of the specifications.

A specification is cut into numbered sentences, listed in ``docs/reference/clauses-*.txt``. A test
that holds to some of them says so::

    @clauses("TIR-EVAL-05", "TIR-EVAL-05a")
    def test_select_evaluates_both_branches(): ...

At the end of a run, ``conftest.py`` prints how many sentences a passing test cited.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

LISTS = Path(__file__).parents[1] / "docs" / "reference"
KINDS = frozenset("SRDN")

Test = TypeVar("Test", bound=Callable[..., object])


def read_list(path: Path) -> dict[str, str]:
    """Read clause numbers and their kinds from a list.

    Errors: ValueError for a line of another form, or a number listed twice.
    """
    kinds: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            continue
        clause, _, kind = line.partition(" ")
        if kind not in KINDS or clause in kinds:
            raise ValueError(f"{path.name}:{number}: not a new clause and its kind: {line!r}")
        kinds[clause] = kind
    return kinds


@cache
def specifications() -> Mapping[str, Mapping[str, str]]:
    """Return each specification's name and its clauses with their kinds."""
    lists = sorted(LISTS.glob("clauses-*.txt"))
    return {p.stem.removeprefix("clauses-"): read_list(p) for p in lists}


def clauses(*ids: str) -> Callable[[Test], Test]:
    """Mark a test as holding to these clauses of the specifications.

    Errors: ValueError where no list has a clause of that number.
    """
    known = {clause for kinds in specifications().values() for clause in kinds}
    if not ids:
        raise ValueError("name at least one clause")
    for clause in ids:
        if clause not in known:
            close = difflib.get_close_matches(clause, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"no specification has a clause {clause}{hint}")

    def mark(test: Test) -> Test:
        return pytest.mark.clauses(*ids)(test)

    return mark


def coverage(cited: Iterable[str]) -> list[str]:
    """Say per specification how many testable clauses are among ``cited``, and which are not."""
    cited = frozenset(cited)
    lines: list[str] = []
    for name, kinds in specifications().items():
        testable = [clause for clause, kind in kinds.items() if kind != "N"]
        covered = [clause for clause in testable if clause in cited]
        lines.append(f"{name}: {len(covered)} / {len(testable)} clauses covered")
    return lines


def uncovered(cited: Iterable[str]) -> list[str]:
    """List the testable clauses that are not among ``cited``, in the order of the lists."""
    cited = frozenset(cited)
    return [
        clause
        for kinds in specifications().values()
        for clause, kind in kinds.items()
        if kind != "N" and clause not in cited
    ]
