"""Runs without rounding: sums in any order are equal, and nothing that is lost goes unseen."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir.interp import Interpreter
from loomir.interp.machine import NumbersTooLargeError
from loomir.interp.rational import EXACT
from loomir.ir.module import IRModule
from loomir.runtime.packed.registry import register_func
from loomir.script import from_source
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Div, FloorDiv, FloorMod, Max, Mul, Sub

HEAD = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
"""


def run(body: str, *arguments: Any, **options: Any) -> Any:
    module = from_source(HEAD + body)
    assert isinstance(module, IRModule)
    return Interpreter(module, exact=True, **options).run_exact("main", arguments)


def total(order: str, terms: str = "x[i]") -> str:
    return f"""
    @T.prim_func
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((1,), "float32")):
        y[0] = T.float32(0)
        for k in range(8):
            i = T.meta_var({order})
            y[0] = y[0] + {terms}
"""


VALUES = np.array([1e8, 1.1, -1e8, 3e-9, 0.7, 1e30, -1e30, 5e-40], "float32")


def sum_of(body: str) -> Any:
    out = np.zeros(1, "float32")
    found = run(body, VALUES, out).contents
    (value,) = found[1]
    assert out[0] == np.float32(float(value))
    return value


def test_sums_do_not_depend_on_their_order() -> None:
    wanted = sum(map(Fraction, map(float, VALUES)))
    assert sum_of(total("k")) == sum_of(total("7 - k")) == wanted
    assert sum_of(total("(k * 3) % 8")) == wanted


@pytest.mark.parametrize(
    "terms",
    [
        "T.Select(i == 7, T.float32(0), x[i])",
        "T.Select(i == 3, x[i] + x[i], x[i])",
        "x[T.max(i, 1)]",
    ],
)
def test_a_lost_or_doubled_term_is_seen_however_small(terms: str) -> None:
    assert sum_of(total("k", terms)) != sum_of(total("k"))


def test_narrow_memory_keeps_numbers_until_it_is_written() -> None:
    body = """
    @T.prim_func
    def main(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        narrow = T.alloc_buffer((4,), "bfloat16")
        words = T.decl_buffer((2,), "uint32", data=narrow.data)
        halves = T.decl_buffer((4,), "uint16", data=narrow.data)
        for i in range(4):
            narrow[i] = T.Cast("bfloat16", x[i])
        halves[1] = T.uint16(0x4000)
        word = words[1]
        words[0], words[1] = T.uint32(0), words[0]
        words[0] = word
        y[0] = T.Cast("float32", narrow[0])
        y[1] = T.Cast("float32", narrow[1])
        y[2] = T.Cast("float32", narrow[2])
        y[3] = T.Cast("float32", narrow[3])
"""
    body = body.replace("words[0], words[1] = T.uint32(0), words[0]", "words[1] = words[0]")
    x = np.array([0.1, 0.2, 0.3, 0.7], "float32")
    _, y = run(body, x, np.zeros(4, "float32")).contents
    assert list(y) == [Fraction(float(x[2])), Fraction(float(x[3])), Fraction(float(x[0])), 2]


def test_arithmetic_of_bits_sees_rounded_floats() -> None:
    body = """
    @T.prim_func
    def main(x: T.Buffer((1,), "float32"), y: T.Buffer((2,), "float32")):
        word = T.reinterpret("uint16", T.Cast("bfloat16", x[0]))
        y[0] = T.Cast("float32", T.reinterpret("bfloat16", word))
        y[1] = T.reinterpret("float32", T.Cast("uint32", word) << T.uint32(16))
"""
    x = np.array([0.1], "float32")
    _, y = run(body, x, np.zeros(2, "float32")).contents
    assert list(y) == [Fraction(float(x[0])), Fraction(float(ml_dtypes.bfloat16(0.1)))]


def test_pairs_and_tiles_are_added_up_exactly() -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 16, 32)).astype("float32")
    body = """
    @T.prim_func
    def main(x: T.Buffer((2, 1, 16, 32), "float32"), c: T.Buffer((16, 16), "float32"),
             d: T.Buffer((16, 16), "float32")):
        a = T.alloc_buffer((1, 16, 32), "bfloat16")
        b = T.alloc_buffer((1, 16, 16, 2), "bfloat16")
        pairs = T.decl_buffer((16, 16), "uint32", data=a.data)
        others = T.decl_buffer((16, 16), "uint32", data=b.data)
        for i, k in T.grid(16, 32):
            a[0, i, k] = T.Cast("bfloat16", x[0, 0, i, k])
            b[0, k // 2, i, k % 2] = T.Cast("bfloat16", x[1, 0, i, k])
        T.dot_tiles(c, a, b, 1, 16, 16, "bfloat16", "bfloat16", False)
        for i, j in T.grid(16, 16):
            for k in range(16):
                d[i, j] = T.dp2a(T.reinterpret("bfloat16x2", pairs[i, k]),
                                 T.reinterpret("bfloat16x2", others[k, j]), d[i, j])
"""
    start = np.full((16, 16), 0.1, "float32")
    _, c, d = run(body, x, start.copy(), start.copy()).contents
    exact = [[[Fraction(float(v)) for v in row] for row in part[0]] for part in x]
    for i in range(16):
        for j in range(16):
            products = (p * q for p, q in zip(exact[0][i], exact[1][j], strict=True))
            wanted = Fraction(float(start[0, 0])) + sum(products)
            assert c[i, j] == d[i, j] == wanted


