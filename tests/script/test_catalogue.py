"""The catalogue of bad input, its rows on the language as text; see ``tests/test_catalogue.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loomir
from loomir.ir import structural_equal
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.tir import BufferStore, PrimFunc, Var, const, decl_buffer


def test_23_an_expression_ten_thousand_deep():
    buffer = decl_buffer((1,), "int32", "A")
    value = buffer[const(0, "int32")]
    for _ in range(10_000):
        value = value + 1
    handle = Var("a", "handle")
    body = BufferStore(buffer, value, (const(0, "int32"),))
    func = PrimFunc((handle,), body, None, {handle: buffer}, {"global_symbol": "main"})
    assert func.script().count("+ 1") == 10_000
    assert not loomir.verify(func)
    array = np.zeros(1, "int32")
    loomir.interpret(func, array)
    assert array[0] == 10_000
    loomir.compile(func, opt_level=1)(array)
    assert array[0] == 20_000


def test_23_a_text_nested_too_deeply_for_python():
    text = f"@T.prim_func\ndef f(A: T.Buffer((1,), 'int32')):\n    A[0] = {'(' * 500}1{')' * 500}\n"
    with pytest.raises(CompileError, match="SCR0001"):
        from_source(text)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_24_unsigned_expressions(dtype: str):
    func = from_source(
        f"""
@T.prim_func
def f(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((16,), "{dtype}")):
    for i in range(16):
        B[i] = (A[i] - T.{dtype}(3)) // T.{dtype}(2) + T.min(A[i] * A[i], A[i] - T.{dtype}(1)) % (
            T.max(A[i], T.{dtype}(1))
        )
"""
    )
    a = np.array([0, 1, 2, 3, 7, 100, 200, 255] * 2, dtype)
    a[8:] = ~a[:8]
    native, defined = np.zeros(16, dtype), np.zeros(16, dtype)
    loomir.compile(func)(a, native)
    loomir.interpret(func, a, defined)
    with np.errstate(over="ignore"):
        three, two, one = (np.array(k, dtype) for k in (3, 2, 1))
        wanted = (a - three) // two + np.minimum(a * a, a - one) % np.maximum(a, one)
    np.testing.assert_array_equal(defined, wanted)
    np.testing.assert_array_equal(native, wanted)


@pytest.mark.parametrize(
    "value",
    [
        "__import__('os').system('touch {canary}')",
        "eval(\"open('{canary}', 'w')\")",
        "(lambda: open('{canary}', 'w'))()",
        "T.__class__.__mro__[-1].__subclasses__()",
        "[open('{canary}', 'w') for _ in range(1)][0]",
    ],
)
def test_26_text_with_code_in_it(tmp_path: Path, value: str):
    canary = tmp_path / "canary"
    text = (
        "@T.prim_func\ndef f(A: T.Buffer((1,), 'int32')):\n"
        f"    A[0] = {value.replace('{canary}', str(canary))}\n"
    )
    with pytest.raises(CompileError) as caught:
        from_source(text)
    assert all(d.span is not None and d.span.line == 3 for d in caught.value.diagnostics)
    assert not canary.exists()


def test_40_a_class_inside_of_try(tmp_path: Path):
    file = tmp_path / "guarded.py"
    file.write_text(
        "from loomir.script import ir as I, tir as T\n"
        "try:\n"
        "    @I.ir_module\n"
        "    class Guarded:\n"
        "        @T.prim_func\n"
        "        def f(A: T.Buffer((1,), 'int32')):\n"
        "            A[0] = 7\n"
        "except ImportError:\n"
        "    raise\n"
        "print(Guarded['f'].name)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == "f\n"


@pytest.mark.parametrize("text", ["grüße", "数据", "a\u202eb", "\ud800", 'quote " and \\ and \n'])
def test_41_unicode_in_an_attribute(text: str):
    func = from_source("@T.prim_func\ndef f(A: T.Buffer((1,), 'int32')):\n    A[0] = 1\n")
    marked = PrimFunc(
        func.params, func.body, func.ret_type, func.buffer_map, {**func.attrs, "note": text}
    )
    again = from_source(marked.script())
    assert again.attrs["note"] == text
    assert structural_equal(again, marked)


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (("for i in range(4):", "    A[i] = 1", "else:", "    A[0] = 2"), 6),
        (("while A[0] > 0:", "    A[0] = 1", "else:", "    A[0] = 2"), 6),
        (("if A[0] in (1, 2):", "    A[0] = 1"), 3),
    ],
)
def test_42_what_is_not_understood_is_not_dropped(lines: tuple[str, ...], line: int):
    text = "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32')):\n"
    text += "".join(f"    {row}\n" for row in lines)
    with pytest.raises(CompileError) as caught:
        from_source(text)
    assert caught.value.diagnostics[0].code.startswith("SCR")
    assert caught.value.diagnostics[0].span.line == line  # type: ignore[union-attr]
