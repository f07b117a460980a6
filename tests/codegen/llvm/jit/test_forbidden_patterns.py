"""Code that LLVM's x86 back end gets wrong is written in another form."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.engine import TargetMachine, assembly, compile_ir
from loomir.codegen.llvm.jit.forbidden_patterns import (
    avoid_forbidden_patterns,
    may_hold_forbidden_patterns,
)
from loomir.script import from_source

LENGTHS = [4, 8, 12, 16, 17, 18, 20, 24, 26, 27, 31, 32, 35, 39, 40, 46, 63, 64, 67]


def summed(term: str, length: int, dtype: str, other: str, accumulator: str) -> Any:
    return from_source(f"""
@T.prim_func
def f(a: T.Buffer(({length},), "{dtype}"), b: T.Buffer(({length},), "{other}"), c: T.Buffer((1,), "{accumulator}")):
    for i in range({length}):
        c[0] += T.{accumulator}({term})
""")


def drawn(length: int, dtype: str, salt: int) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(length + salt).integers(
        info.min, info.max, length, dtype, endpoint=True
    )


@pytest.mark.parametrize("accumulator", ["int64", "int32", "int16", "uint8", "int8"])
def test_sums_of_distances_of_bytes(accumulator: str):
    """``psadbw`` leaves several sums, all of which count."""
    for length in LENGTHS:
        func = summed(
            "T.max(a[i], b[i]) - T.min(a[i], b[i])", length, "uint8", "uint8", accumulator
        )
        a, b, c = drawn(length, "uint8", 0), drawn(length, "uint8", 1), np.array([5], accumulator)
        wanted = np.abs(a.astype("int64") - b).sum() + 5
        loomir.compile(func, cache=False)(a, b, c)
        assert c[0] == np.array(wanted).astype(accumulator), length


@pytest.mark.parametrize("accumulator", ["int64", "int32", "int16"])
@pytest.mark.parametrize("schedule", [True, False])
def test_sums_of_distances_of_bytes_read_as_signed(accumulator: str, schedule: bool):
    """``psadbw`` adds up distances as they are, where 200 should count as -56."""
    for length in LENGTHS:
        term = "T.int8(T.max(a[i], b[i]) - T.min(a[i], b[i]))"
        func = summed(term, length, "uint8", "uint8", accumulator)
        a, b, c = drawn(length, "uint8", 0), drawn(length, "uint8", 1), np.array([5], accumulator)
        wanted = (np.maximum(a, b) - np.minimum(a, b)).view("int8").astype("int64").sum() + 5
        loomir.compile(func, schedule=schedule, cache=False)(a, b, c)
        assert c[0] == wanted.astype(accumulator), length


SIGNED = """
define i32 @f(<{lanes} x i8> %a, <{lanes} x i8> %b) {{
  {larger}
  {smaller}
  %d = sub <{lanes} x i8> %larger, %smaller
  %x = sext <{lanes} x i8> %d to <{lanes} x i32>
  %r = call i32 @llvm.vector.reduce.add.v{lanes}i32(<{lanes} x i32> %x)
  ret i32 %r
}}
declare i32 @llvm.vector.reduce.add.v{lanes}i32(<{lanes} x i32>)
declare <{lanes} x i8> @llvm.umax.v{lanes}i8(<{lanes} x i8>, <{lanes} x i8>)
declare <{lanes} x i8> @llvm.umin.v{lanes}i8(<{lanes} x i8>, <{lanes} x i8>)
"""
CALL = "%{name} = call <{lanes} x i8> @llvm.u{op}.v{lanes}i8(<{lanes} x i8> %a, <{lanes} x i8> %b)"
CHOICE = (
    "%c{op} = icmp u{how} <{lanes} x i8> %a, %b\n"
    "  %{name} = select <{lanes} x i1> %c{op}, <{lanes} x i8> %a, <{lanes} x i8> %b"
)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("form", [CALL, CHOICE])
@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "icelake-server"])
def test_signed_distances_do_not_become_psadbw(lanes: int, form: str, cpu: str):
    target = TargetMachine("x86_64-unknown-linux-gnu", cpu, "")
    text = SIGNED.format(
        lanes=lanes,
        larger=form.format(lanes=lanes, name="larger", op="max", how="gt"),
        smaller=form.format(lanes=lanes, name="smaller", op="min", how="lt"),
    )
    made = avoid_forbidden_patterns(text)
    assert made is not None
    assert "psadbw" not in assembly(made, target, 0)
    unsigned = avoid_forbidden_patterns(text.replace("sext", "zext"))
    assert unsigned is None


def test_sums_by_halves_that_a_user_writes():
    func = from_source("""
