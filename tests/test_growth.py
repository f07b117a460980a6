"""The measurement of growth tells linear work from quadratic work."""

from __future__ import annotations

import pytest

from tests.growth import assert_grows


def test_linear_work_passes():
    assert_grows(9, lambda n: lambda: [k * k for k in range(n)], 20_000, 80_000)


def test_quadratic_work_does_not():
    def make(n: int):
        return lambda: [j for k in range(n) for j in range(k)]

    with pytest.raises(AssertionError, match="size 1200 takes"):
        assert_grows(9, make, 300, 1200)
