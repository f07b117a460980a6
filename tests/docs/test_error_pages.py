"""Each error code has a page, whose program provokes that error and shows it as users see it.

A page is ``docs/errors/<CODE>.md``: a title ``<CODE>: <what is wrong>``, what it means, the
smallest program, its output, and what to do. ``docs/errors/index.md`` lists all of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from loomir.frontend.onnx import registry
from loomir.frontend.onnx.converters import load_converters as load_onnx_converters
from loomir.frontend.torch import registry as torch_registry
from loomir.frontend.torch.converters import load_converters as load_torch_converters
from loomir.support.diagnostics import CompileError, RunError
from tests.docs.markdown import ROOT, blocks, headings, links
from tests.docs.running import Reader, with_outputs

CODE = re.compile(r"[A-Z]{2,3}\d{4}")
ERRORS = ROOT / "docs" / "errors"
PAGES = sorted(p for p in ERRORS.glob("*.md") if p.stem != "index")
SECTIONS = ["What it means", "Example", "What to do"]


def codes_in(text: str) -> set[str]:
    """Return the error codes among the string constants of a source text."""
    return {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    }


@cache
def codes_of_source() -> frozenset[str]:
    """Return every error code that the package can report."""
    files = (ROOT / "src").rglob("*.py")
    return frozenset(c for f in files for c in codes_in(f.read_text(encoding="utf-8")))


def test_codes_are_read_from_constants_only():
    assert codes_in('"""Errors: TIR0001."""\nX = ("TIR0002", "TIR0003 is")\n') == {"TIR0002"}


def test_every_code_has_a_page():
    assert codes_of_source() - {p.stem for p in PAGES} == set()


def test_every_page_has_a_code():
    assert {p.stem for p in PAGES} - codes_of_source() == set()


def test_the_index_lists_every_page():
    listed = [target for _, target in links(ERRORS / "index.md") if CODE.match(target)]
    assert listed == [p.name for p in PAGES]


@pytest.fixture
def own_converters() -> Iterator[None]:
    """Leave the table of converters as it was, for other tests."""
    load_onnx_converters()  # importing them puts them there, once
    load_torch_converters()
    before = {key: list(rows) for key, rows in registry._rows.items()}
    torch_before = dict(torch_registry._rows)
    yield
    registry._rows.clear()
    registry._rows.update(before)
    torch_registry._rows.clear()
    torch_registry._rows.update(torch_before)


@pytest.mark.usefixtures("own_converters")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page_provokes_its_error(page: Path, tmp_path: Path, pytestconfig: pytest.Config):
    """``pytest --update-golden`` writes the output blocks anew."""
    if pytestconfig.getoption("--update-golden"):
        before = {key: list(rows) for key, rows in registry._rows.items()}
        torch_before = dict(torch_registry._rows)
        (tmp_path / "before").mkdir()
        page.write_text(with_outputs(page, tmp_path / "before"), encoding="utf-8")
        registry._rows.clear()
        registry._rows.update(before)
        torch_registry._rows.clear()
        torch_registry._rows.update(torch_before)
    title, *sections = headings(page)
    assert title.startswith(f"{page.stem}: ")
    assert sections == SECTIONS
    reader = Reader(tmp_path)
    reported: set[str] = set()
    shown = False
    for block in blocks(page):
        reader.follow(block)
        if isinstance(reader.error, (CompileError, RunError)):
            reported |= {d.code for d in reader.error.diagnostics}
        if block.language == "output" and f"[{page.stem}]" in reader.printed:
            shown = True
            if f"warning[{page.stem}]" in reader.printed:  # a warning stops nothing
                reported.add(page.stem)
        if block.language == "console" and f"[{page.stem}]" in block.text:
            reported.add(page.stem)
            shown = True
    assert page.stem in reported
    assert shown, "show the error in an output block below the program"
