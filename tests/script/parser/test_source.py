# ruff: noqa: N803, N805, F821  (programs of TVMScript, whose names are its own)
"""Decorators find their source wherever Python keeps it, and say so where it does not."""

from __future__ import annotations

import doctest
import linecache
import os
import sys
import textwrap
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from loomir.ir import IRModule, assert_structural_equal
from loomir.script import from_source, parse, tirx
from loomir.script import ir as I
from loomir.script import tir as T
from loomir.script.tir import prim_func
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir import FloatImm, For, IntImm, PrimFunc
from tests.clause import clauses

SIZE = 16
DTYPE = "float32"
SHAPE = (4, SIZE)
TABLE = {"tile": (2, 3), "name": "copy"}


@T.prim_func
def at_top(A: T.Buffer((SIZE,), DTYPE), B: T.Buffer((SIZE,), DTYPE)):
    for i in range(SIZE):
        B[i] = A[i]


COPY = """
@T.prim_func
def at_top(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[i]
"""


@clauses("TS-DEC-03", "TS-OV-01", "TS-OV-04", "TS-FLOW-01")
def test_a_decorated_function_is_the_program_of_its_text():
    assert isinstance(at_top, PrimFunc)
    assert_structural_equal(at_top, from_source(COPY))


@clauses("TS-DEC-02", "TS-DEC-03", "TS-DEC-08")
def test_a_decorated_class_is_a_module_and_its_body_makes_no_programs():
    seen: list[object] = []

    def look(func: object) -> object:
        seen.append(func)
        return func

    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((SIZE,), "int32")):
            A[0] = 1

        @T.prim_func(private=True)
        def two(A: T.Buffer((SIZE,), "int32")):
            cls.one(A)

    assert isinstance(Module, IRModule)
    assert list(Module) == ["one", "two"]
    assert "global_symbol" not in Module["two"].attrs
    assert seen == []


@clauses("TS-DEC-01")
def test_the_dialect_has_two_names():
    assert tirx is T

    @tirx.prim_func
    def f(A: tirx.Buffer((4,), "int32")):
        with tirx.block("b"):
            A[0] = tirx.int32(1)

    first = f

    @prim_func
    def f(A: T.Buffer((4,), "int32")):
        with T.sblock("b"):
            A[0] = 1

    assert_structural_equal(first, f)


def test_values_around_a_function_are_read():
    local = 3

    class Config:
        tile = 5

    @T.prim_func
    def f(A: T.Buffer(SHAPE, DTYPE)):
        for i in range(local):
            for j in range(Config.tile):
                A[i, j] = T.float32(TABLE["tile"][1])

    assert isinstance(f.body, For)
    assert isinstance(f.body.extent, IntImm)
    assert f.body.extent.value == 3


def test_names_of_an_enclosing_function_reach_a_class_within():
    extent = 7
    names_only = "int8"

    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((extent,), names_only)):
            for i in range(extent):
                A[i] = T.int8(1)

    (func,) = Module.functions.values()
    assert isinstance(func, PrimFunc)
    (buffer,) = func.buffer_map.values()
    assert buffer.dtype == "int8"


class Color(Enum):
    RED = 4


class Level(IntEnum):
    HIGH = 6


class Point(NamedTuple):
    x: int
    y: int


Pair = namedtuple("Pair", "a b")


@dataclass
class Sizes:
    rows: int


@dataclass(slots=True)
class Slots:
    rows: int


VALUES: list[tuple[str, Any, int]] = [
    ("v", np.int64(5), 5),
    ("v", np.float32(2.0), 2),
    ("v.rows", Sizes(3), 3),
    ("v.rows", Slots(4), 4),
    ("v.x", Point(1, 2), 1),
    ("v.b", Pair(1, 2), 2),
    ("v[1]", Point(1, 2), 2),
    ("v.RED.value", Color, 4),
    ("v.value", Color.RED, 4),
    ("v", Level.HIGH, 6),
    ("v.n", SimpleNamespace(n=8), 8),
    ("v['a'][0]", {"a": [9]}, 9),
    ("len(v)", (1, 2, 3), 3),
    ("max(v)", (1, 2, 3), 3),
]


@pytest.mark.parametrize(("text", "value", "wanted"), VALUES)
def test_plain_values_and_their_attributes(text: str, value: Any, wanted: int):
    made = from_source(
        f"@T.prim_func\ndef f(A: T.Buffer((16,), 'float32')):\n    A[0] = T.float32({text})\n",
        values={"v": value},
    )
    assert isinstance(made, PrimFunc)
    stored: Any = made.body
    assert isinstance(stored.value, FloatImm)
    assert stored.value.value == wanted


def test_dtypes_of_numpy_and_of_loomir_name_dtypes():
    for dtype in (np.dtype("int8"), DataType("int8"), "int8", T.int8):
        made: Any = from_source(
            "@T.prim_func\ndef f(A: T.Buffer((16,), d)):\n    A[0] = T.cast(1, d)\n",
            values={"d": dtype},
        )
        (buffer,) = made.buffer_map.values()
        assert buffer.dtype == "int8"


# -- where the source is -----------------------------------------------------------------------
@clauses("TS-FLOW-01")
def test_a_class_in_a_try_statement():
    try:

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((4,), "int32")):
                A[0] = 1

    finally:
        pass
    assert list(Module) == ["main"]


