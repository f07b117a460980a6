"""Calls of C functions: the same in the interpreter and in native code."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.linalg import _umath_linalg

import loomir
from loomir.ir.equality import structural_equal
from loomir.runtime import register_func, remove_func
from loomir.runtime.packed import externs
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from loomir.tir import PrimFunc
from tests.clause import clauses
from tests.runtime.packed.test_packed_call import compiled, interpreted, program

Engine = Callable[..., Any]


@pytest.fixture(params=[interpreted, compiled])
def run(request: pytest.FixtureRequest) -> Engine:
    return request.param


@pytest.fixture(autouse=True)
def _clean() -> Generator[None]:
    before = dict(externs._registered)
    yield
    externs._registered.clear()
    externs._registered.update(before)


def returning(expr: str, dtype: str, params: str = "") -> PrimFunc:
    return program(f"T.ret({expr})", params, f"T.{dtype}")


# -- the C library ------------------------------------------------------------------------------
@clauses("TS-TREF-15")
def test_functions_of_the_c_library(run: Engine):
    main = returning('T.call_extern("float64", "floor", x)', "float64", "x: T.float64")
    assert run(main, -2.5) == -3.0
    main = returning('T.call_pure_extern("float32", "fabsf", x)', "float32", "x: T.float32")
    assert run(main, -0.5) == 0.5
    main = returning('T.call_extern("labs", x, dtype="int64")', "int64", "x: T.int64")
    assert run(main, -5) == 5
    main = returning('T.call_extern("toupper", 97)', "int32")
    assert run(main) == 65
    main = returning('T.call_extern("int64", "strlen", "äß\\n%s")', "int64")
    assert run(main) == 7


def test_a_buffer_is_the_address_of_its_data(run: Engine):
    main = program(
        'T.call_extern("handle", "memcpy", B, A.data, T.uint64(8))',
        'A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")',
    )
    a, b = np.arange(1, 5, dtype="int32"), np.zeros(4, "int32")
    run(main, a, b)
    assert b.tolist() == [1, 2, 0, 0]


def test_the_offset_of_an_array_is_in_its_address(run: Engine):
    main = program(
        'B = T.alloc_buffer((4,), "int32")\n'
        'T.call_extern("handle", "memcpy", B, A, T.uint64(16))\n'
        "for i in range(4):\n    A[i] = B[3 - i]",
        'A: T.Buffer((4,), "int32")',
    )
    a = np.arange(8, dtype="int32")
    run(main, a[2:6])
    assert a.tolist() == [0, 1, 5, 4, 3, 2, 6, 7]


def test_a_function_with_any_number_of_arguments(run: Engine):
    main = program(
        'T.call_extern("snprintf", A, T.uint64(64), "%d %s %.3f %lld %c|", 7, "seven", '
        "T.float32(0.5), T.int64(-1099511627776), T.int8(65))",
        'A: T.Buffer((64,), "uint8")',
    )
    a = np.zeros(64, "uint8")
    run(main, a)
    assert bytes(a).partition(b"\0")[0] == b"7 seven 0.500 -1099511627776 A|"


# -- types --------------------------------------------------------------------------------------
C_TYPES = {
    "bool": (ctypes.c_bool, [True, False]),
    "int8": (ctypes.c_int8, [-128, -1, 127]),
    "uint8": (ctypes.c_uint8, [0, 255]),
    "int16": (ctypes.c_int16, [-(2**15), 2**15 - 1]),
    "uint16": (ctypes.c_uint16, [2**16 - 1]),
    "int32": (ctypes.c_int32, [-(2**31), 2**31 - 1]),
    "uint32": (ctypes.c_uint32, [2**32 - 1]),
    "int64": (ctypes.c_int64, [-(2**63), 2**63 - 1]),
    "uint64": (ctypes.c_uint64, [2**64 - 1]),
    "float32": (ctypes.c_float, [1.5, -0.0, math.inf]),
    "float64": (ctypes.c_double, [0.1, -math.inf]),
}


@pytest.mark.parametrize("dtype", C_TYPES)
def test_numbers_of_every_dtype_go_and_come(run: Engine, dtype: str):
    kind, values = C_TYPES[dtype]
    seen: list[object] = []

    def echo(x: Any, y: float, z: Any) -> Any:
        seen.append((x, y, z))
        return x

    echo_c = ctypes.CFUNCTYPE(kind, kind, ctypes.c_double, kind)(echo)
    externs.register_extern("test_echo", echo_c)
    main = returning(
        f'T.call_extern("{dtype}", "test_echo", x, T.float64(2.5), x)', dtype, f"x: T.{dtype}"
    )
    for value in values:
        result = run(main, value)
        assert result == value
        assert str(result) == str(value)
        assert seen.pop() == (value, 2.5, value)


def test_more_arguments_than_registers(run: Engine):
    kinds = [ctypes.c_int8, ctypes.c_double, ctypes.c_int64, ctypes.c_float] * 5
    seen: list[object] = []
    function = ctypes.CFUNCTYPE(None, *kinds)(lambda *a: seen.extend(a))
    externs.register_extern("test_many", function)
    args = ", ".join(
        f"T.int8({-i}), T.float64({i}.5), T.int64({2**40 + i}), T.float32({i}.25)" for i in range(5)
    )
    run(program(f'T.call_extern("void", "test_many", {args})'))
    assert seen == [v for i in range(5) for v in (-i, i + 0.5, 2**40 + i, i + 0.25)]


def test_handles_go_and_come(run: Engine):
    cell = ctypes.c_int64(5)
    give = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(cell))
    read = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(
        lambda p: ctypes.c_int64.from_address(p).value if p else -1
    )
    externs.register_extern("test_give", give)
    externs.register_extern("test_read", read)
    main = returning(
        'T.call_extern("int64", "test_read", T.call_extern("handle", "test_give"))', "int64"
    )
    assert run(main) == 5
    main = returning('T.call_extern("int64", "test_read", None)', "int64")
    assert run(main) == -1


def test_one_name_with_several_types(run: Engine):
    twice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    externs.register_extern("test_twice", twice)
    main = returning(
        'T.call_extern("int64", "test_twice", T.int64(4)) + T.Cast("int64", '
        'T.call_extern("int32", "test_twice", 5))',
        "int64",
    )
    assert run(main) == 18


def test_names_of_the_compiler_are_free(run: Engine):
    made = {}
    for name in ("main", "free", "snprintf", "loomir_call_packed", "TVMFFIFunctionCall"):
        made[name] = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda name=name: len(name))
        if name != "main":
            externs.register_extern(name, made[name])
    total = " + ".join(f'T.call_extern("int32", "{n}")' for n in made if n != "main")
    assert run(returning(total, "int32")) == sum(len(n) for n in made if n != "main")


# -- which function -----------------------------------------------------------------------------
def test_an_unknown_function_is_refused_by_name(run: Engine):
    main = program(
        'A[0] = T.call_extern("int32", "no_such_function", 1)', 'A: T.Buffer((1,), "int32")'
    )
    with pytest.raises(loomir.CompileError) as caught:
        run(main, np.zeros(1, "int32"))
    assert caught.value.diagnostic.code == "TIR0511"
    assert "'no_such_function'" in str(caught.value)
    assert caught.value.diagnostic.span is not None


def test_a_function_that_is_gone_when_the_code_is_loaded():
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 1)
    externs.register_extern("test_gone", function)
    exe = loomir.compile(returning('T.call_extern("int32", "test_gone")', "int32"))
    del externs._registered["test_gone"]
    with pytest.raises(loomir.CompileError, match="test_gone"):
        exe()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_functions_of_a_library(run: Engine, tmp_path: Path):
    source = tmp_path / "own.c"
    source.write_text(
        "#include <stdint.h>\n"
        "int8_t test_own_i8(int8_t a, uint8_t b, _Bool c) { return c ? a : (int8_t)b; }\n"
        "void test_own_scale(float *a, int64_t n, float f) "
        "{ for (int64_t i = 0; i < n; i++) a[i] *= f; }\n"
    )
    library = tmp_path / "libown.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    loomir.load_library(library)
    try:
        main = program(
            'T.call_extern("void", "test_own_scale", A, T.int64(4), T.float32(0.5))',
            'A: T.Buffer((4,), "float32")',
        )
        a = np.arange(4, dtype="float32")
        run(main, a)
        assert a.tolist() == [0, 0.5, 1, 1.5]
        text = 'T.call_extern("int8", "test_own_i8", T.int8(-7), T.uint8(200), T.bool({}))'
        assert run(returning(text.format("True"), "int8")) == -7
        assert run(returning(text.format("False"), "int8")) == -56
    finally:
        externs._libraries.pop()


def test_a_library_that_is_none(tmp_path: Path):
    (tmp_path / "libbad.so").write_text("no library")
    for path in (tmp_path / "libbad.so", "/nowhere/lib.so"):
        with pytest.raises(ValueError, match="cannot be loaded") as caught:
            loomir.load_library(path)
        assert isinstance(caught.value, RunError)


@pytest.mark.parametrize("value", [0, -1, 2**64, None, "x", 1.5, lambda: 0, True])
def test_what_is_no_c_function(value: object):
    with pytest.raises(TypeError) as caught:
        loomir.register_extern("test_bad", value)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0309"


def test_a_function_of_the_module_comes_first(run: Engine):
    module = from_source(
        "@I.ir_module\n"
        "class Module:\n"
        "    @T.prim_func\n"
        '    def abs(A: T.Buffer((4,), "int32"), n: T.int32):\n'
        "        for i in range(4):\n"
        "            A[i] = A[i] + n\n"
        "    @T.prim_func\n"
        "    def toupper(n: T.int32) -> T.int32:\n"
        "        T.ret(n * 2)\n"
        "    @T.prim_func\n"
        '    def main(A: T.Buffer((4,), "int32")):\n'
        '        T.call_extern("int32", "abs", A.data, T.call_extern("int32", "toupper", 21))\n'
    )
    a = np.zeros(4, "int32")
    run(module, "main", a)
    assert a.tolist() == [42] * 4


def test_arguments_for_a_function_of_the_module_are_checked():
    module = from_source(
        "@I.ir_module\n"
        "class Module:\n"
        "    @T.prim_func\n"
        "    def half(n: T.int32) -> T.int32:\n"
        "        T.ret(n // 2)\n"
        "    @T.prim_func\n"
        "    def main() -> T.int32:\n"
        '        T.ret(T.call_extern("int32", "half", 1, 2))\n'
    )
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(module)
    assert caught.value.diagnostic.code == "TIR0409"


# -- effects ------------------------------------------------------------------------------------
@clauses("TIR-STATE-04", "TIR-BLTN-06")
def test_calls_happen_in_order_and_as_often_as_written(run: Engine):
    seen: list[int] = []
    note = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda i: seen.append(i) or i)
    externs.register_extern("test_note", note)
    register_func("test.note", lambda i: seen.append(i) or i, override=True)
    main = program(
        "for i in T.vectorized(4):\n"
        '    A[i] = T.call_extern("int32", "test_note", i)\n'
        "for i in T.unroll(2):\n"
        '    A[i] = T.call_packed("test.note", 10 + i) * 0\n'
        'T.call_extern("int32", "test_note", 20)\n'
        'x = T.call_extern("int32", "test_note", 21)\n'
        'if T.call_packed("test.note", 22) < 0 and T.call_packed("test.note", 23) < 0:\n'
        "    A[0] = 1",
        'A: T.Buffer((4,), "int32")',
    )
    a = np.zeros(4, "int32")
    run(main, a)
    remove_func("test.note")
    assert seen == [0, 1, 2, 3, 10, 11, 20, 21, 22]
    assert a.tolist() == [0, 0, 2, 3]


def test_a_pure_call_in_a_vector_loop(run: Engine):
    main = program(
        "for i in T.vectorized(8):\n"
        '    A[i] = T.call_pure_extern("float32", "cbrtf", A[i]) + T.float32(1)',
        'A: T.Buffer((8,), "float32")',
    )
    a = (np.arange(8, dtype="float32") + 1) ** 3
    run(main, a)
    assert np.allclose(a, np.arange(8) + 2)


def test_memory_that_a_c_function_changes_is_read_again(run: Engine):
    a = np.zeros(2, "int32")
    poke = ctypes.CFUNCTYPE(None)(lambda: a.__setitem__(0, a[0] + 1))
    externs.register_extern("test_poke", poke)
    main = program(
        'for i in range(3):\n    T.call_extern("void", "test_poke")\n    A[1] = A[1] * 10 + A[0]',
        'A: T.Buffer((2,), "int32")',
    )
    run(main, a)
    assert a.tolist() == [3, 123]


def test_threads_call_c_functions():
    seen: set[int] = set()
    lock = threading.Lock()

    def note(i: int) -> int:
        with lock:
            seen.add(i)
        return i

    note_c = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(note)
    externs.register_extern("test_note", note_c)
    main = program(
        'for i in T.parallel(64):\n    A[i] = T.call_extern("int32", "test_note", i)',
        'A: T.Buffer((64,), "int32")',
    )
    a = np.zeros(64, "int32")
    loomir.compile(main)(a)
    assert seen == set(range(64))
    assert a.tolist() == list(range(64))


@pytest.mark.parametrize(
    "call",
    [
        'T.call_packed("test.fill", B)',
        'T.call_extern("handle", "memset", B, 1, T.uint64(16))',
        'T.call_extern("handle", "memset", B.data, 1, T.uint64(16))',
    ],
)
def test_memory_that_goes_out_counts_as_written(call: str):
    def fill(x: np.ndarray) -> None:
        x[...] = 0x01010101

    register_func("test.fill", fill, override=True)
    main = program(
        'B = T.alloc_buffer((4,), "int32")\n'
        'C = T.alloc_buffer((4,), "int32")\n'
        f"{call}\n"
        "for i in T.parallel(4):\n"
        "    A[i] = B[i]\n"
        "if n > 0:\n"
        "    A[0] = C[0]",
        'A: T.Buffer((4,), "int32"), n: T.int32',
    )
    a = np.zeros(4, "int32")
    exe = loomir.compile(main, checked=True)
    for watched in (exe, lambda *v: loomir.interpret(main, *v, track=True)):
        a[:] = 0
        watched(a, 0)
        assert a.tolist() == [0x01010101] * 4
        with pytest.raises(RunError) as caught:
            watched(a, 1)
        assert caught.value.diagnostic.code == "RUN0209"
    remove_func("test.fill")


# -- text ---------------------------------------------------------------------------------------
@clauses("TS-TREF-15")
def test_the_name_may_come_first():
    a = program('T.call_extern("int32", "abs", x)', "x: T.int32")
    assert structural_equal(program('T.call_extern("abs", x)', "x: T.int32"), a)
    assert structural_equal(program('T.call_extern("abs", x, dtype="int32")', "x: T.int32"), a)
    assert structural_equal(program('T.call_extern(T.int32, "abs", x)', "x: T.int32"), a)


@pytest.mark.parametrize(
    "call",
    [
        'T.call_extern("int32", "abs", 1)',
        'T.call_extern("void", "f", A.data, "int32")',
        'T.call_extern("int32", "float32")',
        'T.call_pure_extern("float64", "cbrt", 1.5)',
    ],
)
def test_calls_print_as_they_are_read(call: str):
    made = program(call, 'A: T.Buffer((4,), "float32")')
    assert structural_equal(made, from_source(made.script()))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('T.call_extern("int32", "")', "TIR0121"),
        ('T.call_extern("int32", "a b")', "TIR0121"),
        ('T.call_extern("int32", "f;ret void")', "TIR0121"),
        ('T.call_extern("int32", "abs", T.float16(1))', "TIR0122"),
        ('T.call_extern("bfloat16", "f")', "TIR0122"),
        ('T.call_extern("int32x4", "f")', "TIR0122"),
        ('T.call_pure_extern("int32", "abs", T.Broadcast(1, 4))', "TIR0122"),
    ],
)
def test_mistakes(call: str, code: str):
    with pytest.raises(loomir.CompileError) as caught:
        program(call)
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.span is not None


def test_objects_hold_no_addresses():
    """What the cache keeps fits every process."""
    exe = loomir.compile(returning('T.call_extern("int32", "abs", -3)', "int32"), cache=False)
    address = externs.find_extern("abs")
    assert str(address) not in exe.llvm_ir()
    assert exe() == 3


def test_every_dtype_of_c_has_a_type():
    assert set(C_TYPES) | {"handle", "void"} == set(externs._C_TYPES)
    assert all(DataType(d) for d in C_TYPES)


@pytest.mark.skipif(sys.platform != "linux", reason="shared libraries are ELF files")
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.6])
def test_a_library_that_was_cut_off_is_refused(kept: float, tmp_path: Path):
    whole = Path(_umath_linalg.__file__).read_bytes()
    path = tmp_path / "cut.so"
    path.write_bytes(whole[: int(len(whole) * kept)])
    code = f"import loomir; loomir.load_library({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "error[RUN0308]" in done.stderr
