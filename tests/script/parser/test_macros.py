# ruff: noqa: N803, F841, C416  (what is read by Loomir, not run by Python)
"""Programs that are computed while they are read: macros, loops over plain values, f-strings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from loomir.ir import assert_structural_equal
from loomir.script import from_source
from loomir.script import tir as T
from loomir.script.parser.core import MAX_STATEMENTS
from loomir.script.parser.macros import MAX_DEPTH
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir import PrimFunc
from tests.script.parser.programs import marked, read, refused

SIZE = 4


@T.macro
def fill(B: T.Buffer, value: Any, n: Any = SIZE):
    for i in range(n):
        B[i] = value


@T.inline
def scale(B: Any, *places: Any):
    for p in places:
        B[p] = B[p] * FACTOR


@T.macro(hygienic=False)
def store_q(B: Any):
    B[i] = q  # noqa: F821, names of the caller


@T.macro
def sum_up(B: Any, low: Any, high: Any):
    if high - low == 1:
        B[0] = B[0] + B[low]
    else:
        sum_up(B, low, (low + high) // 2)
        sum_up(B, (low + high) // 2, high)


SIZE = 99  # too late for a macro, in time for what follows
FACTOR = T.float32(3)

HEAD = '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), x: T.int32):\n'


def same(made: PrimFunc, *lines: str) -> None:
    """Compare a function with the same one written by hand."""
    text = "".join(f"    {line}\n" for line in lines)
    assert_structural_equal(made, read(HEAD + text))
    assert_structural_equal(made, from_source(made.script()))


def mistakes(define: Callable[[], Any]) -> list[Diagnostic]:
    """List what a definition is refused for."""
    with pytest.raises(CompileError) as caught:
        define()
    return list(caught.value.diagnostics)


# -- names -------------------------------------------------------------------------------------
def test_names_of_a_macro_mean_what_they_meant_at_its_definition():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), x: T.int32):
        fill(A, T.float32(1))
        fill(A, value=A[x], n=2)

    same(
        f,
        *("for i in range(4):", "    A[i] = T.float32(1)"),
        *("for i in range(2):", "    A[i] = A[x]"),
    )


def test_names_of_an_inline_mean_what_they_mean_at_the_call():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), x: T.int32):
        scale(A, x, 2)

    same(f, "A[x] = A[x] * T.float32(3)", "A[2] = A[2] * T.float32(3)")


def test_names_of_a_macro_without_hygiene_are_the_caller_s():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), x: T.int32):
        for i in range(8):
            q = A[i] * A[i]
            store_q(A)

    same(f, "for i in range(8):", "    q = A[i] * A[i]", "    A[i] = q")


def test_a_closure_is_seen_at_once_by_a_macro_and_late_by_an_inline():
    level = T.float32(1)

    @T.macro
    def early(B: Any):
        B[0] = level

    @T.inline
    def late(B: Any):
        B[0] = level

    level = T.float32(2)

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), x: T.int32):
        early(A)
        late(A)

    same(f, "A[0] = T.float32(1)", "A[0] = T.float32(2)")


@pytest.mark.parametrize(
    ("decorator", "value"),
    [("@T.macro", "1"), ("@T.inline", "2"), ("@T.macro(hygienic=False)", "3")],
)
def test_the_three_kinds_in_a_function(decorator: str, value: str):
    text = (
        "w = T.meta_var(T.float32(1))",
        decorator,
        "def put(k):",
        "    A[k] = w",
        "w = T.meta_var(T.float32(2))",
        "for v in (T.float32(3),):",
        "    w = T.meta_var(v)",
        "    put(5)",
    )
    made = read(HEAD + "".join(f"    {line}\n" for line in text))
    same(made, f"A[5] = T.float32({value})")


def test_what_a_macro_binds_is_its_own():
    text = HEAD + (
        "    @T.macro\n    def twice(B, k):\n        y = B[k]\n        B[k] = y + y\n"
        "    twice(A, 1)\n    twice(A, 2)\n    A[0] = y\n"
    )
    (found,) = refused(text)
    assert (found.code, marked(text, found)) == ("SCR0003", "y")
    made = read(text.replace("A[0] = y", "pass"))
    same(made, "y = A[1]", "A[1] = y + y", "y2 = A[2]", "A[2] = y2 + y2")


def test_a_macro_changes_a_variable_of_the_function_only_without_hygiene():
    lines = "    s = T.float32(0)\n    s = s + A[0]\n    {}\n    def add():\n        s += A[1]\n    add()\n"
    (found,) = refused(HEAD + lines.format("@T.macro"))
    assert (found.code, found.help[:28]) == ("SCR0016", "write @T.macro(hygienic=Fals")
    made = read(HEAD + lines.format("@T.macro(hygienic=False)"))
    same(made, "s = T.float32(0)", "s = s + A[0]", "s = s + A[1]")


def test_macros_of_a_text():
    text = (
        "from loomir.script import tir as T\n\nN = 2\n\n@T.macro\ndef g(B):\n    B[N] = T.float32(1)\n\n"
        '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), x: T.int32):\n    g(A)\n'
    )
    same(read(text), "A[2] = T.float32(1)")


def test_a_macro_calls_itself_and_others():
    @T.macro
    def both(B: Any, first: Any, second: Any):
        first(B, T.float32(0))
        second(B, 1, 3)

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), x: T.int32):
        both(A, fill, sum_up)

    same(
        f,
        *("for i in range(4):", "    A[i] = T.float32(0)"),
        *("A[0] = A[0] + A[1]", "A[0] = A[0] + A[2]"),
    )


def test_a_macro_declares_axes_of_the_block_that_calls_it():
    text = HEAD + (
        "    @T.macro\n    def axes(i):\n        vi = T.axis.spatial(8, i)\n"
        "        T.writes(A[vi])\n        A[vi] = T.float32(1)\n"
        '    for i in range(8):\n        with T.sblock("b"):\n            axes(i)\n'
    )
    same(
        read(text),
        *("for i in range(8):", '    with T.sblock("b"):', "        vi = T.axis.spatial(8, i)"),
        *("        T.reads()", "        T.writes(A[vi])", "        A[vi] = T.float32(1)"),
    )


# -- mistakes ----------------------------------------------------------------------------------
@T.macro
def wrong(B: Any, k: Any):
    B[k] = unknown_name  # noqa: F821
    B[0, 1] = T.float32(0)


def test_mistakes_in_a_macro_point_into_it_and_at_the_call():
    def define():
        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            wrong(A, 3)
            wrong(A, 9)

    outside, undefined, indices = mistakes(define)
    assert [outside.code, undefined.code, indices.code] == ["SCR0019", "SCR0003", "TIR0107"]
    assert undefined.span is not None
    assert undefined.span.source.line(undefined.span.line) == (
        "    B[k] = unknown_name  # noqa: F821"
    )
    for found, call in ((undefined, "wrong(A, 3)"), (outside, "wrong(A, 9)")):
        ((at, label),) = found.secondary
        assert (at.source.line(at.line) or "").strip() == call
        assert label == "in the macro 'wrong', called here"


def test_what_no_call_can_mend_is_refused_at_the_definition():
    def define():
        @T.macro
        def g(B: Any, **rest: Any):
            B[0] = [v for v in B]
            return 1

    assert [d.code for d in mistakes(define)] == ["SCR0028", "SCR0002", "SCR0028"]


CALLS = [
    ("g(A)", "SCR0005", "g(A)", "its parameters: B, k"),
    ("g(A, 1, 2)", "SCR0005", "g(A, 1, 2)", "its parameters: B, k"),
    ("g(A, 1, j=2)", "SCR0005", "g(A, 1, j=2)", "its parameters: B, k"),
    ("y = g(A, 1)", "SCR0028", "g(A, 1)", "write the call as a statement"),
    ("A[0] = T.exp(g(A, 1))", "SCR0028", "g(A, 1)", "write the call as a statement"),
    ("g(A, zz)", "SCR0003", "zz", "define it before"),
    ("g.name", "SCR0006", "g.name", "use the value itself"),
]


@pytest.mark.parametrize(("call", "code", "under", "help"), CALLS, ids=lambda v: v[:24])
def test_mistakes_in_a_call(call: str, code: str, under: str, help: str):
    text = HEAD + f"    @T.macro\n    def g(B, k):\n        B[k] = T.float32(1)\n    {call}\n"
    (found,) = refused(text)
    assert (found.code, marked(text, found)) in ((code, under), (code, under.split(".")[-1]))
    assert found.help.startswith(help)


def test_a_macro_in_a_module_is_refused():
    text = "@I.ir_module\nclass M:\n    @T.macro\n    def g(B):\n        pass\n"
    (found,) = refused(text)
    assert (found.code, found.help[:27]) == ("SCR0028", "write it before the class, ")


def test_a_macro_is_not_called_from_python():
    with pytest.raises(CompileError, match="outside of a program"):
        fill(1, 2)


@pytest.mark.parametrize("calls", [1, 3])
def test_macros_without_end(calls: int):
    text = HEAD + "    @T.inline\n    def g(n):\n" + "        g(n + 1)\n" * calls + "    g(0)\n"
    (found,) = refused(text)
    assert found.code == "SCR0029"
    assert str(MAX_DEPTH) in found.message
    assert len(found.secondary) <= 3


def test_a_depth_that_ends_is_fine():
    text = (
        "@T.macro\ndef g(B, n):\n    if n > 0:\n        B[n % 8] = T.float32(n)\n        g(B, n - 1)\n\n"
        + HEAD
        + f"    g(A, {MAX_DEPTH - 1})\n"
    )
    lines = [f"A[{n % 8}] = T.float32({n})" for n in range(MAX_DEPTH - 1, 0, -1)]
    same(read(text), *lines)


def test_too_many_statements():
    deep = "".join(f"{'    ' * d}for v{d} in tuple(range(50)):\n" for d in range(1, 5))
    (found,) = refused(HEAD + deep + "    " * 5 + "pass\n" + "    A[0] = T.float32(0)\n")
    assert found.code == "SCR0029"
    assert str(MAX_STATEMENTS) in found.message


# -- plain values ------------------------------------------------------------------------------
def test_a_loop_over_plain_values_is_written_out():
    text = HEAD + (
        "    for k, v in ((1, 2.0), (3, A[0])):\n        A[k] = v\n"
        "    for i in tuple(range(2)):\n        y = A[i]\n        A[i + 4] = y\n"
        "    for i, d in enumerate(A.shape):\n        A[i] = T.float32(d)\n"
        '    for a, b in zip([6, 7], ("p", "q")):\n        A[a] = T.float32(len(b))\n'
        "    for nothing in ():\n        A[0] = T.float32(77)\n"
        "    for i in reversed((1, 2)):\n        A[i] = T.float32(i)\n"
    )
    same(
        read(text),
        *("A[1] = T.float32(2)", "A[3] = A[0]"),
        *("y = A[0]", "A[4] = y", "z = A[1]", "A[5] = z"),
        *('A[0] = T.Cast("float32", 8)', "A[6] = T.float32(1)", "A[7] = T.float32(1)"),
        *("A[2] = T.float32(2)", "A[1] = T.float32(1)"),
    )


@pytest.mark.parametrize(
    ("lines", "code", "under"),
    [
        ("for v in (1, 2):\n        break", "SCR0021", "break"),
        ("for v in (1, 2):\n        continue", "SCR0021", "continue"),
        ("for v in (1, 2):\n        v = 3", "SCR0016", "v"),
        ("for x in (1, 2):\n        pass", "SCR0016", "x"),
        ("for a, b in ((1, 2), 3):\n        pass", "SCR0027", "a, b"),
        ("for v in ({'a': 1},):\n        A[v['b']] = T.float32(0)", "SCR0008", "v['b']"),
        ("for v in 'ab':\n        pass", "SCR0012", "'ab'"),
    ],
)
def test_mistakes_in_a_loop_over_plain_values(lines: str, code: str, under: str):
    text = f"{HEAD}    {lines}\n"
    (found,) = refused(text)
    assert (found.code, marked(text, found)) == (code, under)


def test_a_loop_of_the_program_in_one_over_plain_values_can_be_left():
    text = HEAD + "    for n in (2, 3):\n        for i in range(n):\n            break\n"
    same(read(text), "for i in range(2):", "    break", "for i in range(3):", "    break")


# A star in an index is Python's since 3.11.
INDEX = "*(vi, vj)" if sys.version_info >= (3, 11) else "vi, vj"


def test_f_strings_and_stars():
    text = (
        '@T.prim_func\ndef f(A: T.Buffer((4, 8), "float32")):\n'
        "    for i, j in T.grid(*A.shape):\n"
        '        for n, axes in (("a", (i, j)),):\n'
        '            with T.sblock(f"blk_{n}_{len(axes):02d}_{A.dtype}_{A.shape[1]!r}{{}}"):\n'
        '                vi, vj = T.axis.remap("SS", [*axes])\n'
        f"                A[{INDEX}] = T.float32(1)\n"
    )
    made = read(text).script()
    assert 'with T.sblock("blk_a_02_float32_8{}"):' in made
    assert "for i, j in T.grid(4, 8):" in made
    assert "A[vi, vj] = T.float32(1.0)" in made


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ('f"{x}"', "x"),
        ('f"{A}"', "A"),
        ('f"{1:>99999999}"', "1"),
        ('f"{1:{2}{3}{4}}"', "1"),
        ("f\"{'a':d}\"", "'a'"),
    ],
)
def test_what_an_f_string_does_not_hold(text: str, under: str):
    whole = HEAD + f"    assert x > 0, {text}\n"
    (found,) = refused(whole)
    assert (found.code, marked(whole, found)) == ("SCR0005", under)


def test_values_that_are_computed_while_reading():
    text = HEAD + (
        "    n = T.meta_var(sum([1, 2]) + divmod(7, 2)[0])\n"
        "    a, (b, c) = T.meta_var((1, (2, x)))\n"
        "    A[n] = A[a] + A[b] + A[c]\n"
        "    if any((False, n > 5)) and sorted([3, 1])[0] == 1:\n        A[0] = T.float32(n)\n"
    )
    same(read(text), "A[6] = A[1] + A[2] + A[x]", "A[0] = T.float32(6)")
