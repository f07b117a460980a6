"""The pages of operators list what there is."""

from __future__ import annotations

import pytest

from loomir.relax.operator.definition import op_names
from loomir.te import topi
from tests.docs import relax_operator_page
from tests.docs.markdown import ROOT
from tests.docs.operator_page import families, page

RELAX_PAGE = ROOT / "docs" / "reference" / "relax-operators.md"
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


def test_the_page_of_operators_of_graphs_is_what_their_definitions_say(
    request: pytest.FixtureRequest,
):
    wanted = relax_operator_page.page()
    if request.config.getoption("--update-golden"):
        RELAX_PAGE.write_text(wanted, encoding="utf-8")
    assert RELAX_PAGE.read_text(encoding="utf-8") == wanted, "pytest --update-golden writes it anew"
    assert "| `R.clip(x, min, max)` |" in wanted


def test_every_operator_of_graphs_is_on_its_page():
    listed = [op.name for _, operators in relax_operator_page.families() for op in operators]
    assert sorted(listed) == sorted(op_names())
