"""What a program stores where there is nothing to reduce is part of the reduction, or stays."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.autoschedule.driver import schedule_function
from loomir.target import Target
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_kinds, read_function


def sum_rows(condition: str, fill: str, rest: str) -> PrimFunc:
    return read_function(
        'a: T.handle, c: T.Buffer((6,), "float32"), d: T.Buffer((6,), "float32")',
        f"""
n = T.int64()
x = T.match_buffer(a, (6, n), "float32")
if {condition}:
    for i in range(6):
        {fill}
{rest}
""",
    )


SUM = """
for i, k in T.grid(6, n):
    with T.sblock("sum"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            c[vi] = T.float32(3)
        c[vi] = c[vi] + x[vi, vk]
"""
ADDED = "for i in range(6):\n    c[i] = c[i] + T.float32(1)"
FILL = "c[i] = T.float32(3)"


def check(func: PrimFunc, *, merged: bool) -> None:
    made = schedule_function(func, Target("haswell"))
    assert made.plans
    assert bool(made.unplanned) is not merged
    for n in (0, 1, 7):
        x = np.arange(6 * n, dtype="float32").reshape(6, n)
        interpret_kinds(func, [x, np.full(6, 9, "float32"), np.full(6, 8, "float32")])


def test_a_fill_where_nothing_is_reduced_is_merged() -> None:
    check(sum_rows("n <= 0", FILL, SUM), merged=True)


@pytest.mark.parametrize(
    ("condition", "fill", "rest"),
    [
        ("n < 1", FILL, SUM),
        ("n <= 3", FILL, SUM),
        ("n + n <= 0", FILL, SUM),
        ("n <= 0", "d[i] = T.float32(3)", SUM),
        ("n <= 0", "c[i] = T.float32(4)", SUM),
        ("n <= 0", FILL, ADDED),
    ],
)
def test_other_fills_stay(condition: str, fill: str, rest: str) -> None:
    check(sum_rows(condition, fill, rest), merged=False)
