"""Check that a program is refused, by the code of its first mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loomir.support.diagnostics import CompileError


@contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    """Expect a mistake with this code, with these words in its text and something to do."""
    with pytest.raises(CompileError) as caught:
        yield
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code
    assert diagnostic.help
    for word in words:
        assert word in str(caught.value)
