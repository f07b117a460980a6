"""Blocks whose updates are conditional become stages if the first term may be left out."""

from __future__ import annotations

import pytest

from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import draw, interpret_kinds, read_function


def reduce_block(init: str, update: str) -> PrimFunc:
    return read_function(
        'x: T.Buffer((6, 40), "float32"), b: T.Buffer((6,), "float32"), c: T.Buffer((6,), "float32")',
        f"""
for i, k in T.grid(6, 40):
    with T.sblock("reduced"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            c[vi] = {init}
        {update}
""",
    )


GUARDED = "if vk % 3 != 1:\n            c[vi] = "


@pytest.mark.parametrize(
    ("init", "update"),
    [
        ("T.float32(0)", "c[vi] + x[vi, vk]"),
        ("T.float32(1)", "c[vi] * T.min(x[vi, vk], T.float32(1))"),
        ('T.float32("-inf")', "T.max(c[vi], x[vi, vk])"),
        ('T.float32("inf")', "T.min(c[vi], x[vi, vk])"),
    ],
)
def test_terms_are_left_out_where_the_start_changes_nothing(init: str, update: str) -> None:
    func = reduce_block(init, GUARDED + update)
    assert interpret_kinds(func, draw(func)) == ["rows"]


@pytest.mark.parametrize(
    ("init", "update"),
    [
        ("b[vi]", GUARDED + "c[vi] + x[vi, vk]"),
        ("T.float32(2)", GUARDED + "c[vi] * T.min(x[vi, vk], T.float32(1))"),
        ("T.float32(7)", GUARDED + "T.max(c[vi], x[vi, vk])"),
        ("T.float32(-7)", GUARDED + "T.min(c[vi], x[vi, vk])"),
        ('T.cast(vk, "float32") + T.float32(2)', "c[vi] = c[vi] + x[vi, vk]"),
    ],
)
def test_blocks_that_stay_loops(init: str, update: str) -> None:
    func = reduce_block(init, update)
    assert interpret_kinds(func, draw(func)) == []