def test_two_definitions_of_one_name():
    found = []
    for n in (1, 2):
        if n == 1:

            @T.prim_func
            def f(A: T.Buffer((4,), "int32")):
                A[0] = 1

        else:

            @T.prim_func
            def f(A: T.Buffer((4,), "int32")):
                A[0] = 2

        found.append(f.body.value.value)

        if n == 1:

            @I.ir_module
            class M:
                @T.prim_func
                def one(A: T.Buffer((4,), "int32")):
                    A[0] = 1

        else:

            @I.ir_module
            class M:
                @T.prim_func
                def two(A: T.Buffer((4,), "int32")):
                    A[0] = 1

        found.append(list(M))
    assert found == [1, ["one"], 2, ["two"]]


TEXT = textwrap.dedent(
    '''
    from loomir.script import ir as I, tir as T

    N = 12

    @T.prim_func
    def f(A: T.Buffer((N,), "int32")):
        """Fill."""
        for i in range(N):
            A[i] = 1

    @I.ir_module
    class M:
        @T.prim_func
        def main(A: T.Buffer((N,), "int32")):
            A[0] = N
    '''
)


def run(text: str, name: str, keep: bool) -> dict[str, Any]:
    if keep:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, name, "exec"), scope)  # noqa: S102, what a notebook does
    return scope


@clauses("TS-FLOW-01")
def test_programs_in_a_text_that_is_executed_with_its_source_kept():
    scope = run(TEXT, "<cell 1>", keep=True)
    assert isinstance(scope["f"], PrimFunc)
    assert list(scope["M"]) == ["main"]


def test_without_source_there_is_an_explanation():
    with pytest.raises(CompileError) as caught:
        run(TEXT, "<nowhere>", keep=False)
    found = caught.value.diagnostic
    assert (found.code, found.notes) == ("SCR0011", ("it was defined in <nowhere>",))
    assert "from_source" in found.help


def test_spans_are_those_of_the_file():
    text = TEXT.replace("A[i] = 1", "A[i] = undefd")
    with pytest.raises(CompileError) as caught:
        run(text, "<cell 2>", keep=True)
    span = caught.value.diagnostic.span
    assert span is not None
    assert (span.source.name, span.line, span.column) == ("<cell 2>", 10, 16)
    assert span.source.line(10) == "        A[i] = undefd"


def test_a_program_in_a_doctest():
    text = """
    >>> from loomir.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer((4,), "int32")):
    ...     A[0] = 1
    >>> f.name
    'f'
    """
    runner = doctest.DocTestRunner(verbose=False)
    test = doctest.DocTestParser().get_doctest(text, {}, "example", "example", 0)
    assert runner.run(test).failed == 0


def test_a_file_that_changed_is_read_again(tmp_path: Any):
    name = "changing_program_of_a_test"
    file = tmp_path / f"{name}.py"
    sys.path.insert(0, str(tmp_path))
    try:
        for value in (1, 22):
            file.write_text(
                "from loomir.script import tir as T\n@T.prim_func\n"
                f"def f(A: T.Buffer((4,), 'int32')):\n    A[0] = {value}\n"
            )
            os.utime(file, (value, value))
            sys.modules.pop(name, None)
            sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
            made: Any = __import__(name).f
            sys.dont_write_bytecode = kept
            assert made.body.value.value == value
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop(name, None)


def test_other_decorators_around_are_python_s():
    def same(func: Any) -> Any:
        return func

    @same
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        A[0] = 1

    assert isinstance(f, PrimFunc)


def test_a_method_of_an_ordinary_class_is_a_program_of_its_own():
    class Kernels:
        n = 4

        @T.prim_func
        def fill(A: T.Buffer((n,), "int32")):
            for i in range(n):
                A[i] = 1

    assert isinstance(Kernels.fill, PrimFunc)


@clauses("TS-FLOW-01")
def test_parse_takes_a_text_a_function_and_a_class():
    def f(A: T.Buffer((N,), "int32")):
        A[0] = N

    class M:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = 1

    assert isinstance(parse(f, {"N": 3}), PrimFunc)
    assert isinstance(parse(M), IRModule)
    assert isinstance(parse(COPY), PrimFunc)
    with pytest.raises(CompileError) as caught:
        parse(5)
    assert caught.value.diagnostic.code == "SCR0014"


def test_a_decorator_on_the_wrong_thing():
    with pytest.raises(CompileError) as caught:
        T.prim_func(int)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (
        "SCR0014",
        "a type is not a function",
    )
    with pytest.raises(CompileError) as caught:
        I.ir_module(lambda: 0)  # type: ignore[call-overload]
    assert caught.value.diagnostic.message == "a function is not a class"
    with pytest.raises(CompileError) as caught:
        T.prim_func(lambda: 0)
    assert caught.value.diagnostic.message == "a lambda is not a program"


@clauses("TS-TREF-02")
def test_a_string_in_a_shape_names_a_variable():
    @T.prim_func
    def f(A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n * 2", "m"), "float32")):
        for i in range(n):
            B[i, 0] = A[i, 0]

    a, b = f.buffer_map.values()
    assert a.shape[0] is b.shape[0].a
    assert str(b.shape[1].dtype) == "int64"
