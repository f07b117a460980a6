"""Tensors by formula."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir import te
from loomir.support.diagnostics import CompileError
from tests.te.running import checked, run_both
from tests.tir.refusal import refused

DTYPES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_every_dtype(dtype: str):
    a = te.placeholder((3, 2), dtype, "A")
    b = te.compute((2, 3), lambda i, j: a[j, i], name="B")
    c = te.compute((2, 3), lambda i, j: te.select(b[i, j] > te.const(0, dtype), 1, 2), name="C")
    values = (np.arange(6) % 2).astype(numpy_dtype(dtype)).reshape(3, 2)
    run_both([a, b, c], [values], [values.T, np.where(values.T > 0, 1, 2).astype("int32")])


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1, 1), (2, 0, 3)])
def test_shapes_of_few_elements(shape: tuple[int, ...]):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2.0 + 1.0, name="B")
    x = np.ones(shape, "float32")
    run_both([a, b], [x], [x * 2 + 1])


def test_several_outputs_of_several_dtypes():
    a = te.placeholder((4,), "int32", "A")
    up, down = te.compute((4,), lambda i: (a[i] + 1, a[i].astype("float32") / 2.0), name="B")
    x = np.arange(4, dtype="int32")
    run_both([a, up, down], [x], [x + 1, (x / 2).astype("float32")])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_take_their_values_from_arrays(dtype: str):
    n, m = te.size_var("n", dtype), te.size_var("m", dtype)
    a = te.placeholder((n, m), name="A")
    b = te.placeholder((m,), name="B")
    c = te.compute((n, m), lambda i, j: a[i, j] * b[j], name="C")
    func = checked([a, b, c])
    for shape in ((3, 4), (1, 1), (0, 4), (3, 0)):
        x = np.random.default_rng(0).random(shape, "float32")
        y = np.arange(shape[1], dtype="float32")
        assert run_both([a, b, c], [x, y], [x * y]).params is not func.params


def test_scalars_are_parameters():
    scale = te.var("scale", "float32")
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] * scale, name="B")
    x = np.arange(3, dtype="float32")
    run_both([scale, a, b], [2.5, x], [x * np.float32(2.5)])


def test_indices_may_be_read_from_tensors():
    a = te.placeholder((5,), name="A")
    at = te.placeholder((3,), "int64", "at")
    b = te.compute((3,), lambda i: a[at[i]], name="B")
    x, i = np.arange(5, dtype="float32"), np.array([4, 0, 2])
    run_both([a, at, b], [x, i], [x[i]])


def test_names_of_loops_are_those_of_the_formula():
    a = te.placeholder((2, 3), name="A")
    func = checked([a, te.compute((2, 3), lambda row, col: a[row, col], name="B")])
    assert "for row, col in T.grid(2, 3)" in func.script()
    func = checked(
        [a, te.compute((2, 3), lambda *i: a(*i) + 1.0, name="B", attrs={"layout": "NC"})]
    )
    assert "for i0, i1 in T.grid(2, 3)" in func.script()
    assert '"layout": "NC"' in func.script()


def test_a_formula_may_have_parameters_of_its_own():
    a = te.placeholder((3,), name="A")
    made = [
        te.compute((3,), lambda i, by=by: a[i] * te.const(by, "float32"), name=f"B{by}")
        for by in (1, 2)
    ]
    x = np.arange(3, dtype="float32")
    run_both([a, *made], [x], [x, x * 2])


def test_tensors_print_without_what_made_them():
    a = te.placeholder((4,), name="A")
    assert "PlaceholderOp('A')" in str(a)
    assert "Source" not in str(a[0])


def test_functions_of_scalars():
    names = ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos"]
    names += ["floor", "ceil", "trunc", "round"]
    a = te.placeholder((4,), name="A")
    functions = [(n, getattr(te, n)) for n in names]
    made = [te.compute((4,), lambda i, f=f: f(a[i]), name=n) for n, f in functions]
    x = np.array([0.25, 0.5, 1.5, 2.5], "float32")
    erf = np.array([0.27632639, 0.52049988, 0.96610515, 0.99959305])
    known = {"rsqrt": 1 / np.sqrt(x), "sigmoid": 1 / (1 + np.exp(-x)), "erf": erf}
    expected = [np.asarray(known[n] if n in known else getattr(np, n)(x), "float32") for n in names]
    run_both([a, *made], [x], expected)


def test_functions_that_tell_kinds_of_floats():
    a = te.placeholder((4,), name="A")
    names = ["isnan", "isinf", "isfinite"]
    functions = [(n, getattr(te, n)) for n in names]
    made = [te.compute((4,), lambda i, f=f: f(a[i]), name=n) for n, f in functions]
    x = np.array([1, np.nan, np.inf, -np.inf], "float32")
    run_both([a, *made], [x], [getattr(np, n)(x) for n in names])


def test_choices_powers_and_limits():
    a = te.placeholder((3,), "int32", "A")
    lazy = te.compute((3,), lambda i: te.if_then_else(a[i] > 0, 12 // a[i], -1), name="lazy")
    power = te.compute((3,), lambda i: te.power(a[i], 3), name="power")
    size = te.compute((3,), lambda i: te.abs(a[i]), name="size")
    least = te.compute((), lambda: te.min_value("int8"), name="least")
    most = te.compute((), lambda: te.max_value("float16"), name="most")
    x = np.array([-2, 0, 5], "int32")
    run_both(
        [a, lazy, power, size, least, most],
        [x],
        [
            np.array([-1, -1, 2], "int32"),
            np.array([-8, 0, 125], "float32"),
            np.abs(x),
            np.int8(-128),
            np.float16(65504),
        ],
    )


def test_mistakes_in_formulas():
    a = te.placeholder((4, 4), name="A")
    with refused("TE0001", "2 axes", "1 index"):
        te.compute((4,), lambda i: a[i])
    with refused("TE0002", "float32"):
        te.compute((4, 4), lambda i, j: a[i, a[i, j]])
    for outside in (4, -1):
        with refused("TE0002", "outside"):
            te.compute((4,), lambda i, at=outside: a[i, at])
    with refused("TE0006", "float32"):
        te.placeholder((4.5,))
    with refused("TE0006", "-1"):
        te.compute((-1,), lambda i: i)
    with refused("TE0007", "takes 2 indices", "1 axis"):
        te.compute((4,), lambda i, j: a[i, j])
    with refused("TE0007", "a whole tensor"):
        te.compute((4,), lambda i: a)
    with refused("TE0007", "NoneType"):
        te.compute((4,), lambda i: None)
    with refused("TIR0101"):
        te.compute((4,), lambda i: te.const(1, "uint32") + i)


def test_mistakes_point_into_the_formula():
    a = te.placeholder((4, 4), name="A")
    with refused("TE0001", "test_compute.py", "a[i] + 1.0)  # here", "^^^^\n"):
        te.compute((4,), lambda i: a[i] + 1.0)  # here
    with refused("TIR0101", "te.const(1, 'uint32') + i)  # here"):
        te.compute((4,), lambda i: te.const(1, 'uint32') + i)  # here  # fmt: skip


def test_slice_of_a_tensor_is_refused_with_the_formula():
    x = te.placeholder((8,), name="x")
    part: Any = slice(1, 3)
    with pytest.raises(CompileError, match=r"TIR0115.*has no slices") as found:
        x[part]
    assert "lambda i: x[i + start]" in str(found.value)
