"""Three wide integers that become bytes, on CPUs of AArch64."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.engine import TargetMachine, compile_ir
from loomir.codegen.llvm.jit.narrowed_triples import widen_narrowed_triples
from loomir.script import from_source
from loomir.tir import PrimFunc

STORED = """
define void @f(ptr %x, ptr %y) {{
  %v = load <{lanes} x i{bits}>, ptr %x, align 1
  %t = trunc <{lanes} x i{bits}> %v to <{lanes} x i8>
  store <{lanes} x i8> %t, ptr %y, align 1
  ret void
}}
"""


def clip(length: int, dtype: str) -> PrimFunc:
    """Products of bytes in 64 bits, in vectors of four; the last vector is narrower."""
    func = from_source(f"""
@T.prim_func
def f(a: T.Buffer((1,), "{dtype}"), x: T.Buffer(({length},), "{dtype}"), y: T.Buffer(({length},), "{dtype}")):
    for io in range({-(-length // 4)}):
        for ii in T.vectorized(4):
            if io * 4 + ii < {length}:
                p: T.int64 = T.Cast("int64", a[0]) * T.Cast("int64", x[io * 4 + ii])
                y[io * 4 + ii] = T.Cast("{dtype}", T.max(T.min(p, T.int64(120)), T.int64(-1)))
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_clipped_products_compile_for_arm_and_are_right_here(dtype: str):
    func = clip(67, dtype)
    for cpu in ("neoverse-n1", "neoverse-v1", "apple-m1"):
        for level in (0, 1, 3):
            assert loomir.compile(func, cpu, opt_level=level, cache=False).assembly()
    draw = np.random.default_rng(3).integers
    info = np.iinfo(dtype)
    a, x = (draw(info.min, info.max, n, dtype, endpoint=True) for n in (1, 67))
    found = np.zeros(67, dtype)
    loomir.compile(func, cache=False)(a, x, found)
    wanted = np.clip(a.astype("int64") * x.astype("int64"), -1, 120).astype(dtype)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [9, 16, 24, 32, 33, 64, 128])
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 5, 7])
def test_narrowed_vectors_are_selected(lanes: int, bits: int):
    text = STORED.format(lanes=lanes, bits=bits)
    machine = TargetMachine.of("neoverse-n1", "", "aarch64-unknown-linux-gnu")
    assert compile_ir(text, machine, 2)


def test_only_triples_of_other_widths_are_changed():
    changed = [
        (lanes, bits)
        for lanes in (2, 3, 4)
        for bits in (16, 32, 64)
        if widen_narrowed_triples(STORED.format(lanes=lanes, bits=bits)) is not None
    ]
    assert changed == [(3, 64)]
    made = widen_narrowed_triples("  %t = trunc nuw <3 x i64> splat (i64 4) to <3 x i8>, !dbg !4")
    assert made is not None
    _, bytes_, triple = made.splitlines()
    assert bytes_ == "  %t.bytes = trunc <4 x i64> %t.wide to <4 x i8>"
    assert triple.endswith("<3 x i32> <i32 0, i32 1, i32 2>, !dbg !4")
