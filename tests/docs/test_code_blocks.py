"""Every program and command that the documentation shows does what it shows."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from loomir.frontend.onnx import registry
from loomir.frontend.torch import registry as torch_registry
from loomir.ir import op, passes
from loomir.relax.operator import definition
from loomir.script.builder.relax import table
from tests.docs.markdown import Block, blocks, name_of, pages
from tests.docs.running import PageError, Reader, commands, with_outputs

RUN = {"python", "console", "output"}
# Shown to be read: text that is not a program, and files of other tools.
READ = {"text", "toml", "diff", "json", "ebnf", "asm", "llvm", "lua", "lisp", "javascript"}
# The pages of errors are run by test_error_pages.py, which asks more of them.
WITH_CODE = [
    p for p in pages() if p.parent.name != "errors" and any(b.language in RUN for b in blocks(p))
]


def page_of(tmp_path: Path, language: str, text: str) -> Block:
    fence, *options = language.split()
    return Block(Path(__file__), fence, tuple(options), text, 1)


def forget_examples() -> None:
    """Forget the passes and operators that a page defined, which are named ``example.…``."""
    tables: list[MutableMapping[str, Any]] = [
        passes.PASSES,
        op._TABLE,
        definition._TABLE,
        table._OPERATORS,
    ]
    for known in tables:
        for name in [n for n in known if "example." in n]:
            del known[name]
    registry._rows.pop(("mine", "Scale"), None)  # the converter of the page of models
    torch_registry._rows.pop("aten.special_bessel_j0.default", None)


@pytest.fixture(autouse=True)
def own_tables() -> Iterator[None]:
    """Leave the tables of passes and operators as they were, for other tests."""
    yield
    forget_examples()


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_names_a_language(page: Path):
    odd = [f"{b}: {b.language!r}" for b in blocks(page) if b.language not in RUN | READ]
    assert not odd


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_blocks_do_what_the_page_shows(
    page: Path, pytestconfig: pytest.Config, tmp_path: Path
):
    """``pytest --update-golden`` writes the output blocks anew."""
    if pytestconfig.getoption("--update-golden"):
        (tmp_path / "before").mkdir()
        page.write_text(with_outputs(page, tmp_path / "before"), encoding="utf-8")
        forget_examples()
    reader = Reader(tmp_path)
    for block in blocks(page):
        reader.follow(block)


# -- the harness itself -------------------------------------------------------------------------
def test_blocks_share_names_and_outputs_are_compared(reader: Reader, tmp_path: Path):
    reader.follow(page_of(tmp_path, "python", "x = 41\n"))
    reader.follow(page_of(tmp_path, "python", "print(x + 1)\nprint('took 3 ms')\n"))
    reader.follow(page_of(tmp_path, "output", "42\ntook ... ms\n"))
    with pytest.raises(PageError, match="but it is\n42"):
        reader.follow(page_of(tmp_path, "output", "43\n...\n"))


def test_a_caret_in_another_column_is_another_output(reader: Reader, tmp_path: Path):
    reader.follow(page_of(tmp_path, "python", "print('   ^')\n"))
    with pytest.raises(PageError):
        reader.follow(page_of(tmp_path, "output", "  ^\n"))


def test_blocks_that_ask_not_to_be_run_are_refused(reader: Reader, tmp_path: Path):
    with pytest.raises(PageError, match="'no-run' is not an option"):
        reader.follow(page_of(tmp_path, "python no-run", "x = 1\n"))


def test_an_error_must_be_announced_and_must_come(reader: Reader, tmp_path: Path):
    program = "from loomir.support.dtype import DataType\nDataType('int7')\n"
    with pytest.raises(PageError, match=r"raised\nerror\[TIR0001\]"):
        reader.follow(page_of(tmp_path, "python", program))
    reader.follow(page_of(tmp_path, "python raises", program))
    reader.follow(page_of(tmp_path, "output", "error[TIR0001]: ...\n"))
    with pytest.raises(PageError, match="nothing was raised"):
        reader.follow(page_of(tmp_path, "python raises", "x = 1\n"))


def test_commands_are_run_and_compared(reader: Reader, tmp_path: Path):
    reader.follow(page_of(tmp_path, "console", "$ loomir --help\nUsage: ...\n"))
    with pytest.raises(PageError, match="the page shows"):
        reader.follow(page_of(tmp_path, "console", "$ loomir --help\nNothing\n"))
    with pytest.raises(PageError, match="ended with"):
        reader.follow(page_of(tmp_path, "console", "$ loomir --no-such-option\n"))
    reader.follow(page_of(tmp_path, "console fails", "$ loomir --no-such-option\n"))
    with pytest.raises(PageError, match="cannot check"):
        reader.follow(page_of(tmp_path, "console", "$ rm -r build\n"))


def test_console_blocks_start_with_a_command(tmp_path: Path):
    assert commands(page_of(tmp_path, "console", "$ a\nb\nc\n$ d\n")) == [
        ("a", "b\nc\n"),
        ("d", ""),
    ]
    with pytest.raises(PageError, match="starts with a command"):
        commands(page_of(tmp_path, "console", "a\n"))


def test_outputs_are_written_anew_where_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tests.docs.markdown.ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    page = tmp_path / "page.md"
    text = "```python\nprint('a\\nb')\n```\n\n```output\n{}```\n\nend\n"
    folder = tmp_path / "folder"
    for before, after in [("", "a\nb\n"), ("b\nc\nd\n", "a\nb\n"), ("a\n...\n", "a\n...\n")]:
        folder.mkdir()
        page.write_text(text.format(before))
        assert with_outputs(page, folder) == text.format(after)
        (folder / "examples").unlink()
        folder.rmdir()


def test_a_block_that_would_go_untested_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.docs.markdown.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("- item\n\n  ```python\n  x = 1\n  ```\n")
    with pytest.raises(ValueError, match=r"page.md:3: start the fence"):
        blocks(page)
    page.write_text("text\n```python\nx = 1\n")
    with pytest.raises(ValueError, match=r"page.md:2: the block is never closed"):
        blocks(page)
