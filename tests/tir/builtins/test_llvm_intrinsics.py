"""LLVM's intrinsics: the interpreter, native code, and LLVM's own instruction give the same."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.jit.engine import compile_ir, load
from loomir.ir.equality import structural_equal
from loomir.script import from_source
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import PrimFunc
from loomir.tir.builtins.llvm_intrinsics import INTRINSICS
from loomir.tir.link_calls import link_calls
from tests.docs.markdown import ROOT
from tests.runtime.packed.test_packed_call import program

SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, math.inf, -math.inf, 1e-40]
SPECIAL += [math.nan, 3.7, -3.2, 1e30, -1e30]
CLOSE = {"exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos"}
CLOSE |= {"atan", "sinh", "cosh", "tanh", "pow", "atan2"}
FREE = {"llvm.fmuladd", "llvm.minnum", "llvm.maxnum"}
"""LLVM may round these in two ways, or choose either zero."""


def values(dtype: DataType, count: int, seed: int) -> Any:
    rng = random.Random(seed)
    if dtype.is_float:
        pool = SPECIAL + [rng.uniform(-9, 9) for _ in range(20)]
        with np.errstate(over="ignore"):
            return np.array([rng.choice(pool) for _ in range(count)]).astype(numpy_of(dtype))
    low, high = dtype.min_value, dtype.max_value
    pool = [low, high, 0, 1, low + 1, high - 1, high // 3]
    pool += [rng.randint(low, high) for _ in range(20)]
    return np.array([rng.choice(pool) for _ in range(count)], dtype=numpy_of(dtype))


def kernel(name: str, dtype: str, count: int) -> PrimFunc:
    row = INTRINSICS[name]
    params = [f'A{i}: T.Buffer(({count},), "{dtype}")' for i in range(row.arity + 1)]
    args = [f"A{i}[i]" for i in range(row.arity)] + ["T.bool(False)"] * row.flag
    return program(
        f"for i in range({count}):\n"
        f'    A{row.arity}[i] = T.call_llvm_pure_intrin("{dtype}", "{name}", {", ".join(args)})',
        ", ".join(params),
    )


def llvm_says(name: str, dtype: DataType, arrays: list[Any]) -> list[Any]:
    """Compute by LLVM's own intrinsic, one element after the other."""
    row = INTRINSICS[name]
    kind = {"float32": "float", "float64": "double"}.get(str(dtype), f"i{dtype.bits}")
    code = f"f{dtype.bits}" if dtype.is_float else f"i{dtype.bits}"
    types = ", ".join([kind] * row.arity + ["i1"] * row.flag)
    lines = [f"declare {kind} @{name}.{code}({types})", "define void @f("]
    lines[-1] += ", ".join(f"ptr %p{i}" for i in range(row.arity + 1)) + ") {"
    lines += [f"  %x{i} = load {kind}, ptr %p{i}" for i in range(row.arity)]
    given = ", ".join([f"{kind} %x{i}" for i in range(row.arity)] + ["i1 0"] * row.flag)
    lines += [f"  %y = call {kind} @{name}.{code}({given})"]
    lines += [f"  store {kind} %y, ptr %p{row.arity}", "  ret void", "}"]
    library = load(compile_ir("\n".join(lines)))
    f = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (row.arity + 1))(library.address("f"))
    out = np.zeros(len(arrays[0]), numpy_of(dtype))
    for i in range(len(out)):
        f(*[a[i : i + 1].ctypes.data for a in (*arrays, out)])
    return out.tolist()


def bits(x: Any) -> object:
    if isinstance(x, float):
        return "nan" if x != x else struct.pack("<d", x)
    return x


