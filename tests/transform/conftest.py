"""Facts are checked after every pass in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loomir.ir.passes import verifying


@pytest.fixture(autouse=True)
def _verify_facts() -> Iterator[None]:
    with verifying():
        yield
