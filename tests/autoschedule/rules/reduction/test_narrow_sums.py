"""Counts and sums of bytes are added up in few bits, as long as these hold the sums."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.script import from_source
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function

SOURCE = """
@T.prim_func
def total(x: T.Buffer(({rows}, {size}), "{of}"), o: T.Buffer(({rows},), "{into}")):
    for i in range({rows}):
        o[i] = T.cast(7, "{into}")
        for j in range({size}):
            o[i] += {term}
"""

TERMS = {
    "count": 'T.Select(x[i, j] > T.cast(100, "{of}"), T.cast(1, "{into}"), T.cast(0, "{into}"))',
    "weights": 'T.Select(x[i, j] > T.cast(100, "{of}"), T.cast(3, "{into}"), T.cast(9, "{into}"))',
    "truth": 'T.cast(x[i, j] != T.cast(100, "{of}"), "{into}")',
    "sum": 'T.cast(x[i, j], "{into}")',
    "square": 'T.cast(x[i, j], "{into}") * T.cast(x[i, j], "{into}")',
}


def total(
    term: str, rows: int, size: int | str, of: str = "uint8", into: str = "int32"
) -> PrimFunc:
    text = SOURCE.format(rows=rows, size=size, of=of, into=into, term=TERMS[term])
    func = from_source(text.replace("{of}", of).replace("{into}", into))
    assert isinstance(func, PrimFunc)
    return func


def is_narrow(func: PrimFunc, target: str = "haswell") -> bool:
    return "few = T.alloc_buffer" in schedule_function(func, loomir.Target(target)).func.script()


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(
    ("of", "into"), [("uint8", "int32"), ("int8", "int32"), ("uint8", "int64")]
)
def test_sums_are_those_of_the_loops_as_written(term: str, of: str, into: str):
    random = np.random.default_rng(0)
    info = np.iinfo(of)
    for size in (64, 200):
        x = random.integers(info.min, info.max + 1, (3, size)).astype(of)
        x[1], x[2] = info.max, info.min
        func = total(term, 3, size, of, into)
        agrees(func, [x, np.zeros(3, into)], targets=("native", "haswell"), always=False, rtol=0)


@pytest.mark.parametrize("term", ["count", "sum"])
@pytest.mark.parametrize("target", ["native", "x86-64-v2"])
def test_no_sum_overflows_its_few_bits(term: str, target: str):
    """Rows of more vectors than fit: the greatest terms everywhere."""
    for size in (64 * 255, 64 * 256, 64 * 600 + 5):
        x = np.full((2, size), 255, "uint8")
        for into in ("int32", "uint32", "int64"):
            func, out = total(term, 2, size, "uint8", into), np.zeros(2, into)
            assert is_narrow(func)
            loomir.compile(func, target, cache=False)(x, out)
            assert out.tolist() == [7 + (size if term == "count" else 255 * size)] * 2


def test_what_needs_more_bits_is_added_up_in_those():
    assert is_narrow(total("weights", 4, 640))
    assert not is_narrow(total("square", 4, 640))
    assert not is_narrow(total("count", 4, 640, "int16"))
    assert not is_narrow(total("count", 4, 640, "float32"))


@pytest.mark.parametrize("choice", ["2, -1", "300, 0", "i, 0"])
def test_choices_that_a_byte_does_not_hold(choice: str):
    func = read_function(
        'x: T.Buffer((200,), "uint8"), o: T.Buffer((1,), "int32")',
        f"for i in range(200):\n    o[0] += T.Select(x[i] > T.uint8(3), {choice})",
    )
    assert interpret_kinds(func, draw(func)) == ["rows"]
