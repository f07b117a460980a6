"""The suite itself: a test for each sentence and each decision, and the page that says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clause import specifications
from tests.conformance.names import (
    SUITE,
    SuiteTest,
    clause_of,
    decision_of,
    decisions,
    suite_tests,
)

ROOT = SUITE.parents[1]
PAGE = ROOT / "docs" / "reference" / "conformance.md"
TITLES = {
    "tir": "TIR",
    "tvmscript": "TVMScript",
    "relax": "Relax",
    "tensor_comprehensions": "Tensor Comprehensions",
}

DECISIONS = {
    "tir": [f"T{n}" for n in range(1, 55)],
    "tvmscript": [f"S{n}" for n in range(1, 16)],
    "relax": [*[f"R{n}" for n in range(1, 45)], *[f"X{n}" for n in range(1, 11)]],
}

# Sentences that wait for a feature, with the reason. The list only gets shorter.
WAITING: dict[str, str] = {}


def sentences_of(specification: str) -> list[str]:
    """List the sentences of a specification that a test can hold to."""
    kinds = specifications()[specification]
    return [clause for clause, kind in kinds.items() if kind != "N"]


def cited() -> set[str]:
    """Name the sentences that tests of the suite hold to."""
    return {clause for test in suite_tests() for clause in test.clauses}


@pytest.mark.parametrize("specification", TITLES)
def test_every_sentence_has_a_test_of_its_name(specification: str):
    named = {clause_of(test.name) for test in suite_tests()} | set(WAITING)
    if specification != "tvmscript":  # tests of the others may hold to several sentences
        named |= cited()
    assert [c for c in sentences_of(specification) if c not in named] == []


def test_what_waits_has_no_test_and_a_reason():
    known = {c for specification in TITLES for c in sentences_of(specification)}
    assert [c for c in WAITING if c in cited() or c not in known] == []
    assert all(WAITING.values())


@pytest.mark.parametrize("specification", DECISIONS)
def test_every_decision_has_its_tests(specification: str):
    settled = decisions(specification)
    assert list(settled) == DECISIONS[specification]
    counts = dict.fromkeys(settled, 0)
    for test in suite_tests():
        if test.decision in counts:
            counts[test.decision] += 1
    wanted = {number: 3 if kind == "A" else 1 for number, kind in settled.items()}
    assert {n for n, count in counts.items() if count < wanted[n]} == set()


@pytest.mark.parametrize("specification", DECISIONS)
@pytest.mark.parametrize("kind", ["example", "property", "negative"])
def test_decisions_that_change_results_have_three_kinds_of_tests(kind: str, specification: str):
    named = {t.decision for t in suite_tests() if f"_{kind}_" in t.name}
    assert {n for n, class_ in decisions(specification).items() if class_ == "A"} <= named


def test_tests_of_sentences_say_them_in_one_line():
    for test in suite_tests():
        if test.clauses or test.decision:
            where = f"{test.file.name}::{test.name}"
            assert test.doc, where
            assert "\n" not in test.doc, where
            assert test.doc.endswith("."), where


@pytest.mark.parametrize(
    ("name", "clause", "decision"),
    [
        ("test_TIR_EVAL_16f_div", "TIR-EVAL-16f", None),
        ("test_TIR_EVAL_16_order[Add]", "TIR-EVAL-16", None),
        ("test_TS_RT_01_x", "TS-RT-01", None),
        ("test_RX_DER_15f_warns", "RX-DER-15f", None),
        ("test_R1_example", None, "R1"),
        ("test_T11_example", None, "T11"),
        ("test_views_that_run", None, None),
        ("test_TIR_EVAL_16fx", None, None),
    ],
)
def test_names_of_tests_are_read(name: str, clause: str | None, decision: str | None):
    assert clause_of(name) == clause
    assert decision_of(name) == decision


# -- the page ------------------------------------------------------------------------------------
def summary() -> str:
    """Write the table of specifications, those that the suite has come to."""
    rows = ["| specification | sentences | tested |", "| --- | --- | --- |"]
    for name, title in TITLES.items():
        everything = set(sentences_of(name))
        if everything & cited():
            rows.append(f"| {title} | {len(everything)} | {len(everything & cited())} |")
    return "\n".join(rows)


def sections(specification: str) -> str:
    """Write the table of a specification's sections and the files that test them."""
    rows = ["| section | sentences | tested | tests in |", "| --- | --- | --- | --- |"]
    found: dict[str, list[str]] = {}
    for clause in sentences_of(specification):
        found.setdefault(clause.split("-")[1], []).append(clause)
    for section, clauses in found.items():
        links = linked([t for t in suite_tests() if set(t.clauses) & set(clauses)])
        rows.append(f"| {section} | {len(clauses)} | {len(set(clauses) & cited())} | {links} |")
    tests = [t for t in suite_tests() if t.decision in decisions(specification)]
    settled = {t.decision for t in tests}
    count = len(decisions(specification))
    rows.append(f"| decisions | {count} | {len(settled)} | {linked(tests)} |")
    return "\n".join(rows)


def linked(tests: Sequence[SuiteTest]) -> str:
    """Link the files of tests."""
    files = sorted({t.file.relative_to(ROOT).as_posix() for t in tests})
    return ", ".join(f"[{Path(f).stem}](../../{f})" for f in files)


def waiting() -> str:
    """Write the table of sentences that wait."""
    if not WAITING:
        return "None."
    rows = ["| sentence | why it waits |", "| --- | --- |"]
    return "\n".join([*rows, *[f"| {clause} | {why} |" for clause, why in sorted(WAITING.items())]])


def test_the_page_says_what_the_tests_hold(request: pytest.FixtureRequest):
    text = PAGE.read_text(encoding="utf-8")
    tables = {
        "summary": summary(),
        "sections tir": sections("tir"),
        "sections tvmscript": sections("tvmscript"),
        "sections relax": sections("relax"),
        "waiting": waiting(),
    }
    for name, table in tables.items():
        wanted = f"<!-- {name} -->\n\n{table}\n\n<!-- end -->"
        pattern = re.compile(rf"<!-- {name} -->.*?<!-- end -->", re.DOTALL)
        assert len(pattern.findall(text)) == 1
        text = pattern.sub(lambda _, wanted=wanted: wanted, text)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run pytest --update-golden"
