"""Python looks for cycles less often while programs are made, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from loomir.ir.garbage import collect_seldom


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_thresholds_come_back():
    with collect_seldom():
        assert gc.get_threshold()[0] > 10_000
        with pytest.raises(ZeroDivisionError), collect_seldom():
            _ = 1 // 0
        assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold() == (700, 10, 10)


def test_callers_may_end_in_any_order():
    one, two = collect_seldom(), collect_seldom()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] > 10_000
    two.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_what_the_user_has_said_stays(first: int):
    gc.set_threshold(first, 10, 10)
    with collect_seldom():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first
    gc.set_threshold(700, 10, 10)
    with collect_seldom():
        gc.set_threshold(123, 10, 10)
    assert gc.get_threshold()[0] == 123
