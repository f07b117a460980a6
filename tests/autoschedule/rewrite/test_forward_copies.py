"""Sums go where they are copied to, unless something else is done with either array."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autoschedule.agreement import draw, interpret_kinds, read_function, scheduled

SUM = """
t = T.alloc_buffer((6,), "int32")
for i in range(6):
    t[i] = 0
    for k in range(40):
        t[i] += T.cast(x[i, k], "int32")
"""
COPY = "for i in range(6):\n    o[i] = t[i]"
ROWS = """
for i in range(9):
    o[i] = 0
    for k in range(10):
        o[i] += y[i, k]
"""


@pytest.mark.parametrize(
    ("rest", "stages"),
    [
        (COPY, 1),
        (ROWS + COPY, 3),
        ("for i in range(9):\n    o[i] = 7\n" + COPY, 3),
        ("for i in range(6):\n    o[i] = w[i, t[i]]", 2),
    ],
)
def test_what_becomes_of_a_copy(rest: str, stages: int) -> None:
    func = read_function(
        'x: T.Buffer((6, 40), "uint8"), y: T.Buffer((9, 10), "int32"), '
        'w: T.Buffer((6, 400), "int32"), o: T.Buffer((9,), "int32")',
        SUM + rest,
    )
    arrays = draw(func)
    arrays[0] = np.arange(240, dtype="uint8").reshape(6, 40) % 10
    interpret_kinds(func, arrays)
    made = scheduled(func, target="haswell")
    assert sum(len(plan.stages) for plan in made.plans) == stages
