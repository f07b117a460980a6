"""Stages are inlined where their readers get the elements that they would have read."""

from __future__ import annotations

import pytest

from tests.autoschedule.agreement import draw, interpret_kinds, read_function

DOUBLED = """
t = T.alloc_buffer((40,), "float32")
for i in range(40):
    t[i] = x[i] * T.float32(2)
"""
READERS = {
    "another stage": ("for i in range(40):\n    o[i] = t[i] + T.float32(1)", 1),
    "the array that it reads": ("for i in range(40):\n    x[i] = t[39 - i]", 2),
    "vectors": (
        """
for i in range(10):
    v[i] = t[T.Ramp(i * 4, 1, 4)] + T.Broadcast(T.float32(1), 4)
""",
        2,
    ),
    "a sum that divides": (
        """
for i in range(40):
    o[i] = T.float32(0)
    for k in range(5):
        if (i + k) % 2 == 0:
            o[i] += t[(i + k) // 2] * x[k]
""",
        2,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_readers(name: str) -> None:
    reader, stages = READERS[name]
    func = read_function(
        'x: T.Buffer((40,), "float32"), o: T.Buffer((40,), "float32"), v: T.Buffer((10,), "float32x4")',
        DOUBLED + reader,
    )
    assert interpret_kinds(func, draw(func)) == ["element-wise"] * stages


def test_a_reader_before_the_stage_reads_what_was_there() -> None:
    func = read_function(
        ", ".join(f'{name}: T.Buffer((40,), "float32")' for name in "xop"),
        f"""
t = T.alloc_buffer((40,), "float32")
for i in range(40):
    p[i] = T.if_then_else(x[i] > T.float32(100), t[i], x[i])
{DOUBLED.split(chr(10), 2)[2]}
for i in range(40):
    o[i] = t[i] + T.float32(1)
""",
    )
    assert interpret_kinds(func, draw(func)) == ["element-wise"] * 3
