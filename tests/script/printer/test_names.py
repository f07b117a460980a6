from __future__ import annotations

import keyword
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.script.printer.names import RESERVED, Names, identifier
from tests.clause import clauses


@clauses("TS-PRN-06")
@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("x", "x"),
        ("class", "class_"),
        ("None", "None_"),
        ("match", "match"),
        ("2d", "v2d"),
        ("a.b c", "a_b_c"),
        ("", "v"),
        ("_", "v"),
        ("größe", "größe"),
        ("ﬁ", "fi"),
        ("😀", "v"),
    ],
)
def test_hints_become_identifiers(hint: str, name: str):
    assert identifier(hint) == name


@given(st.text())
def test_any_hint_becomes_an_identifier_that_python_keeps(hint: str):
    name = identifier(hint)
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert unicodedata.normalize("NFKC", name) == name


@clauses("TS-PRN-06")
def test_names_alive_differ_and_return_when_released():
    names = Names()
    assert [names.take("i") for _ in range(3)] == ["i", "i_1", "i_2"]
    names.release("i_1")
    assert names.take("i") == "i_1"
    names.release("i")
    assert names.take("i") == "i"
    assert names.take("i_1") == "i_1_1"


def test_fresh_names_were_never_given():
    names = Names()
    names.release(names.take("i"))
    assert names.take("i", fresh=True) == "i_1"
    assert names.take("i") == "i"


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_names_of_the_language_are_not_given(name: str):
    assert Names().take(name) == f"{name}_1"


@given(st.lists(st.tuples(st.sampled_from(["i", "i_1", "i_1_1", "j"]), st.booleans())))
def test_no_two_live_names_are_equal(steps: list[tuple[str, bool]]):
    names, live = Names(), list[str]()
    for hint, release in steps:
        if release and live:
            names.release(live.pop(0))
        else:
            made = names.take(hint)
            assert made not in live
            live.append(made)


def test_many_names_take_linear_time():
    names = Names()
    made = [names.take("i") for _ in range(50_000)]
    assert len(set(made)) == 50_000
