"""What is clamped to an edge twice treats NaN and zeros as each of the two is written."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT, HALF
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.neighbours import number_of
from loomir.script import from_source

X = [math.nan, -0.0, 0.0, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, math.inf, -math.inf]
FORMS = {
    "max": "T.max({x}, {c})",
    "edge max": "T.max({c}, {x})",
    "min": "T.min({x}, {c})",
    "edge min": "T.min({c}, {x})",
}
for op in ("<", "<=", ">", ">="):
    FORMS[f"x {op} edge, x"] = f"T.Select({{x}} {op} {{c}}, {{x}}, {{c}})"
    FORMS[f"x {op} edge, edge"] = f"T.Select({{x}} {op} {{c}}, {{c}}, {{x}})"
    FORMS[f"edge {op} x, x"] = f"T.Select({{c}} {op} {{x}}, {{x}}, {{c}})"
    FORMS[f"edge {op} x, edge"] = f"T.Select({{c}} {op} {{x}}, {{c}}, {{x}})"
STATEMENTS = """
        inner{k}: T.{dtype} = {inner}
        Y[{k}, i] = {outer}
"""


def clamp(form: str, x: float, edge: float) -> float:
    """Compute a form."""
    if "m" in form.replace("edge", ""):
        first, second = (edge, x) if form.startswith("edge") else (x, edge)
        if math.isnan(x):
            return x
        larger = first >= second if "max" in form else first <= second
        return first if larger else second
    compared, chosen = form.split(", ")
    left, op, right = compared.split()
    values = {"x": x, "edge": edge}
    a, b = values[left], values[right]
    if {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]:
        return values[chosen]
    return values["edge" if chosen == "x" else "x"]


def bits(numbers: Any) -> Any:
    code = f"u{numbers.dtype.itemsize}"
    return np.where(np.isnan(numbers), np.array(7, code), numbers.view(code))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("edge", [0.0, -0.0, 1.5])
def test_every_form_on_every_form(dtype: str, edge: float):
    """LLVM left the outer one out, though it gives the edge where the inner one gives NaN."""
    pairs = list(itertools.product(FORMS, FORMS))
    statements = "".join(
        STATEMENTS.format(
            k=k,
            dtype=dtype,
            inner=FORMS[inner].format(x="X[i]", c=f"T.{dtype}({edge})"),
            outer=FORMS[outer].format(x=f"inner{k}", c=f"T.{dtype}({edge})"),
        )
        for k, (inner, outer) in enumerate(pairs)
    )
    func = from_source(f"""
@T.prim_func
def f(X: T.Buffer(({len(X)},), "{dtype}"), Y: T.Buffer(({len(pairs)}, {len(X)}), "{dtype}")):
    for i in range({len(X)}):{statements}""")
    x, y = np.array(X, dtype), np.zeros((len(pairs), len(X)), dtype)
    loomir.compile(func, cache=False)(x, y)
    for k, (inner, outer) in enumerate(pairs):
        wanted = np.array([clamp(outer, clamp(inner, v, edge), edge) for v in X], dtype)
        np.testing.assert_array_equal(bits(y[k]), bits(wanted), err_msg=f"{inner}; {outer}")


@pytest.mark.parametrize("schedule", [True, False])
def test_an_edge_is_clamped_to_in_memory_between(schedule: bool):
    func = from_source("""
@T.prim_func
def f(X: T.Buffer((40,), "float32"), Y: T.Buffer((40,), "float32")):
    clamped = T.alloc_buffer((40,), "float32")
    for i in range(40):
        clamped[i] = T.max(X[i], T.float32(0))
    for i in range(40):
        Y[i] = T.Select(clamped[i] > T.float32(0), clamped[i], T.float32(0))
""")
    x, y = np.array([math.nan, -0.0, -3, 5] * 10, "float32"), np.ones(40, "float32")
    loomir.compile(func, schedule=schedule, cache=False)(x, y)
    np.testing.assert_array_equal(bits(y), bits(np.array([0.0, 0, 0, 5] * 10, "float32")))


def test_a_single_clip_stays_one_instruction():
    func = from_source("""
@T.prim_func
def f(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1024,), "float32")):
    for i in range(1024):
        Y[i] = T.min(T.max(X[i], T.float32(-6)), T.float32(6))
""")
    text = loomir.compile(func, "haswell", cache=False).assembly().split("f.checked")[0]
    assert "vmaxps" in text
    assert "vminps" in text
    assert "vcmp" not in text


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.0, math.inf])
def test_constants_are_read_as_they_are_written(number: float):
    for kind in (HALF, FLOAT, DOUBLE, FLOAT.with_lanes(8)):
        found = number_of(const(kind, number))
        assert found is not None
        assert math.copysign(1, found) == math.copysign(1, number)
        assert found == number
    assert number_of(Value(FLOAT, "%v1")) is None