def test_vectors_go_through_memory_as_numbers() -> None:
    body = """
    @T.prim_func
    def main(x: T.Buffer((8,), "float16"), y: T.Buffer((4,), "float16x2")):
        local = T.alloc_buffer((8,), "float16")
        local[T.Ramp(7, -1, 8)] = x[T.Ramp(0, 1, 8)] * T.Broadcast(T.float16(0.1), 8)
        for i in range(4):
            y[i] = T.Shuffle([local[T.Ramp(2 * i, 1, 2)]], [1, 0])
"""
    x = np.arange(1, 9).astype("float16")
    _, y = run(body, x, np.zeros((4, 2), "float16")).contents
    tenth = Fraction(float(np.float16(0.1)))
    assert y.tolist() == [[(7 - 2 * i) * tenth, (8 - 2 * i) * tenth] for i in range(4)]


def test_functions_pass_numbers_on_and_python_gets_floats() -> None:
    seen: list[float] = []

    def look(x: float) -> float:
        seen.append(x)
        return 0.5

    register_func("tests.exact.look", look, override=True)
    body = """
    @T.prim_func(private=True)
    def third(x: T.float32, y: T.Buffer((1,), "float32")) -> T.float32:
        y[0] = x / T.float32(3)
        return y[0] * T.float32(3)

    @T.prim_func
    def main(n: T.float32, y: T.Buffer((3,), "float32")):
        with T.block():
            part = T.match_buffer(y[0:1], (1,), "float32")
            y[1] = Module.third(n, part)
        y[2] = T.call_packed("tests.exact.look", y[0], dtype="float32")
"""
    module = from_source(HEAD + body)
    assert isinstance(module, IRModule)
    out = np.zeros(3, "float32")
    found = Interpreter(module, exact=True).run_exact("main", (7, out))
    assert list(found.contents[1]) == [Fraction(7, 3), 7, Fraction(1, 2)]
    assert seen == [float(np.float32(7 / 3))] == [float(out[0])]
    assert found.contents[0] is None


def test_what_is_returned_is_exact_or_a_float() -> None:
    body = """
    @T.prim_func
    def main(n: T.float32) -> T.float32:
        return n / T.float32(3)
"""
    assert run(body, 1).result == Fraction(1, 3)
    module = from_source(HEAD + body)
    assert isinstance(module, IRModule)
    assert Interpreter(module, exact=True).call("main", (1,), {}) == float(np.float32(1 / 3))
    with pytest.raises(InternalError):
        Interpreter(module).run_exact("main", (1,))


F32 = DataType("float32")
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("kind", "a", "b", "wanted"),
    [
        (Add, 10**400, INF, INF),
        (Add, INF, -INF, NAN),
        (Sub, 1, INF, -INF),
        (Mul, Fraction(-1, 3), INF, -INF),
        (Mul, 0, INF, NAN),
        (Mul, NAN, 10**400, NAN),
        (Div, 1, 3, Fraction(1, 3)),
        (Div, -1, 0, -INF),
        (Div, 0, 0, NAN),
        (Div, 10**400, INF, 0),
        (Div, -INF, Fraction(1, 2), -INF),
        (Div, INF, -INF, NAN),
        (FloorDiv, Fraction(-7, 2), 1, -4),
        (FloorMod, Fraction(-7, 2), 2, Fraction(1, 2)),
        (Max, 10**400, INF, INF),
        (Max, Fraction(1, 3), -INF, Fraction(1, 3)),
    ],
)
def test_operators_of_numbers(kind: type, a: Any, b: Any, wanted: Any) -> None:
    found = EXACT.binary(kind, F32)(a, b)
    assert found == wanted or (found != found and wanted != wanted)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("floor", (Fraction(-7, 2),), -4),
        ("ceil", (INF,), INF),
        ("round", (Fraction(5, 2),), 2),
        ("trunc", (Fraction(-7, 2),), -3),
        ("fma", (Fraction(1, 3), 3, 1), 2),
        ("fmod", (Fraction(-7, 2), 2), Fraction(-3, 2)),
        ("fmod", (5, INF), 5),
        ("ldexp", (3, -2), Fraction(3, 4)),
        ("pow", (Fraction(1, 3), 2), Fraction(1, 9)),
        ("pow", (0, -1), INF),
        ("copysign", (-3, Fraction(1, 3)), 3),
        ("abs", (Fraction(-1, 3),), Fraction(1, 3)),
        ("isfinite", (10**400,), True),
        ("isinf", (NAN,), False),
        ("isnan", (NAN,), True),
        ("exp", (Fraction(1, 3),), Fraction(math.exp(1 / 3))),
        ("exp", (10**400,), INF),
        ("sqrt", (-1,), NAN),
        ("nextafter", (1, 2), 1 + Fraction(1, 1 << 23)),
    ],
)
def test_functions_of_numbers(name: str, arguments: Any, wanted: Any) -> None:
    found = EXACT.builtin(name, F32)(*arguments)
    assert found == wanted or (found != found and wanted != wanted)


def test_conversions_truncate_the_number_itself() -> None:
    to_byte = EXACT.conversion(F32, DataType("int8"))
    assert to_byte(Fraction(299, 100)) == 2
    assert to_byte(10**400) == 127
    assert to_byte(NAN) == 0
    assert EXACT.conversion(F32, DataType("bfloat16"))(Fraction(1, 3)) == Fraction(1, 3)
    assert EXACT.conversion(DataType("int64"), DataType("float16"))(10**6 + 1) == 10**6 + 1
    assert EXACT.conversion(DataType("int32"), DataType("int8"))(300) == 44


def test_numbers_that_grow_without_end_stop_the_run() -> None:
    body = """
    @T.prim_func
    def main(x: T.Buffer((1,), "float32")):
        for i in range(100):
            x[0] = x[0] {} x[0] + T.float32(1.5)
"""
    with pytest.raises(NumbersTooLargeError):
        run(body.format("*"), np.ones(1, "float32"))
    assert run(body.format("+"), np.ones(1, "float32")).contents[0][0] > 2**100
