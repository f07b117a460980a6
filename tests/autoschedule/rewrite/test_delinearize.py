"""Axes that a stage divides are delinearized, so that arrays are contiguous along what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.autoschedule.rewrite.delinearize import delinearize
from loomir.te import topi
from tests.autoschedule.agreement import draw, interpret_kinds, read_function
from tests.autoschedule.equivalence import assert_same_results


def stage_of(formula: Any, shape: Any, source: Any = (6, 4, 10)) -> Stage | None:
    x = te.placeholder(source, name="x")
    func = te.create_prim_func([x, te.compute(shape, lambda *i: formula(x, *i))])
    (stage,) = lift_function(func).parts
    assert isinstance(stage, Stage)
    return delinearize(stage)


def sizes(stage: Stage | None) -> list[int | None]:
    assert stage is not None
    return [axis.size for axis in stage.axes]


def test_digits():
    assert sizes(stage_of(lambda x, i: x[i // 40, i // 10 % 4, i % 10], (240,))) == [6, 4, 10]
    assert sizes(stage_of(lambda x, i: x[i // 10 % 6, i // 60, i % 10], (240,))) == [4, 6, 10]
    two = stage_of(lambda x, i, j: x[(i * 20 + j) // 40, (i * 20 + j) // 10 % 4, j % 10], (12, 20))
    assert sizes(two) == [6, 2, 2, 10]
    assert two is not None
    assert [number(e) for e in two.buffer.shape] == [6, 2, 2, 10]
    kept = stage_of(lambda x, i, j, k: x[i, j // 2, k], (6, 8, 10))
    assert sizes(kept) == [6, 4, 2, 10]


def test_what_has_no_digits():
    assert stage_of(lambda x, i, j: x[i, j // 2, 0], (6, 7)) is None  # 7 is not a multiple of 2
    assert stage_of(lambda x, i, j: x[i, j % 4, 0], (6, 6)) is None
    assert stage_of(lambda x, i, j: x[i, (9 - j) // 3, 0], (6, 10)) is None  # backwards
    assert stage_of(lambda x, i, j: x[i, (j + 1) // 3, 0], (6, 9)) is None  # across the digits
    assert stage_of(lambda x, i, j, k: x[i, j, k], (6, 4, 10)) is None  # nothing is divided
    assert stage_of(lambda x, i, j: x[i, j * j // 9, 0], (6, 6)) is None
    n = te.size_var("n", "int64")
    assert stage_of(lambda x, i, j: x[i, j // 2, 0], (6, n), (6, n, 1)) is None


SHAPES = [
    ((2, 3, 28, 32), (2, 3, 7, 4, 2, 16), (0, 2, 4, 3, 5, 1), (2, 14, 192)),
    ((2, 3, 28, 32), (2, 3, 7, 4, 2, 16), (0, 2, 4, 1, 3, 5), (2, 14, 192)),
    ((2, 15, 96), (2, 15, 3, 32), (0, 2, 1, 3), (6, 15, 32)),
    ((2, 5, 7, 64), (2, 5, 7, 64), (0, 2, 1, 3), (2, 7, 320)), ((12, 10), (3, 4, 5, 2), (2, 0, 3, 1), (30, 4)),
    ((1, 8, 16), (2, 2, 2, 4, 4), (3, 0, 4, 1, 2), (8, 1, 16)), ((6, 35), (2, 3, 5, 7), (3, 2, 1, 0), (210,)),
]  # fmt: skip


@pytest.mark.parametrize(("source", "parts", "axes", "shape"), SHAPES)
def test_reshapes_around_transpositions(source: Any, parts: Any, axes: Any, shape: Any):
    x = te.placeholder(source, name="x")
    out = topi.add(topi.reshape(topi.transpose(topi.reshape(x, parts), axes), shape), 1.0)
    func = te.create_prim_func([x, out])
    assert_same_results(
        func, source, shape, targets=("haswell",) if len(axes) == 4 else ("native",)
    )


def test_results_between_other_stages():
    """The view is of memory that the function allocates, which a product reads."""
    x, w = (te.placeholder(s, "int32", name="x") for s in ((4, 6, 32), (32, 24)))
    heads = topi.transpose(topi.reshape(topi.matmul(x, w), (4, 6, 3, 8)), (0, 2, 1, 3))
    out = topi.matmul(heads, topi.transpose(heads, (0, 1, 3, 2)))
    assert_same_results(
        te.create_prim_func([x, w, out]), (4, 6, 32), (32, 24), (4, 3, 6, 6), dtype="int32"
    )


def test_what_is_subtracted_from_digits():
    two = stage_of(lambda x, i: x[(i + 40) // 40 - 1, i // 10 % 4, i % 10], (240,))
    assert sizes(two) == [6, 4, 10]
    assert stage_of(lambda x, i: x[i // 40 - 1, i // 10 % 4, i % 10], (240,)) is None


BITS = [f"i // {1 << k} % 2" for k in range(13)]
SOURCES = {
    "more digits than axes may be": (
        f'a: T.Buffer({(2,) * 13}, "int32"), b: T.Buffer((8192,), "int32")',
        f"for i in range(8192):\n    b[i] = a[{', '.join(BITS)}]",
    ),
    "a part of the result": (
        'a: T.Buffer((7, 40), "int32"), b: T.Buffer((282,), "int32")',
        "for i in range(280):\n    b[i + 2] = a[i // 40, i % 40]",
    ),
    "digits of a value": (
        'a: T.Buffer((60, 4), "int32"), b: T.Buffer((240,), "int32")',
        "for i in range(240):\n    b[i] = a[i // 4, i % 4] * T.cast(i // 8, 'int32')",
    ),
    "places before the digits": (
        'a: T.Buffer((70, 4), "int32"), b: T.Buffer((256,), "int32")',
        "for i in range(256):\n    b[i] = a[(i + 8) // 4 - 1, i % 4]",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_other_divisions(name: str):
    func = read_function(*SOURCES[name])
    assert interpret_kinds(func, draw(func)) == ["element-wise"]


SIZED = """
n, m = T.{dtype}(), T.{dtype}()
x = T.match_buffer(x_, (m, n), "int32")
a = T.match_buffer(a_, ({size} + T.int64(m),), "int32")
b = T.match_buffer(b_, ({size} * T.int64({times}),), "int32")
for i in range({size} * T.int64({times})):
    b[i] = a[{index}]
"""


@pytest.mark.parametrize(
    ("index", "dtype", "times"),
    [("i // n * n + i // n", "int64", 1), ('i % T.cast(n * m, "int64")', "int32", 3)],
)
def test_sizes_that_give_no_digits(index: str, dtype: str, times: int):
    size = "T.int64(m) * T.int64(n)"
    text = SIZED.format(index=index, dtype=dtype, times=times, size=size)
    func = read_function("x_: T.handle, a_: T.handle, b_: T.handle", text)
    arrays = [np.arange(k, dtype="int32") for k in (12, 15, 12 * times)]
    interpret_kinds(func, [arrays[0].reshape(3, 4), *arrays[1:]])
