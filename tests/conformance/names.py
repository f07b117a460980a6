"""What the names of this suite's tests say.

``test_TIR_EVAL_16f_…`` is about the sentence TIR-EVAL-16f, ``test_T11_…`` about decision T11.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SUITE = Path(__file__).parent
LISTS = Path(__file__).parents[2] / "docs" / "reference"
_CLAUSE = re.compile(r"test_([A-Z]+)_([A-Z]+)_(\d\d[a-z]?)(?![A-Za-z0-9])")
_DECISION = re.compile(r"test_([TSRX]\d+)(?![A-Za-z0-9])")


class SuiteTest(NamedTuple):
    """A test function of the suite, as its source shows it."""

    file: Path
    name: str
    doc: str
    clauses: tuple[str, ...]
    decision: str | None


def clause_of(name: str) -> str | None:
    """Return the clause in the name of a test."""
    found = _CLAUSE.match(name)
    return "-".join(found.groups()) if found else None


def decision_of(name: str) -> str | None:
    """Return the decision in the name of a test."""
    found = _DECISION.match(name)
    return found[1] if found else None


@cache
def suite_tests() -> tuple[SuiteTest, ...]:
    """List every test function under tests/conformance, without running it."""
    return tuple(t for path in sorted(SUITE.rglob("test_*.py")) for t in _tests_in(path))


def _tests_in(path: Path) -> Iterator[SuiteTest]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        cited = [c for c in (clause_of(node.name),) if c]
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "clauses":
                cited += [a.value for a in mark.args if isinstance(a, ast.Constant)]
        doc = ast.get_docstring(node) or ""
        yield SuiteTest(path, node.name, doc, tuple(cited), decision_of(node.name))


@cache
def decisions(specification: str) -> dict[str, str]:
    """Return the decisions on a specification and their classes."""
    path = LISTS / f"decisions-{specification}.txt"
    rows = path.read_text(encoding="utf-8").splitlines()
    return dict(row.split(" ", 1) for row in rows if not row.startswith("#"))
