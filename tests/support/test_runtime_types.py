"""How values of users are shown: short, whole, and whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir.support.runtime_types import quote_name, show_value


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def circle() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -3, 2.5, float("nan"), "x", b"x", [], [1, "a"], (), (1,), (1, [2.0]), {1: {}}],
    ids=repr,
)
def test_small_plain_data_is_shown_as_python_writes_it(value: Any) -> None:
    assert show_value(value) == quote_name(value) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**5000, "an integer of 16610 bits"),
        ("x" * 50, "a str"),
        (nested(100_000), "a list"),
        (circle(), "a list"),
        ([[0] * 1000] * 1000, "a list"),
        ([10**5000], "a list"),
        (("long" * 5, "long" * 5), "a tuple"),
        (object(), "an object"),
        (np.zeros((3, 4)), "an array of shape (3, 4)"),
    ],
    ids=lambda v: v if isinstance(v, str) and len(v) < 40 else "",
)
def test_other_values_are_named_by_what_they_are(value: Any, text: str) -> None:
    assert show_value(value) == text


def test_a_name_is_shown_whole_and_what_is_no_name_by_its_class() -> None:
    assert quote_name("x" * 50) == repr("x" * 50)
    assert quote_name(10**5000) == "<int>"
    assert quote_name(nested(100_000)) == "<list>"
