"""A test of this suite is named by the sentence that it holds to."""

from __future__ import annotations

import pytest

from tests.clause import clauses
from tests.conformance.names import clause_of


def pytest_itemcollected(item: pytest.Item) -> None:
    """Cite the clause in the test's name."""
    cited = clause_of(item.name)
    if cited is not None:
        clauses(cited)  # refuses a number that no list has
        item.add_marker(pytest.mark.clauses(cited))
