"""Functions of many stages are scheduled in linear time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.target import Target
from loomir.tir.expr import Var
from tests.growth import assert_grows


def exponentials(y: Any) -> Any:
    """Return a stage that moves into its reader."""
    return te.compute((8, 8), lambda i, j: te.exp(y[i, j]) + 1.0)


def shares(y: Any) -> Any:
    """Return two stages that stay: sums of rows, and what divides by them."""
    r: Var = te.reduce_axis((0, 8))
    total = te.compute((8,), lambda i: te.sum(y[i, r], axis=r))
    return te.compute((8, 8), lambda i, j: y[i, j] / total[i])


@pytest.mark.parametrize("stage", [exponentials, shares])
def test_time_grows_with_the_stages_and_not_faster(stage: Any):
    def schedule(count: int) -> Callable[[], object]:
        first = te.placeholder((8, 8), "float32")
        last = first
        for _ in range(count):
            last = stage(last)
        func = te.create_prim_func([first, last])
        return lambda: schedule_function(func, Target("native"))

    # Four times the stages: 4 if linear, 16 if quadratic.
    assert_grows(9, schedule, 100, 400)
