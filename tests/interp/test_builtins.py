"""Builtins against mpmath, NumPy and their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from loomir.interp.builtins import CONTROL, TOLERANCE, builtin_function
from loomir.interp.values import FORMATS, pack, round_exact, rounder, unpack
from loomir.runtime.errors import RunZeroDivisionError
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir import BUILTINS, Evaluate, Select, Var, call_builtin, const
from tests.clause import clauses
from tests.interp.build import f32, i32, run, value_of
from tests.interp.test_arithmetic import FLOATS, INTEGERS, same, sample

EXACTLY: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "exp10": lambda x: mpmath.power(10, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "pow": mpmath.power,
    "atan2": mpmath.atan2,
    "hypot": mpmath.hypot,
}


def test_every_builtin_has_a_meaning() -> None:
    for name, row in BUILTINS.items():
        if name in CONTROL or name == "reinterpret":
            continue
        wanted = "float32" if "FLOAT" in row.accepts.name else "int32"
        assert callable(builtin_function(name, DataType(wanted))), name


def ulps(a: float, b: float, dtype: str) -> float:
    """How many representable numbers lie between two finite ones."""
    bits = DataType(f"int{DataType(dtype).bits}")

    def place(x: float) -> int:
        n = unpack(pack(x, DataType(dtype)), bits)
        return n if n >= 0 else bits.min_value - n

    return abs(place(a) - place(b))


@pytest.mark.parametrize("name", sorted(EXACTLY))
@pytest.mark.parametrize("dtype", FLOATS)
@clauses("TIR-BLTN-03")
def test_functions_are_close_to_the_true_value(name: str, dtype: str) -> None:
    function = builtin_function(name, DataType(dtype))
    arity = BUILTINS[name].arity
    cut = rounder(DataType(dtype))
    random = np.random.default_rng(3)
    allowed = 2 if dtype == "float64" else 0
    with mpmath.workprec(240):
        for _ in range(150):
            xs = [cut(float(random.uniform(-3, 3))) for _ in range(arity or 1)]
            try:
                true = EXACTLY[name](*map(mpmath.mpf, xs))
            except (ValueError, ZeroDivisionError):
                continue
            if isinstance(true, mpmath.mpc):
                if true.imag:
                    assert math.isnan(function(*xs)), xs
                    continue
                true = true.real
            if not mpmath.isfinite(true):
                continue
            man, exp = true.man_exp
            exact = Fraction(int(man) * (-1 if true < 0 else 1)) * Fraction(2) ** int(exp)
            wanted = round_exact(exact, FORMATS[dtype])
            got = function(*xs)
            assert ulps(got, wanted, dtype) <= allowed, (xs, got, wanted)


SPECIAL = {
    "exp": ([math.inf, -math.inf, 1e4, -1e4], [math.inf, 0.0, math.inf, 0.0]),
    "exp2": ([math.inf, -math.inf, 1e4], [math.inf, 0.0, math.inf]),
    "exp10": ([math.inf, -math.inf, 1e4], [math.inf, 0.0, math.inf]),
    "log": ([0.0, -0.0, -1.0, math.inf], [-math.inf, -math.inf, math.nan, math.inf]),
    "log2": ([0.0, -1.0, math.inf], [-math.inf, math.nan, math.inf]),
    "log10": ([0.0, -1.0, math.inf], [-math.inf, math.nan, math.inf]),
    "log1p": ([-1.0, -2.0, -0.0, math.inf], [-math.inf, math.nan, -0.0, math.inf]),
    "sqrt": ([-0.0, -1.0, math.inf], [-0.0, math.nan, math.inf]),
    "rsqrt": ([0.0, -0.0, math.inf, -1.0], [math.inf, -math.inf, 0.0, math.nan]),
    "sigmoid": ([math.inf, -math.inf, 0.0], [1.0, 0.0, 0.5]),
    "sin": ([math.inf, -0.0], [math.nan, -0.0]),
    "cos": ([-math.inf], [math.nan]),
    "tan": ([math.inf], [math.nan]),
    "sinh": ([math.inf, -1e4], [math.inf, -math.inf]),
    "cosh": ([-math.inf, 1e4], [math.inf, math.inf]),
    "asin": ([2.0, -0.0], [math.nan, -0.0]),
    "acos": ([2.0, 1.0], [math.nan, 0.0]),
    "acosh": ([0.5, 1.0], [math.nan, 0.0]),
    "atanh": ([1.0, -1.0, 2.0], [math.inf, -math.inf, math.nan]),
    "floor": ([-0.5, -0.0, math.inf, 2.5], [-1.0, -0.0, math.inf, 2.0]),
    "ceil": ([-0.5, 2.5, -math.inf], [-0.0, 3.0, -math.inf]),
    "trunc": ([-0.5, -2.5, 2.5], [-0.0, -2.0, 2.0]),
    "round": ([0.5, 1.5, 2.5, -0.5, -2.5], [0.0, 2.0, 2.0, -0.0, -2.0]),
    "nearbyint": ([0.5, 1.5, 2.5, -0.5, math.inf], [0.0, 2.0, 2.0, -0.0, math.inf]),
}


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values(name: str) -> None:
    function = builtin_function(name, DataType("float64"))
    for x, wanted in zip(*SPECIAL[name], strict=True):
        assert same(function(x), wanted), (x, function(x))
    assert math.isnan(function(math.nan))


def test_special_values_of_pow() -> None:
    power = builtin_function("pow", DataType("float64"))
    cases = [
        (0.0, -1.0, math.inf),
        (-0.0, -1.0, -math.inf),
        (-0.0, -2.0, math.inf),
        (-2.0, 0.5, math.nan),
        (-10.0, 999.0, -math.inf),
        (-10.0, 998.0, math.inf),
        (math.nan, 0.0, 1.0),
        (1.0, math.nan, 1.0),
        (-math.inf, 3.0, -math.inf),
        (-8.0, 3.0, -512.0),
    ]
    for x, y, wanted in cases:
        assert same(power(x, y), wanted), (x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype: str) -> None:
    form, fma = FORMATS[dtype], builtin_function("fma", DataType(dtype))
    values = [x for x in sample(dtype, 30) if math.isfinite(x)]
    for a in values[::2]:
        for b in values[::3]:
            for c in values[::5]:
                exact = Fraction(a) * Fraction(b) + Fraction(c)
                if exact:
                    assert fma(a, b, c) == round_exact(exact, form), (a, b, c)
    ulp = math.ldexp(1.0, 1 - form.precision)
    assert fma(1 + ulp, 1 + ulp, -(1 + 2 * ulp)) == ulp * ulp * (ulp * ulp > 2.0**form.least / 2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_of_special_values(dtype: str) -> None:
    fma = builtin_function("fma", DataType(dtype))
    limit = FORMATS[dtype].limit
    assert math.isnan(fma(math.inf, 0.0, 1.0))
    assert math.isnan(fma(math.inf, 1.0, -math.inf))
    assert fma(limit, limit, -math.inf) == -math.inf
    assert fma(limit, 2.0, -limit) == limit
    assert fma(limit, limit, 0.0) == math.inf
    assert same(fma(-0.0, 1.0, -0.0), -0.0)
    assert same(fma(-0.0, 1.0, 0.0), 0.0)
    assert same(fma(2.0, 3.0, -6.0), 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_neighbours_agree_with_numpy(dtype: str) -> None:
    after = builtin_function("nextafter", DataType(dtype))
    kind = np.dtype(dtype).type
    values = sample(dtype, 20)
    with np.errstate(all="ignore"):
        for x in values:
            for y in values:
                if x or y:  # of equal numbers C gives the second, NumPy's float16 the first
                    assert same(after(x, y), float(np.nextafter(kind(x), kind(y)))), (x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fmod_copysign_and_ldexp(dtype: str) -> None:
    kind = np.dtype(dtype).type
    fmod, sign, scale = (
        builtin_function(n, DataType(dtype)) for n in ("fmod", "copysign", "ldexp")
    )
    values = sample(dtype, 25)
    with np.errstate(all="ignore"):
        for x in values:
            for y in values:
                assert same(fmod(x, y), float(np.fmod(kind(x), kind(y))))
                if x == x and y == y:
                    assert same(sign(x, y), float(np.copysign(kind(x), kind(y))))
            for e in (-(2**31), -1100, -140, -3, 0, 5, 120, 2**31 - 1):
                clamped = max(min(e, 5000), -5000)
                assert same(scale(x, e), float(np.ldexp(kind(x), clamped))), (x, e)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str) -> None:
    kind = DataType(dtype)
    rows = {n: builtin_function(n, kind) for n in BUILTINS if n not in CONTROL and n in WORDS}
    mask = (1 << kind.bits) - 1
    values = [
        0,
        1,
        kind.max_value,
        kind.min_value,
        5,
        kind.max_value // 3,
        -1 if kind.is_int else 9,
    ]
    for x in values:
        assert rows["popcount"](x) == bin(x & mask).count("1")
        assert rows["clz"](x) == (f"{x & mask:0{kind.bits}b}" + "1").index("1")
        assert rows["bitwise_not"](x) & mask == ~x & mask
        assert kind.min_value <= rows["bitwise_not"](x) <= kind.max_value
        for y in values:
            assert rows["bitwise_and"](x, y) & mask == (x & y) & mask
            assert rows["bitwise_or"](x, y) & mask == (x | y) & mask
            assert rows["bitwise_xor"](x, y) & mask == (x ^ y) & mask
            amount = y % kind.bits
            assert rows["shift_left"](x, y) & mask == (x << amount) & mask
            assert kind.min_value <= rows["shift_left"](x, y) <= kind.max_value
            assert rows["shift_right"](x, y) == x >> amount
    assert rows["abs"](kind.min_value) == kind.min_value
    assert rows["abs"](kind.max_value) == kind.max_value


WORDS = {
    "popcount",
    "clz",
    "abs",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "shift_left",
    "shift_right",
}


def test_what_is_exact_has_no_tolerance() -> None:
    for name in ("sqrt", "fma", "floor", "nearbyint", "abs", "copysign", "fmod", "ldexp"):
        assert name not in TOLERANCE
    assert TOLERANCE["exp"] > 0


# -- calls in programs ---------------------------------------------------------------------------
@clauses("TIR-BLTN-01", "TIR-BLTN-03", "TIR-EVAL-10")
def test_a_builtin_acts_lane_by_lane() -> None:
    x = Var("x", "float32")
    from loomir.tir import Broadcast

    vector = call_builtin("sqrt", Broadcast(x, 4))
    assert value_of(vector, {x: 9.0}) == [3.0] * 4


@clauses("TIR-BLTN-02")
def test_an_annotation_is_the_identity() -> None:
    x = Var("x", "int32")
    likely = call_builtin("likely", x < 3)
    assert value_of(Select(likely, i32(1), i32(2)), {x: 2}) == 1


@clauses("TIR-EVAL-10", "TIR-BLTN-03")
def test_if_then_else_evaluates_one_value() -> None:
    x = Var("x", "int32")
    lazy = call_builtin("if_then_else", x.not_equal(0), i32(7) // x, i32(-1))
    assert value_of(lazy, {x: 0}) == -1
    assert value_of(lazy, {x: 2}) == 3


@pytest.mark.parametrize(
    ("source", "target", "value", "wanted"),
    [
        ("float32", "int32", 1.0, 0x3F800000),
        ("float32", "uint32", -0.0, 0x80000000),
        ("int64", "float64", 0x3FF0000000000000, 1.0),
        ("uint16", "float16", 0x3C00, 1.0),
        ("bfloat16", "uint16", 1.0, 0x3F80),
        ("int8", "uint8", -1, 255),
    ],
)
def test_reinterpret_reads_the_same_bits(source: str, target: str, value: Any, wanted: Any) -> None:
    x = Var("x", source)
    read = call_builtin("reinterpret", x, dtype=DataType(target))
    assert value_of(read, {x: value}) == wanted


@clauses("TIR-BLTN-05")
def test_checked_index_refuses_what_is_outside() -> None:
    from loomir.runtime.errors import RunIndexError
    from loomir.tir import StringImm

    i = Var("i", "int64")
    index = call_builtin("checked_index", i, const(4, "int64"), StringImm("A"), i32(1))
    assert value_of(index, {i: 3}) == 3
    for bad in (-1, 4):
        with pytest.raises(RunIndexError, match=rf"index {bad} is outside of axis 1 of A"):
            value_of(index, {i: bad})


def test_a_jump_inside_an_expression_is_refused() -> None:
    with pytest.raises(CompileError, match="statement of its own"):
        run([], Evaluate(call_builtin("likely", call_builtin("break_loop"))))


def test_sum_of_products_is_not_contracted() -> None:
    a, b, c = (Var(n, "float32") for n in "abc")
    x = 1 + 2.0**-12
    given = {a: x, b: x, c: -(1 + 2.0**-11)}
    assert value_of(a * b + c, given) == 0.0
    assert value_of(call_builtin("fma", a, b, c), given) == 2.0**-24


def test_select_and_if_then_else_differ_on_a_fault() -> None:
    x = Var("x", "int32")
    with pytest.raises(RunZeroDivisionError):
        value_of(Select(x.not_equal(0), i32(1) // x, i32(0)), {x: 0})
    assert value_of(f32(1.0) / f32(0.0)) == math.inf
