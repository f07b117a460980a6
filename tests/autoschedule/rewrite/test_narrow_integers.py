"""What bytes are computed of takes 16 bits where that is enough, and no fewer."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.expr import Add, Mul
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import draw, interpret_kinds, read_function

WINDOW = """
from loomir.script import tir as T
@T.prim_func
def window(x: T.Buffer((35, 70), "{dtype}"), o: T.Buffer((33, 66), "{to}")):
    for i, j in T.grid(33, 66):
        acc = T.int32({start})
        for r, s in T.grid(3, 5):
            acc += T.cast(x[i + r, j + s], "int32"){times}
        o[i, j] = T.cast({end}, "{to}")
"""
GRAY = """
from loomir.script import tir as T
@T.prim_func
def gray(x: T.Buffer((33, 70, 3), "uint8"), o: T.Buffer((33, 70), "uint8")):
    for i, j in T.grid(33, 70):
        v = (T.cast(x[i, j, 0], "int32") * {r} + T.cast(x[i, j, 1], "int32") * 150
            + T.cast(x[i, j, 2], "int32") * 29)
        o[i, j] = T.cast(v >> 8, "uint8")
"""


def read(text: str, **parts: object) -> PrimFunc:
    func = from_source(text.format(**parts))
    assert isinstance(func, PrimFunc)
    return func


def dtypes_of(func: PrimFunc) -> set[str]:
    """List the dtypes that are multiplied or added in the scheduled loops, but for places."""
    body = schedule_function(func, Target("haswell")).func.body
    found = by_class(body)
    parts = [*found.get(Add, ()), *found.get(Mul, ())]
    return {str(e.dtype.element) for e in parts} - {"int64"}


def assert_same(func: PrimFunc, x: np.ndarray) -> None:
    last = list(func.buffer_map.values())[-1]
    shape = [int(getattr(extent, "value", 0)) for extent in last.shape]
    found, wanted = (np.zeros(shape, str(last.dtype)) for _ in range(2))
    loomir.compile(func)(x, found)
    loomir.compile(func, schedule=False, opt_level=0)(x, wanted)
    np.testing.assert_array_equal(found, wanted)


CASES = [
    ("uint8", "", 0, "acc // 15", "uint8", "uint16"),
    ("int8", "", 0, "acc // 15", "int8", "int16"),
    ("uint8", " * 17", 0, "acc >> 8", "uint8", "uint16"),  # at most 65,025
    ("uint8", " * 18", 0, "acc >> 8", "uint8", "int32"),  # at most 68,850
    ("uint8", "", 65535 - 15 * 255, "acc >> 8", "uint8", "uint16"),
    ("uint8", "", 65536 - 15 * 255, "acc >> 8", "uint8", "int32"),
    ("int8", " * 17", 0, "acc >> 4", "int16", "int16"),  # from -32,640 on
    ("int8", " * -18", 0, "acc >> 4", "int16", "int32"),
]


@pytest.mark.parametrize(("dtype", "times", "start", "end", "to", "wanted"), CASES)
def test_sums_have_16_bits_where_all_of_them_fit(
    dtype: str, times: str, start: int, end: str, to: str, wanted: str
):
    func = read(WINDOW, dtype=dtype, times=times, start=start, end=end, to=to)
    assert wanted in dtypes_of(func)
    assert wanted == "int32" or "int32" not in dtypes_of(func)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert_same(func, np.repeat([low, high], 35 * 35).astype(dtype).reshape(35, 70))


@pytest.mark.parametrize(("r", "wanted"), [(77, {"uint16"}), (78, {"uint16"}), (79, {"int32"})])
def test_formulas_have_16_bits_where_all_values_fit(r: int, wanted: set[str]):
    func = read(GRAY, r=r)
    assert wanted <= dtypes_of(func)
    assert_same(func, np.full((33, 70, 3), 255, "uint8"))


BLEND = """
from loomir.script import tir as T
@T.prim_func
def blend(x: T.Buffer((70, 3), "uint8"), o: T.Buffer((70,), "uint8")):
    for i in range(70):
        alpha = T.cast(x[i, 2], "int32")
        v = T.cast(x[i, 0], "int32") * alpha + T.cast(x[i, 1], "int32") * (255 - alpha)
        o[i] = T.cast(v {end}, "uint8")
"""


@pytest.mark.parametrize("end", ["// 255", ">> 8"])
def test_what_would_be_widened_at_once_stays_as_it_is(end: str):
    """The sum of both products needs 17 bits, as far as anybody sees."""
    func = read(BLEND, end=end)
    assert dtypes_of(func) == {"int32"}
    x = np.random.default_rng(4).integers(0, 256, (70, 3)).astype("uint8")
    x[:2] = [[255, 255, 255], [255, 255, 0]]
    assert_same(func, x)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("(a + b) // -2 + 255", {"int32"}),
        ("T.bitwise_and(a + b, 15)", {"uint16"}),
        ("T.shift_right(a + b, 3)", {"uint16"}),
    ],
)
def test_operations_on_narrow_sums(value: str, wanted: set[str]):
    func = read_function(
        'x: T.Buffer((70, 2), "uint8"), o: T.Buffer((70,), "uint8")',
        f"""
for i in range(70):
    a, b = T.cast(x[i, 0], "int32"), T.cast(x[i, 1], "int32")
    o[i] = T.cast({value}, "uint8")
""",
    )
    assert dtypes_of(func) == wanted
    x = np.random.default_rng(4).integers(0, 256, (70, 2)).astype("uint8")
    x[0], x[1] = 255, 0
    assert_same(func, x)


def test_sums_that_other_loops_read_keep_their_bits():
    func = read_function(
        'x: T.Buffer((20, 9), "uint8"), o: T.Buffer((21,), "int32")',
        """
t = T.alloc_buffer((20,), "int32")
for i in range(20):
    t[i] = 0
    for k in range(9):
        t[i] += T.cast(x[i, k], "int32")
for i in range(20):
    o[i + 1] = o[i] * o[i] + t[i]
""",
    )
    assert interpret_kinds(func, draw(func, x=np.full((20, 9), 255, "uint8"))) == ["rows"]


@pytest.mark.parametrize("choice", ["T.Select", "T.if_then_else"])
@pytest.mark.parametrize(("dtype", "wanted"), [("uint8", {"uint16"}), ("int8", {"int16"})])
def test_choices_of_bytes_are_narrow(choice: str, dtype: str, wanted: set[str]):
    """The sum of the eight neighbours of a cell, as in the game of life."""
    func = read(
        """
from loomir.script import tir as T
@T.prim_func
def life(x: T.Buffer((35, 70), "{dtype}"), o: T.Buffer((33, 66), "{dtype}")):
    for i, j in T.grid(33, 66):
        n = T.int32(0)
        for r, s in T.grid(3, 3):
            n += {choice}(r != 1 or s != 1, T.cast(x[i + r, j + s], "int32"), 0)
        o[i, j] = T.cast(n == 3 or x[i + 1, j + 1] == T.{dtype}(1) and n == 2, "{dtype}")
""",
        dtype=dtype,
        choice=choice,
    )
    assert wanted <= dtypes_of(func)
    info = np.iinfo(dtype)
    for most in (2, info.max):
        assert_same(func, np.random.default_rng(4).integers(info.min // 64, most, (35, 70), dtype))
