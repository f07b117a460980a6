"""What each test of schedules begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.autoschedule.agreement import forget


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """Begin with no function that was scheduled before: tests change what rules choose."""
    yield
    forget()
