"""Comparisons of floats whose result is read as the bits of a half."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.reinterpreted_bools import (
    find_reinterpreted_bools,
    may_reinterpret_bools,
)
from loomir.script import from_source
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import PrimFunc

COMPARISONS = (
    "a[0] == b[0]",
    "a[0] != b[0]",
    "a[0] < b[0]",
    "not (a[0] >= b[0])",
    "a[0] == b[0] and a[0] != a[0]",
)
FORMS = {
    "extended": 'T.Cast("int16", {c})',
    "unsigned": 'T.Cast("uint16", {c})',
    "by way of bytes": 'T.Cast("int16", T.Cast("int8", {c}))',
    "by way of 32 bits": 'T.Cast("int16", T.Cast("int32", {c}))',
    "chosen": "T.Select({c}, T.int16(1), T.int16(0))",
    "negated": 'T.int16(0) - T.Cast("int16", {c})',
}


def comparing(form: str, source: str, use: str) -> PrimFunc:
    bits = [FORMS[form].format(c=comparison) for comparison in COMPARISONS]
    halves = [f'T.reinterpret("float16", {b})' for b in bits]
    stores = "\n".join(f"    y[{k}] = {use.format(r=half)}" for k, half in enumerate(halves))
    func = from_source(f"""
@T.prim_func
def f(a: T.Buffer((1,), "{source}"), b: T.Buffer((1,), "{source}"), y: T.Buffer((5,), "float16")):
{stores}
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("use", ["{r}", "{r} + T.float16(2)", "T.max({r}, y[0])"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_comparisons_become_halves(form: str, source: str, use: str):
    func = comparing(form, source, use)
    for cpu in ("x86-64", "haswell", "skylake-avx512", "sapphirerapids"):
        for level in (0, 1, 3):
            exe = loomir.compile(func, cpu, opt_level=level, cache=False)
            assert exe.assembly()
    dtype = numpy_of(DataType(source))
    for a, b in ((1, 1), (1, 2), (2, 1), (np.nan, 1)):
        arrays = [np.array([x], dtype) for x in (a, b)]
        found, wanted = np.zeros((2, 5), "float16")
        loomir.compile(func, cache=False)(*arrays, found)
        loomir.interpret(func, *arrays, wanted)
        np.testing.assert_array_equal(found, wanted)


COMPARED = """
define half @f(float %x, i1 %y) {
  %m = fcmp oeq float %x, 0.000000e+00
  %z = zext i1 %m to i16
  %w = bitcast i16 %z to half
  ret half %w
"""


def test_only_bits_beside_comparisons_are_hidden():
    text = COMPARED.strip()
    assert may_reinterpret_bools(text)
    ((at, lines),) = find_reinterpreted_bools(text.split("\n")).items()
    assert at == 3
    assert lines[1] == "  %w = bitcast i16 %hidden.3.bits to half"
    assert not may_reinterpret_bools(text.replace("fcmp", "icmp"))
    assert not may_reinterpret_bools(text.replace("to half", "to bfloat"))
