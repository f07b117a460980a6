from __future__ import annotations

import json

import pytest

from loomir.support.diagnostics import CompileError, Diagnostic, InternalError, nearest, render
from loomir.support.span import Source, Span

SOURCE = Source("kernel.py", "first\n\tx = yy + z\nlast\n")


def test_a_diagnostic_shows_line_caret_notes_and_help():
    diagnostic = Diagnostic(
        "SCR0003",
        "yy is not defined",
        Span(SOURCE, 2, 6, 2, 8),
        "not defined here",
        notes=("names in scope: x, y",),
        help="did you mean 'y'?",
    )
    assert render(diagnostic) == (
        "error[SCR0003]: yy is not defined\n"
        " --> kernel.py:2:6\n"
        "  |\n"
        "2 | \tx = yy + z\n"
        "  | \t    ^^ not defined here\n"
        "  = note: names in scope: x, y\n"
        "  = help: did you mean 'y'?"
    )


def test_a_second_place_is_shown_below_the_first():
    first, second = Span(SOURCE, 1, 1, 1, 6), Span(SOURCE, 3, 1, 3, 5)
    text = render(Diagnostic("TIR0402", "bound twice", second, "again", ((first, "first"),)))
    assert text.index("3 | last") < text.index("1 | first")
    assert "----- first" in text


def test_a_place_outside_the_text_shows_only_its_name():
    text = render(Diagnostic("SCR0001", "cut off", Span(SOURCE, 9, 1, 9, 2), "here"))
    assert text == "error[SCR0001]: cut off\n --> kernel.py:9:1\n  = here"


def test_a_text_that_starts_later_in_its_file_keeps_the_files_numbers():
    source = Source("kernel.py", "a\nb", first_line=10)
    assert (source.line(11), source.line(9), source.line(12)) == ("b", None, None)


def test_an_error_tells_all_its_mistakes():
    error = CompileError(Diagnostic("A", "one"), Diagnostic("B", "two"))
    assert str(error) == "error[A]: one\n\nerror[B]: two"
    assert error.diagnostic.code == "A"


def test_an_internal_error_says_whose_fault_it_is():
    assert "bug in Loomir" in str(InternalError("oops"))


def test_the_nearest_name_is_close_or_none():
    assert nearest("seriel", ["serial", "parallel"]) == "serial"
    assert nearest("zzz", ["serial", "parallel"]) is None


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("np", ["n"], None),
        ("n", ["m", "nn"], None),
        ("vI", ["vi", "vj"], "vi"),
        ("a", ["B", "A"], "A"),
        ("idx", ["id", "idy"], "id"),
        ("n", ["n"], None),
    ],
)
def test_short_names_are_near_only_by_their_case(name: str, known: list[str], found: str | None):
    assert nearest(name, known) == found


def test_as_dict_has_what_machines_need():
    made = Diagnostic("A", "one", Span(SOURCE, 2, 6, 2, 8), help="do").as_dict()
    assert (made["file"], made["line"], made["column"], made["end_column"]) == (
        "kernel.py",
        2,
        6,
        8,
    )
    assert made["help"] == "do"


def test_as_dict_has_every_place():
    second = (Span(SOURCE, 1, 1, 1, 3), "first here")
    made = Diagnostic("A", "one", Span(SOURCE, 2, 6, 2, 8), secondary=(second,)).as_dict()
    assert made["secondary"] == [
        {
            "file": "kernel.py",
            "line": 1,
            "column": 1,
            "end_line": 1,
            "end_column": 3,
            "label": "first here",
        }
    ]
    assert json.loads(json.dumps(made)) == made
    assert "file" not in Diagnostic("A", "one").as_dict()


@pytest.mark.parametrize("before", [0, 50, 5_000])
def test_a_line_that_fills_screens_is_cut_around_the_place(before: int):
    line = "a" * before + "here" + "b" * 5_000
    span = Span(Source("long.py", line), 1, before + 1, 1, before + 5)
    shown = render(Diagnostic("SCR0003", "it is not defined", span)).splitlines()
    assert shown[1] == f" --> long.py:1:{before + 1}"
    assert max(map(len, shown)) < 600
    start = shown[4].index("^")
    assert shown[3][start : start + 4] == "here"
    assert shown[4].strip(" |") == "^^^^"
    assert shown[3].endswith("…")
