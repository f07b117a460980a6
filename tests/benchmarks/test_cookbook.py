"""The table of the cookbook is made of what its page shows."""

from __future__ import annotations

import re

import numpy as np

from benchmarks import cookbook


def test_every_recipe_of_the_page_is_measured():
    found = cookbook.recipes()
    assert len(found) == 20
    assert {recipe.kernel.name for recipe in found} == set(cookbook.INPUTS)
    page = cookbook.PAGE.read_text(encoding="utf-8")
    table = re.findall(r"^\| ([^|]+) \| [\d x,]+ \| [\d.]+ ms \|", page, re.MULTILINE)
    assert table == [recipe.title for recipe in found]


def test_a_recipe_is_compared_before_it_is_measured(monkeypatch):
    recipe = cookbook.recipes()[0]
    monkeypatch.setitem(cookbook.INPUTS, "axpy", lambda: (2.0, np.ones(8, "f4"), np.ones(8, "f4")))
    ours, theirs = cookbook.measure(recipe, 0)
    assert ours > 0
    assert theirs > 0