@T.prim_func
def f(a: T.Buffer((16,), "uint8"), b: T.Buffer((16,), "uint8"), c: T.Buffer((4,), "int32")):
    wide = T.alloc_buffer((16,), "int32", scope="local")
    half = T.alloc_buffer((8,), "int32", scope="local")
    for lane in T.vectorized(16):
        wide[lane] = T.int32(T.max(a[lane], b[lane]) - T.min(a[lane], b[lane]))
    for lane in T.vectorized(8):
        half[lane] = wide[lane] + wide[lane + 8]
    for lane in T.vectorized(4):
        c[lane] = half[lane] + half[lane + 4]
    c[0] = c[0] + c[1] + c[2] + c[3]
""")
    a, b, c = drawn(16, "uint8", 0), drawn(16, "uint8", 1), np.zeros(4, "int32")
    loomir.compile(func, cache=False)(a, b, c)
    assert c[0] == np.abs(a.astype("int64") - b).sum()


HALVES = """
define i{bits} @f(<{lanes} x i8> %a, <{lanes} x i8> %b) {{
  %x = zext <{lanes} x i8> %a to <{lanes} x i{bits}>
  %y = sext <{lanes} x i8> %b to <{lanes} x i{bits}>
  %m = mul <{lanes} x i{bits}> %x, %y
  %low = shufflevector <{lanes} x i{bits}> %m, <{lanes} x i{bits}> poison, <{half} x i32> <{first}>
  %high = shufflevector <{lanes} x i{bits}> %m, <{lanes} x i{bits}> poison, <{half} x i32> <{second}>
  %s = add <{half} x i{bits}> %low, %high
  {end}
}}
declare i{bits} @llvm.vector.reduce.add.v{half}i{bits}(<{half} x i{bits}>)
"""


def halves(lanes: int, bits: int, end: str) -> str:
    half = lanes // 2
    return HALVES.format(
        lanes=lanes,
        half=half,
        bits=bits,
        first=", ".join(f"i32 {k}" for k in range(half)),
        second=", ".join(f"i32 {k}" for k in range(half, lanes)),
        end=end.format(half=half, bits=bits),
    )


REDUCED = "%r = call i{bits} @llvm.vector.reduce.add.v{half}i{bits}(<{half} x i{bits}> %s)\n  ret i{bits} %r"
REGISTERS = {"x86-64": 128, "haswell": 256, "icelake-server": 512}
FIRST = "%r = extractelement <{half} x i{bits}> %s, i64 0\n  ret i{bits} %r"


def test_a_sum_of_a_sum_of_halves_is_one_of_the_whole():
    made = avoid_forbidden_patterns(halves(16, 32, REDUCED))
    assert made is not None
    assert "@llvm.vector.reduce.add.v16i32(<16 x i32> %m)" in made
    assert "declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)" in made


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "icelake-server"])
def test_halves_of_any_width_are_hidden_at_no_cost(lanes: int, bits: int, cpu: str):
    if bits == 8 and lanes == 2:
        return  # a half of one lane is not a vector that is summed on
    target = TargetMachine("x86_64-unknown-linux-gnu", cpu, "")
    text = halves(lanes, bits, FIRST)
    if bits == 8:
        text = re.sub(
            r"= [zs]ext (<\d+ x i8>) (%\w) to <\d+ x i8>", r"= or \1 \2, zeroinitializer", text
        )
    made = avoid_forbidden_patterns(text)
    assert made is not None
    assert 'asm "", "=x,0"' in made
    assert compile_ir(made, target, 2)
    assert "vpdpbusd" not in assembly(made, target, 2)
    register = REGISTERS[cpu]
    text = text.replace("%b) {", '%b) "prefer-vector-width"="512" {')
    made = avoid_forbidden_patterns(text, register)
    assert made is not None
    assert made.count('asm ""') == max(1, lanes // 2 * bits // register)
    assert compile_ir(made, target, 2)
    assert "vpdpbusd" not in assembly(made, target, 2)


def test_wide_sums_of_halves_stay_in_whole_registers():
    func = summed("a[i]", 256, "int8", "int8", "int32")
    text = loomir.compile(func, "icelake-server", cache=False).assembly()
    last = text.rindex("vpaddd")
    assert "zmm" in text[:last]
    assert "vinserti" not in text


def test_other_code_stays_as_it_is():
    assert avoid_forbidden_patterns(HALVES.replace("add <", "sub <")) is None
    assert not may_hold_forbidden_patterns("define <4 x i32> @f(<4 x i32> %x) {")


@pytest.mark.parametrize("signs", [("int8", "uint8"), ("uint8", "int8")])
@pytest.mark.parametrize("cpu", ["icelake-server", "sapphirerapids", "alderlake"])
def test_short_products_of_bytes_do_not_become_grouped_sums(cpu: str, signs: tuple[str, str]):
    """LLVM made ``vpdpbusd`` of these, and added up only the first of its sums."""
    for length in (12, 20, 24, 40):
        func = summed("T.int32(a[i]) * T.int32(b[i])", length, *signs, "int32")
        text = loomir.compile(func, cpu, cache=False).assembly()
        assert "vpdpbusd" not in text, length
