"""The page of operators lists what there is."""

from __future__ import annotations

import pytest

from loomir.te import topi
from tests.docs.markdown import ROOT
from tests.docs.operator_page import families, page

PAGE = ROOT / "docs" / "reference" / "topi.md"


def test_the_page_of_operators_is_what_the_source_says(request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "pytest --update-golden writes it anew"


def test_every_operator_is_on_the_page():
    named = {n for family in families() for n in family.__all__}
    assert len(named) == sum(len(family.__all__) for family in families())
    operators = {
        n
        for n, v in vars(topi).items()
        if callable(v) and not n.startswith("_") and v.__module__.startswith(topi.__name__)
    }
    assert operators == named
    assert {"exp", "add", "sum", "conv", "topk"} <= named
