"""Products of small integers that are shifted right in 64 bits, as in fixed-point arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.engine import TargetMachine, assembly
from loomir.codegen.llvm.jit.shifted_products import find_shifted_products
from loomir.script import from_source

DISTANCES = (8, 15, 16, 17, 24, 31, 32, 33, 42, 48, 63)
FORMS = {
    "product": ("A * B", lambda a, b: a * b),
    "lesser": ("A * T.min(A, B)", lambda a, b: a * np.minimum(a, b)),
    "scaled": ("A * T.int64(1234)", lambda a, b: a * 1234),
    "added": ("A * B + A", lambda a, b: a * b + a),
}


def shifting(form: str, source: str, result: str, count: int) -> Any:
    text = form.replace("A", 'T.Cast("int64", a[i])').replace("B", 'T.Cast("int64", b[i])')
    outs = ", ".join(f'y{k}: T.Buffer(({count},), "{result}")' for k in DISTANCES)
    loops = "\n".join(
        f"    for i in range({count}):\n"
        f'        y{k}[i] = T.Cast("{result}", ({text}) >> T.int64({k}))'
        for k in DISTANCES
    )
    return from_source(f"""
@T.prim_func
def f(a: T.Buffer(({count},), "{source}"), b: T.Buffer(({count},), "{source}"), {outs}):
{loops}
""")


@pytest.mark.parametrize("result", ["int8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("form", FORMS)
def test_products_keep_their_signs(form: str, source: str, result: str):
    count, info = 37, np.iinfo(source)
    text, reference = FORMS[form]
    rng = np.random.default_rng(0)
    a, b = rng.integers(info.min, info.max, (2, count), source, endpoint=True)
    a[:4], b[:4] = (info.min, info.max, 0, info.max), (info.max, info.max, 1, info.min)
    exact = reference(a.astype("int64"), b.astype("int64"))
    for level, schedule in ((1, False), (2, True), (3, True)):
        func = shifting(text, source, result, count)
        run = loomir.compile(func, opt_level=level, schedule=schedule, cache=False)
        found = [np.zeros(count, result) for _ in DISTANCES]
        run(a, b, *found)
        for k, y in zip(DISTANCES, found, strict=True):
            np.testing.assert_array_equal(y, (exact >> k).astype(result), err_msg=f"by {k}")


@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize(
    "form",
    [
        "T.Cast('int16', ({}) >> T.int64({}))",
        "T.Cast('int16', T.Cast('int32', ({}) >> T.int64({})))",
        "T.Cast('int16', (({}) >> T.int64(7)) >> T.int64({} - 7))",
        "T.Cast('int16', (({}) >> T.int64({})) & T.int64(65535))",
        "T.Cast('int16', T.Cast('int32', (({}) >> T.int64({}))) & 65535)",
    ],
)
def test_vectors_without_any_pass(form: str, source: str):
    info, kinds = np.iinfo(source), (8, 16, 17, 31, 32, 42, 63)
    rng = np.random.default_rng(0)
    a, b = rng.integers(info.min, info.max, (2, 16), source, endpoint=True)
    product = "T.Cast('int64', a[i]) * T.Cast('int64', b[i])"
    exact = a.astype("int64") * b.astype("int64")
    for k in kinds:
        func = from_source(f"""
@T.prim_func
def f(a: T.Buffer((16,), "{source}"), b: T.Buffer((16,), "{source}"), y: T.Buffer((16,), "int16")):
    for i in T.vectorized(16):
        y[i] = {form.format(product, k)}
""")
        y = np.zeros(16, "int16")
        loomir.compile(func, opt_level=0, cache=False)(a, b, y)
        np.testing.assert_array_equal(y, (exact >> k).astype("int16"), err_msg=f"by {k}")


def products(lanes: int, distance: int) -> str:
    return f"""
define void @f(ptr %a, ptr %b, ptr %y) {{
  %x = load <{lanes} x i16>, ptr %a
  %v = load <{lanes} x i16>, ptr %b
  %wide = sext <{lanes} x i16> %x to <{lanes} x i64>
  %other = sext <{lanes} x i16> %v to <{lanes} x i64>
  %product = mul nsw <{lanes} x i64> %wide, %other
  %shifted = lshr <{lanes} x i64> %product, splat (i64 {distance})
  %kept = trunc <{lanes} x i64> %shifted to <{lanes} x i16>
  store <{lanes} x i16> %kept, ptr %y
  ret void
}}
"""


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 12, 16, 32, 64])
@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "sapphirerapids"])
def test_halves_of_products_are_taken_only_where_they_are_right(lanes: int, cpu: str):
    machine = TargetMachine.of(cpu, triple="x86_64-unknown-linux-gnu")
    assert "pmulhw" not in assembly(products(lanes, 24), machine, 0)
    if lanes in (8, 16, 32, 64):
        assert "pmulhw" in assembly(products(lanes, 16), machine, 0)


def test_other_shifts_stay_as_they_are():
    lines = products(8, 24).split("\n")
    (found,) = find_shifted_products(lines).values()
    assert found[-1] == "  %shifted = lshr <8 x i64> %hidden.7.sum, splat (i64 24)"
    assert not find_shifted_products(products(8, 16).split("\n"))
    assert not find_shifted_products([line.replace("mul", "add") for line in lines])
    assert not find_shifted_products([line.replace("x i16>", "x i32>") for line in lines])
    moved = [*lines[:7], "define void @g(ptr %y) {", *lines[7:]]
    assert not find_shifted_products(moved)