CASES = [
    (name, dtype)
    for name, row in INTRINSICS.items()
    for dtype in (
        ("float32", "float64")
        if row.kind == "float"
        else ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
    )
    if not row.widths or DataType(dtype).bits in row.widths
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_both_engines_give_what_llvm_gives(name: str, dtype: str):
    kind, row = DataType(dtype), INTRINSICS[name]
    arrays = [values(kind, 200, i) for i in range(row.arity)]
    main = kernel(name, dtype, 200)
    outs = [np.zeros(200, numpy_of(kind)) for _ in range(2)]
    loomir.interpret(main, *arrays, outs[0])
    loomir.compile(main)(*arrays, outs[1])
    if name.removeprefix("llvm.") in CLOSE:
        np.testing.assert_allclose(outs[0], outs[1], rtol=1e-5, atol=0)
        return
    assert [bits(x) for x in outs[0].tolist()] == [bits(x) for x in outs[1].tolist()]
    if name not in FREE:
        wanted = llvm_says(name, kind, arrays)
        assert [bits(x) for x in outs[0].tolist()] == [bits(x) for x in wanted]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats(dtype: str):
    for name in ("llvm.sqrt", "llvm.round", "llvm.minnum", "llvm.fma"):
        row = INTRINSICS[name]
        arrays = [values(DataType(dtype), 100, i) for i in range(row.arity)]
        main = kernel(name, dtype, 100)
        outs = [np.zeros(100, numpy_of(DataType(dtype))) for _ in range(2)]
        loomir.interpret(main, *arrays, outs[0])
        loomir.compile(main)(*arrays, outs[1])
        assert [bits(float(x)) for x in outs[0]] == [bits(float(x)) for x in outs[1]]


@pytest.mark.parametrize("name", ["llvm.smax", "llvm.uadd.sat", "llvm.fshl", "llvm.cttz"])
def test_vectors(name: str):
    row = INTRINSICS[name]
    args = ", ".join([f"A{i}[0:4]" for i in range(row.arity)] + ["T.bool(False)"] * row.flag)
    params = ", ".join(f'A{i}: T.Buffer((4,), "int32")' for i in range(row.arity + 1))
    main = program(
        f'A{row.arity}[0:4] = T.call_llvm_intrin("int32x4", "{name}.v4i32", {args})', params
    )
    arrays = [values(DataType("int32"), 4, i) for i in range(row.arity)]
    for run in (loomir.interpret, lambda m, *a: loomir.compile(m)(*a)):
        out = np.zeros(4, "int32")
        run(main, *arrays, out)
        assert out.tolist() == llvm_says(name, DataType("int32"), arrays)


def test_llvm_makes_its_instruction_again():
    main = kernel("llvm.uadd.sat", "uint8", 64)
    text = loomir.compile(main, cache=False)
    assert llvm.llvm_version_info
    assert "paddusb" in text.assembly() or "uqadd" in text.assembly()


def test_arguments_are_evaluated_once_and_in_order():
    seen: list[int] = []
    loomir.register_func("test.order", lambda x: seen.append(x) or x, override=True)
    main = program(
        'T.ret(T.call_llvm_intrin("int32", "llvm.sadd.sat", T.call_packed("test.order", 1), '
        'T.call_packed("test.order", 2147483647)))',
        returns="T.int32",
    )
    assert loomir.interpret(main) == 2**31 - 1
    assert loomir.compile(main)() == 2**31 - 1
    assert seen == [1, 2**31 - 1] * 2


# -- text -------------------------------------------------------------------------------------
def test_older_texts_count_the_arguments():
    new = program(
        'T.ret(T.call_llvm_pure_intrin("float32", "llvm.fma", x, x, x))',
        "x: T.float32",
        "T.float32",
    )
    old = program(
        'T.ret(T.call_llvm_pure_intrin("float32", "llvm.fma", T.uint32(3), x, x, x))',
        "x: T.float32",
        "T.float32",
    )
    assert structural_equal(new, old)
    assert structural_equal(new, from_source(new.script()))


def test_builtins_by_name():
    made = program('T.ret(T.call_intrin("float32", "tirx.exp", x))', "x: T.float32", "T.float32")
    plain = program("T.ret(T.exp(x))", "x: T.float32", "T.float32")
    assert structural_equal(made, plain)
    made = program('T.call_intrin("int32", "tir.tvm_call_packed", "f", 1)')
    assert structural_equal(made, program('T.call_packed("f", 1)'))
    made = program('T.call_intrin("int32", "tir.call_extern", "f", 1)')
    assert structural_equal(made, program('T.call_extern("int32", "f", 1)'))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('T.call_llvm_intrin("float32", "llvm.sqr", x)', "TIR0123"),
        ('T.call_llvm_intrin("float32", "llvm.x87.sse.rcp.ss", x)', "TIR0123"),
        ('T.call_llvm_intrin("float32", "sqrt", x)', "TIR0123"),
        ('T.call_llvm_intrin("float32", "", x)', "TIR0123"),
        ('T.call_llvm_intrin("float32", "llvm.sqrt.f64", x)', "TIR0124"),
        ('T.call_llvm_intrin("float64", "llvm.sqrt", x)', "TIR0124"),
        ('T.call_llvm_intrin("int32", "llvm.sqrt", 4)', "TIR0124"),
        ('T.call_llvm_intrin("float32", "llvm.ctpop", x)', "TIR0124"),
        ('T.call_llvm_intrin("float32", "llvm.sqrt", x, x)', "TIR0124"),
        ('T.call_llvm_intrin("float32", "llvm.sqrt")', "TIR0124"),
        ('T.call_llvm_intrin("int8", "llvm.bswap", T.int8(1))', "TIR0124"),
        ('T.call_llvm_intrin("bool", "llvm.ctpop", T.bool(True))', "TIR0124"),
        ('T.call_llvm_intrin("int32", "llvm.ctlz", 4)', "TIR0124"),
        ('T.call_llvm_intrin("int32", "llvm.ctlz", 4, T.Cast("bool", x))', "TIR0124"),
        ('T.call_llvm_intrin("float32", 128, x)', "SCR0005"),
        ('T.call_intrin("float32", "tir.exq", x)', "SCR0005"),
        ('T.call_intrin("float64", "tir.exp", x)', "TIR0114"),
        ('T.evaluate(T.Call("float32", "tir.call_llvm_intrin", [x]))', "TIR0123"),
    ],
)
def test_mistakes(call: str, code: str):
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(program(call, "x: T.float32"))
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.help


def test_every_name_is_one_that_llvm_has():
    for name, dtype in CASES:
        llvm_says(name, DataType(dtype), [values(DataType(dtype), 1, 0)] * INTRINSICS[name].arity)


def test_programs_without_such_calls_stay_as_they_are():
    module = from_source(
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def main():\n        T.evaluate(0)\n"
    )
    assert link_calls(module) is module


def test_the_reference_lists_every_intrinsic():
    text = (ROOT / "docs" / "reference" / "tirscript.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in INTRINSICS)
