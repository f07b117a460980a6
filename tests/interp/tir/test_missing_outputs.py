# ruff: noqa: E741, F821  (programs of TVMScript, whose names are its own)
"""Outputs that a call leaves out are allocated, by native code and by the interpreter alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.support.diagnostics import RunError

Call = Callable[..., Any]


@T.prim_func
def sum_and_difference(
    a: T.Buffer(("n", "m"), "float32"),
    b: T.Buffer(("n", "m"), "float32"),
    s: T.Buffer(("n", "m"), "float32"),
    d: T.Buffer(("n", "m"), "float32"),
):
    for i, j in T.grid(n, m):
        s[i, j] = a[i, j] + b[i, j]
        d[i, j] = a[i, j] - b[i, j]


@T.prim_func
def matmul(
    a: T.Buffer(("n", "k"), "float32"),
    b: T.Buffer(("k", "m"), "float32"),
    c: T.Buffer(("n", "m"), "float32"),
):
    for i, j in T.grid(n, m):
        c[i, j] = T.float32(0)
        for l in range(k):
            c[i, j] = c[i, j] + a[i, l] * b[l, j]


@T.prim_func
def filled_first(a: T.Buffer(("n", 3), "int32"), o: T.Buffer(("n",), "int32")):
    for i in range(n):
        o[i] = 0
    for i, j in T.grid(n, 3):
        o[i] = o[i] + a[i, j]


@T.prim_func
def accumulate(a: T.Buffer(("n",), "int32"), o: T.Buffer(("n",), "int32")):
    for i in range(n):
        o[i] = o[i] + a[i]


@T.prim_func
def filled_partly(a: T.Buffer(("n",), "int32"), o: T.Buffer(("n",), "int32")):
    for i in range(n - 1):
        o[i] = 0
    for i in range(n):
        o[i] = o[i] + a[i]


@T.prim_func
def filled_under_a_condition(a: T.Buffer(("n",), "int32"), o: T.Buffer(("n",), "int32")):
    for i in range(n):
        if a[i] > 0:
            o[i] = 0
        o[i] = o[i] + a[i]


@T.prim_func
def filled_until(a: T.Buffer(("n",), "int32"), o: T.Buffer(("n",), "int32")):
    for i in range(n):
        if a[i] > 0:
            break
        o[i] = 0
    for i in range(n):
        o[i] = o[i] + a[i]


@T.prim_func
def repeat(a: T.Buffer(("n",), "int32"), o: T.Buffer(("m",), "int32")):
    for i in range(m):
        o[i] = a[i % n]


@T.prim_func
def upsample(a: T.Buffer(("n",), "int32"), factor: T.int64, o: T.Buffer(("n * factor",), "int32")):
    for i in range(n * factor):
        o[i] = a[i // factor]


@T.prim_func
def negate(a: T.Buffer(("n",), "bfloat16"), o: T.Buffer(("n",), "bfloat16")):
    for i in range(n):
        o[i] = -a[i]


@pytest.fixture(params=["native", "interpreter"])
def run(request: pytest.FixtureRequest) -> Call:
    if request.param == "native":
        return lambda program, *args, **kwargs: loomir.compile(program)(*args, **kwargs)
    return loomir.interpret


def test_outputs_come_back_as_one_array_or_a_tuple(run: Call):
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.ones((2, 3), "f4")
    s, d = run(sum_and_difference, a, b)
    np.testing.assert_array_equal(s, a + b)
    np.testing.assert_array_equal(d, a - b)
    given = np.zeros((2, 3), "f4")
    np.testing.assert_array_equal(run(sum_and_difference, a, b, given), a - b)
    np.testing.assert_array_equal(given, a + b)
    s, d = run(sum_and_difference, b=b, a=a)
    np.testing.assert_array_equal(d, a - b)


def test_an_output_that_the_function_fills_first_is_no_input(run: Call):
    a = np.arange(6, dtype="f4").reshape(2, 3)
    np.testing.assert_array_equal(run(matmul, a, a.T.copy()), a @ a.T)
    a = np.arange(6, dtype="i4").reshape(2, 3)
    np.testing.assert_array_equal(run(filled_first, a), a.sum(axis=1))


def test_tensor_expressions_of_reductions_allocate(run: Call):
    x, k = te.placeholder((4, 5), name="x"), te.reduce_axis((0, 5), name="k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="total")
    values = np.arange(20, dtype="f4").reshape(4, 5)
    found = run(te.create_prim_func([x, total], name="rows"), values)
    np.testing.assert_array_equal(found, values.sum(axis=1))


def test_extents_may_be_expressions_of_numbers_and_extents(run: Call):
    a = np.arange(3, dtype="i4")
    np.testing.assert_array_equal(run(upsample, a, 2), np.repeat(a, 2))


@pytest.mark.parametrize(
    "program",
    [accumulate, filled_partly, filled_under_a_condition, filled_until],
    ids=lambda program: program.name,
)
def test_what_may_be_read_before_it_is_written_must_be_passed(run: Call, program: Any):
    with pytest.raises(TypeError) as caught:
        run(program, np.ones(4, "i4"))
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0101"


@pytest.mark.parametrize(
    ("program", "args", "kwargs", "reason"),
    [
        (accumulate, 1, (), "o can be left out only where the function surely does not read"),
        (repeat, 1, (), "no other argument says what m is: pass o"),
        (matmul, 1, (), "b can be left out only where"),
        (repeat, 0, ("o",), "only the last parameters can be left out"),
        (upsample, 1, (), "factor can be left out only where"),
    ],
)
def test_the_remedy_says_what_is_ambiguous(
    program: Any, args: int, kwargs: tuple[str, ...], reason: str
):
    a = np.ones(
        (4,) if program is not matmul else (4, 4), str(program.buffer_map[program.params[0]].dtype)
    )
    with pytest.raises(RunError) as caught:
        loomir.compile(program)(*[a] * args, **dict.fromkeys(kwargs, a))
    assert caught.value.diagnostic.code == "RUN0101"
    assert caught.value.diagnostic.help.startswith(reason)


def test_arguments_that_do_not_fit_are_refused_as_ever(run: Call):
    a = np.ones((2, 3), "f4")
    with pytest.raises(RunError) as caught:
        run(sum_and_difference, a, np.ones((2, 4), "f4"))
    assert caught.value.diagnostic.code == "RUN0010"
    with pytest.raises(RunError) as caught:
        run(sum_and_difference, a, [1.0])
    assert caught.value.diagnostic.code == "RUN0103"
    with pytest.raises(RunError) as caught:
        run(sum_and_difference, a, np.ones(3, "f4"))
    assert caught.value.diagnostic.code == "RUN0004"


def test_a_saved_program_allocates_too(tmp_path: Path):
    loomir.compile(matmul).save(tmp_path / "matmul.loom")
    a = np.arange(6, dtype="f4").reshape(2, 3)
    np.testing.assert_array_equal(loomir.load(tmp_path / "matmul.loom")(a, a.T.copy()), a @ a.T)


def test_bfloat16_of_numpy():
    import ml_dtypes

    made: Any = loomir.compile(negate)(np.array([1.0, -2.0], ml_dtypes.bfloat16))
    assert made.dtype == ml_dtypes.bfloat16
    assert made.tolist() == [-1.0, 2.0]
