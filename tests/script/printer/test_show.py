"""``show``: plain text, a terminal, a notebook."""

from __future__ import annotations

import html
import re
import sys
import types
from typing import Any

import pytest

from loomir.script import from_source
from loomir.script.printer import script, show
from loomir.support.diagnostics import CompileError
from loomir.support.highlight import to_html
from loomir.tir import convert

TEXT = """
@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), some_rather_long_name: T.int32, b: T.int32, c: T.int32):
        for i in range(8):
            if some_rather_long_name < b and b < c:
                A[i] = T.float32(1)
"""
MODULE = from_source(TEXT)
PROGRAMS: dict[str, Any] = {"module": MODULE, "function": MODULE["f"]}  # type: ignore[index]
COLOUR = re.compile(r"\x1b\[[\d;]*m")

program = pytest.mark.parametrize("name", PROGRAMS)


@program
def test_plain_text_where_no_terminal_is(name: str, capsys: pytest.CaptureFixture[str]):
    PROGRAMS[name].show()
    PROGRAMS[name].show(style="monokai")
    assert capsys.readouterr().out == PROGRAMS[name].script() * 2


def test_an_expression_is_shown_by_a_function(capsys: pytest.CaptureFixture[str]):
    show(convert(1))
    assert capsys.readouterr().out == script(convert(1)) + "\n"


def make_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the captured output a terminal; pytest replaces it before each test runs."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)


@program
@pytest.mark.parametrize("style", [None, "light", "dark", "ansi", "friendly"])
def test_colours_on_a_terminal_change_no_character(
    name: str,
    style: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    make_a_terminal(monkeypatch)
    PROGRAMS[name].show(style)
    out = capsys.readouterr().out
    assert COLOUR.search(out)
    assert COLOUR.sub("", out).rstrip() == PROGRAMS[name].script().rstrip()


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_may_refuse_colours(
    variable: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    make_a_terminal(monkeypatch)
    monkeypatch.setenv(variable, value)
    PROGRAMS["function"].show()
    assert capsys.readouterr().out == PROGRAMS["function"].script()


def text_of(page: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", page))


@program
def test_html_in_colour(name: str):
    page = to_html(PROGRAMS[name].script(), "light")
    assert page.startswith("<pre ")
    assert "color: #" in page
    assert "<script" not in page
    assert text_of(page).rstrip() == PROGRAMS[name].script().rstrip()


@program
def test_html_in_the_colours_of_the_page_around_it(name: str):
    page = to_html(PROGRAMS[name].script())
    assert text_of(page).rstrip() == PROGRAMS[name].script().rstrip()
    used = set(re.findall(r'<span class="([\w-]+)">', page))
    assert {"loomir-k", "loomir-s", "loomir-n"} <= used
    for each in used:  # mixed from the colour of the text, which is dark on light, light on dark
        assert re.search(rf"\.{each}\{{[^}}]*color-mix\(in srgb,currentColor", page)


def test_text_of_a_program_is_no_html():
    made: Any = from_source(
        "@T.prim_func\ndef f(x: T.int32):\n    assert x > 0, '<script>&alert(1)</script>'\n"
    )
    page = to_html(made.script())
    assert "<script" not in page
    assert "'<script>&alert(1)</script>'".strip("'") in text_of(page)


def test_a_notebook_displays_html(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shown: list[Any] = []
    shell = types.SimpleNamespace(kernel=object())
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    PROGRAMS["module"].show("dark")
    (one,) = shown
    assert repr(one) == PROGRAMS["module"].script()
    assert text_of(one._repr_html_()).rstrip() == PROGRAMS["module"].script().rstrip()
    assert one._repr_html_() == to_html(PROGRAMS["module"].script(), "dark")
    PROGRAMS["module"].show()
    assert shown[1]._repr_html_() == to_html(PROGRAMS["module"].script())
    shell.kernel = None  # IPython on a terminal
    PROGRAMS["module"].show()
    assert len(shown) == 2
    assert capsys.readouterr().out == PROGRAMS["module"].script()


def test_a_style_that_is_none_is_refused():
    with pytest.raises(CompileError) as caught:
        PROGRAMS["module"].show("monokay")
    assert caught.value.diagnostic.help == "did you mean 'monokai'?"
