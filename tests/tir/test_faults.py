"""One table of faults: what the interpreter and native code say of the same mistake."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from string import Formatter
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from loomir.tir.faults import FAULTS, fault

Z = np.zeros
PROGRAMS: dict[str, tuple[str, Callable[[], tuple[Any, ...]], str, int]] = {
    "floor division": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((1,), "int32")):
            y[0] = 8 // n
        """,
        lambda: (0, Z(1, "int32")),
        "RUN0201",
        4,
    ),
    "modulo": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((1,), "int32")):
            y[0] = T.truncmod(8, n)
        """,
        lambda: (0, Z(1, "int32")),
        "RUN0201",
        4,
    ),
    "assertion": (
        """
        @T.prim_func
        def f(n: T.int32):
            assert n > 0, "{n} %d must be positive"
        """,
        lambda: (0,),
        "RUN0202",
        4,
    ),
    "index": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((2, 3), "int32")):
            y[1, n] = 0
        """,
        lambda: (3, Z((2, 3), "int32")),
        "RUN0203",
        4,
    ),
    "index of a view": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((8,), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(y[2:5], (3,), "int32")
                V[n] = 0
        """,
        lambda: (3, Z(8, "int32")),
        "RUN0203",
        6,
    ),
    "index of a view's source": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((8,), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(y[n : n + 3], (3,), "int32")
                V[2] = 0
        """,
        lambda: (6, Z(8, "int32")),
        "RUN0203",
        6,
    ),
    "recursion": (
        """
        @I.ir_module
        class M:
            @T.prim_func(private=True)
            def g(n: T.int32) -> T.int32:
                return M.g(n + 1)

            @T.prim_func
            def f(n: T.int32) -> T.int32:
                return M.g(n)
        """,
        lambda: (0,),
        "RUN0204",
        6,
    ),
    "missing return": (
        """
        @T.prim_func
        def f(n: T.int32) -> T.int32:
            if n > 0:
                return n
        """,
        lambda: (0,),
        "RUN0205",
        3,
    ),
    "negative extent": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((1,), "int32")):
            A = T.alloc_buffer((n,), "int32")
            A[0] = 1
            y[0] = A[0]
        """,
        lambda: (-1, Z(1, "int32")),
        "RUN0206",
        4,
    ),
    "size beyond 64 bits": (
        """
        @T.prim_func
        def f(n: T.int64, y: T.Buffer((1,), "int32")):
            A = T.alloc_buffer((n, n), "int32")
            A[0, 0] = 1
            y[0] = A[0, 0]
        """,
        lambda: (2**31, Z(1, "int32")),
        "RUN0206",
        4,
    ),
    "no memory": (
        """
        @T.prim_func
        def f(n: T.int64, y: T.Buffer((1,), "int32")):
            A = T.alloc_buffer((n,), "int32")
            A[0] = 1
            y[0] = A[0]
        """,
        lambda: (2**56, Z(1, "int32")),
        "RUN0207",
        4,
    ),
    "loop": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((1,), "int32")):
            for i in T.serial(n, n + 3):
                y[0] = i
        """,
        lambda: (2147483646, Z(1, "int32")),
        "RUN0208",
        4,
    ),
    "extent of a view": (
        """
        @T.prim_func
        def f(n: T.int32, m: T.int32, y: T.Buffer((8,), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(y[0:n], (m,), "int32")
                V[0] = 1
        """,
        lambda: (4, 3, Z(8, "int32")),
        "RUN0211",
        5,
    ),
    "stride of a view": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((4, 4), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(y[0:2, 0:2], (2, 2), "int32", strides=(n, 1))
                V[0, 0] = 1
        """,
        lambda: (3, Z((4, 4), "int32")),
        "RUN0211",
        5,
    ),
    "offset of a view": (
        """
        @T.prim_func
        def f(n: T.int32, y: T.Buffer((8,), "int32")):
            with T.sblock("b"):
                V = T.match_buffer(y[2:4], (2,), "int32", elem_offset=n + 1)
                V[0] = 1
        """,
        lambda: (3, Z(8, "int32")),
        "RUN0211",
        5,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_engines_say_the_same(name: str) -> None:
    text, args, code, line = PROGRAMS[name]
    module = from_source(textwrap.dedent(text))
    exe = loomir.compile(module, check_bounds=True, cache=False)
    found: list[RunError] = []
    for run in (exe["f"], lambda *a: loomir.interpret(module, "f", *a)):
        with pytest.raises(RunError) as caught:
            run(*args())
        found.append(caught.value)
    native, judge = found
    assert type(native) is type(judge)
    assert native.diagnostic == judge.diagnostic
    assert native.diagnostic.code == code
    assert native.diagnostic.help or code == "RUN0202"
    assert native.diagnostic.span is not None
    assert native.diagnostic.span.line == line


def test_every_row_is_complete() -> None:
    for row in FAULTS.values():
        assert row.help or row.kind.name == "ASSERTION"
        names = [name for _, name, _, _ in Formatter().parse(row.message) if name is not None]
        assert all(name.isidentifier() or name.isdigit() for name in names)


def test_texts_of_the_user_are_not_read_as_templates() -> None:
    assert fault("assertion", None, text="{0} {x}").diagnostic((7,)).message == "{0} {x}"
    made = fault("race_write", None, buffer="A{0}", axes=2, first=1)
    assert "iteration 7" in made.diagnostic((7, 1, 2)).message
    assert "A{0}[1, 2]" in made.diagnostic((7, 1, 2)).message
