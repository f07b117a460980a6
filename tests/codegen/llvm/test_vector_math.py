"""Loops over math functions become vector code: nothing scalar is left, nothing of libm called."""

import re
from typing import Any

import pytest

import loomir
from loomir.codegen.llvm.jit.engine import TargetMachine, optimise_ir
from loomir.codegen.llvm.math.mathlib import MATH
from loomir.codegen.llvm.support.ir.checks import CHECK_FUNCTIONS
from loomir.runtime.executable import Executable
from loomir.script import from_source

TARGETS = [("x86-64-v3", 256), ("x86-64-v4", 256), ("znver4", 512), ("generic", 128)]


def loop(name: str, dtype: str) -> str:
    args = ", ".join(["A[i]", "C[i]"][: MATH[name].arity])
    return f"""
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer((1024,), "{dtype}"), C: T.Buffer((1024,), "{dtype}"), B: T.Buffer((1024,), "{dtype}")):
    for i in range(1024):
        B[i] = T.{name}({args})
"""


def compiled(name: str, dtype: str) -> str:
    return loomir.compile(from_source(loop(name, dtype)), schedule=False, cache=False).llvm_ir()


def called(ir: str) -> set[str]:
    """Return the functions that ``main`` calls, but for intrinsics, checks and faults."""
    names = set(re.findall(r'call [^@]*@"?([\w.$]+)"?\(', ir))
    own = ("llvm.", "loomir.", "main", "__tvm_ffi")
    return {n for n in names if not n.startswith(own)}.difference(CHECK_FUNCTIONS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(MATH))
def test_a_serial_loop_becomes_one_over_whole_vectors(name: Any, dtype: str):
    text = compiled(name, dtype)
    for cpu, bits in TARGETS:
        triple = "aarch64-unknown-linux-gnu" if cpu == "generic" else "x86_64-unknown-linux-gnu"
        target = TargetMachine.of(cpu, triple=triple)
        plain = re.sub(r' "prefer-vector-width"="\d+"', "", text)
        plain = re.sub(r"^target (triple|datalayout) = .*$", "", plain, flags=re.MULTILINE)
        ir = optimise_ir(plain, target)
        assert not called(ir), (name, cpu)
        # Some floats go by way of double, and the widest type counts.
        widest = 64 if "double>" in ir or dtype == "float64" else 32
        # What ends in operations on bits is stored as integers.
        element = "(?:float|i32)" if dtype == "float32" else "(?:double|i64)"
        stored = {int(n) for n in re.findall(rf"store <(\d+) x {element}>", ir)}
        assert stored, (name, cpu, "no vector is stored")
        assert max(stored) >= bits // widest, (name, cpu, stored)


@pytest.mark.parametrize("name", ["sin", "fmod"])
def test_rare_arguments_are_looked_after_by_whole_vectors(name: str):
    """The loop over vectors calls the version for vectors, not the scalar one lane by lane."""
    ir = optimise_ir(compiled(name, "float32"))
    body = ir[ir.index("vector.body:") :]
    body = body[: body.index("br i1")]
    assert re.search(rf"call [^@]*@loomir\.{name}\.f32\.v\d+\(", body)
    assert not re.search(rf"@loomir\.{name}\.f32\(", body)


VECTORS = """
from loomir.script import tir as T

@T.prim_func
def main(A: T.Buffer((1024,), "{dtype}"), B: T.Buffer((1024,), "{dtype}")):
    for i in range({steps}):
        for v in T.vectorized({lanes}):
            B[i * {lanes} + v] = T.{name}(A[i * {lanes} + v])
"""


def lowered(name: str, dtype: str, lanes: int, target: str, steps: int = 2) -> Executable:
    text = VECTORS.format(name=name, dtype=dtype, lanes=lanes, steps=steps)
    return loomir.compile(from_source(text), target=target, schedule=False, cache=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_call_is_in_the_common_path_of_vectors(dtype: str):
    """Before a call all registers are saved: the test for rare arguments is where they are."""
    ir = lowered("sin", dtype, 16, "haswell").llvm_ir()
    blocks = re.split(r"^(?=\S+:)", ir, flags=re.MULTILINE)
    calls = [b for b in blocks if re.search(r"call [^@]*@loomir\.sin\.\w+\.v16\(", b)]
    assert len(calls) == 1
    assert "load" not in calls[0]


@pytest.mark.parametrize(("lanes", "times"), [(16, 1), (32, 2)])
def test_powers_of_two_are_scaled_by_one_instruction_a_register(lanes: int, times: int):
    assembly = lowered("exp", "float32", lanes, "skylake-avx512", 1).assembly()
    assert assembly.count("vscalefps") == times
    assert "vscalefps" not in lowered("exp", "float32", lanes, "haswell").assembly()
