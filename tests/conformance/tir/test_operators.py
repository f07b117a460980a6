"""Evaluation of operators: arithmetic, logic and comparisons, on ordinary and special values."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
    convert,
)
from tests.conformance.compare_engines import (
    Array,
    bf16,
    both,
    dt,
    each,
    f32,
    f64,
    fails,
    i8,
    i32,
    numpy_named,
    truths,
    u8,
    values,
    zeros,
)
from tests.tir.programs import func, use

INF, NAN = math.inf, math.nan
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
BINARY = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)


def edges(dtype: str) -> list[int]:
    """List values of an integer dtype where rules meet."""
    kind = dt(dtype)
    low, high = kind.min_value, kind.max_value
    return sorted({low, low + 1, -7, -2, -1, 0, 1, 2, 7, high - 1, high} & set(_within(low, high)))


def _within(low: int, high: int) -> list[int]:
    return [low, low + 1, *(n for n in range(-7, 8) if low <= n <= high), high - 1, high]


def wrapped(value: int, dtype: str) -> int:
    """Reduce a mathematical integer into a dtype, in two's complement."""
    kind = dt(dtype)
    return (value - kind.min_value) % 2**kind.bits + kind.min_value


def pairs(dtype: str, *, divisor: bool = False) -> tuple[list[int], list[int]]:
    made = [(a, b) for a, b in itertools.product(edges(dtype), edges(dtype)) if b or not divisor]
    return [a for a, _ in made], [b for _, b in made]


def integers(expression: str, dtype: str, rule: Callable[[int, int], int], **options: bool) -> None:
    """Compare an operator on a dtype with a rule over the integers, whose result is wrapped."""
    left, right = pairs(dtype, **options)
    numpy = numpy_named(dtype)
    out = each(expression, a=np.array(left, numpy), b=np.array(right, numpy))
    assert out.tolist() == [wrapped(rule(a, b), dtype) for a, b in zip(left, right, strict=True)]


SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, 3.0, INF, -INF, NAN, 1e30, -1e-30]


def floats(expression: str, dtype: str, rule: Callable[[Any, Any], Any]) -> None:
    """Compare an operator on floats with NumPy's, on special values."""
    numbers = [x for x in SPECIAL if dtype != "float16" or not 1e29 < abs(x) < INF]
    rows = list(itertools.product(numbers, numbers))
    a, b = (np.array(column).astype(numpy_named(dtype)) for column in zip(*rows, strict=True))
    out = each(expression, a=a, b=b)
    with np.errstate(all="ignore"):
        # Computed in double and rounded once; enough, since double has more than twice the digits.
        wanted = rule(a.astype(float), b.astype(float)).astype(a.dtype)
    assert same_floats(out, wanted), [
        r for r in zip(rows, out, wanted, strict=True) if r[1] != r[2]
    ]


def same_floats(x: Array, y: Array) -> bool:
    nan = np.isnan(x.astype(float)) & np.isnan(y.astype(float))
    alike = (x == y) & (np.signbit(x) == np.signbit(y))
    return bool(np.all(nan | alike))


# -- order and lanes -----------------------------------------------------------------------------
@pytest.mark.parametrize("op", BINARY)
def test_TIR_EVAL_16_left_operand_first(op: Callable[..., PrimExpr]):
    """A binary operator evaluates its left operand, then its right one."""
    x = Var("x", "int32")
    one, two = convert(1) // x, convert(1) % x
    assert "FloorDiv" in fails("RUN0201", func(use(op(one, two)), x), 0).message
    assert "FloorMod" in fails("RUN0201", func(use(op(two, one)), x), 0).message


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a + b", [97, -114, -14, 0]),
        ("a - b", [103, 114, 0, -2]),
        ("a * b", [-44, 0, 49, -1]),
        ("T.div(a, b)", [-33, 0, 1, -1]),
        ("T.truncmod(a, b)", [1, 0, 0, 0]),
        ("a // b", [-34, 0, 1, -1]),
        ("a % b", [-2, 0, 0, 0]),
        ("T.min(a, b)", [-3, -114, -7, -1]),
        ("T.max(a, b)", [100, 0, -7, 1]),
    ],
)
def test_TIR_EVAL_16a_lanes(expression: str, wanted: list[int]):
    """On vectors an operator acts lane by lane."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8"), C: T.Buffer((4,), "int8")):
            a = A[0:4]
            b = B[0:4]
            C[0:4] = {expression}
    """
    given = i8(100, 0, -7, -1), i8(-3, -114, -7, 1)
    assert both(source, *given, zeros(4, dtype="int8")).tolist() == wanted


# -- floats --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("symbol", "+-*/")
def test_TIR_EVAL_16b_ieee(symbol: str, dtype: str):
    """Arithmetic of floats is IEEE 754's, of bfloat its own: infinities, NaN and signed zeros (T13)."""
    rules = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    floats(f"a {symbol} b", dtype, rules[symbol])


@pytest.mark.parametrize(
    ("expression", "values_", "wanted"),
    [
        ("a - a", [INF, NAN, 1.0], [NAN, NAN, 0.0]),
        ("a * T.float32(0)", [INF, -1.0, NAN], [NAN, -0.0, NAN]),
        ("(a + T.float32(1)) - a", [1e30, 1.0], [0.0, 1.0]),
        ("a + T.float32(0)", [-0.0, 5.0], [0.0, 5.0]),
        ("a / a", [0.0, INF, 3.0], [NAN, NAN, 1.0]),
        ("(a * T.float32(3)) / T.float32(3)", [3e38, 1.0], [INF, 1.0]),
    ],
)
def test_TIR_EVAL_16b_no_algebra(expression: str, values_: list[float], wanted: list[float]):
    """No law of the real numbers replaces what floats compute (T13)."""
    assert same_floats(each(expression, a=f32(*values_)), f32(*wanted))


def test_TIR_EVAL_16b_each_operation_is_rounded():
    """A product is rounded before it is added to: nothing is fused unasked (T13)."""
    a, b, c = 1 + 2.0**-12, 1 - 2.0**-12, -1.0
    assert each("a * b + c", a=f32(a), b=f32(b), c=f32(c)).tolist() == [
        float(np.float32(a * b) + np.float32(c))
    ]
    third = bf16(1 / 3)
    wanted = (third.astype(np.float32) * third.astype(np.float32)).astype(third.dtype)
    assert each("a * a", a=third).tolist() == wanted.tolist()


# -- integers ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16c_wrap(dtype: str):
    """Integers wrap at both ends of their dtype (T12)."""
    high, low = dt(dtype).max_value, dt(dtype).min_value
    numpy = numpy_named(dtype)
    ends, one = np.array([high, low], numpy), np.array([1, 1], numpy)
    assert each("a + b", a=ends, b=one).tolist() == [low, low + 1]
    assert each("a - b", a=ends, b=one).tolist() == [high - 1, high]
    assert each("a * a", a=ends).tolist() == [1, 0]
    # What holds for integers without end does not hold here.
    assert each("a + b > a", "bool", a=ends, b=one).tolist() == [False, True]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("symbol", "+-*")
def test_TIR_EVAL_16d_sum_difference_product(symbol: str, dtype: str):
    """Sum, difference and product are those of arithmetic, wrapped."""
    rules = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    integers(f"a {symbol} b", dtype, rules[symbol])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("expression", ["T.div(a, b)", "a // b", "a % b", "T.truncmod(a, b)"])
def test_TIR_EVAL_16e_zero_divisor(expression: str, dtype: str):
    """An integer divided by zero is an error, in all four forms and each width (T11)."""
    source = f"""
        @T.prim_func
        def main(a: T.{dtype}, b: T.{dtype}) -> T.{dtype}:
            return {expression}  # <--
    """
    fails("RUN0201", source, 5, 0)


def truncated(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16f_div_truncates(dtype: str):
    """Division of integers truncates towards zero; INT_MIN / -1 wraps (T11)."""
    integers("T.div(a, b)", dtype, truncated, divisor=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_TIR_EVAL_16g_float_division(dtype: str):
    """Division of floats is IEEE 754's: by zero it is infinite or NaN, and no error."""
    out = each("a / b", a=values(dtype, 1.0, -1.0, 0.0, 1.0), b=values(dtype, 0.0, 0.0, 0.0, -0.0))
    assert same_floats(out, values(dtype, INF, -INF, NAN, -INF))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16h_mod_has_the_sign_of_the_dividend(dtype: str):
    """Mod is what division leaves over: x - (x / y) * y, with the sign of x (T11)."""
    integers("T.truncmod(a, b)", dtype, lambda a, b: a - truncated(a, b) * b, divisor=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16i_floor_div(dtype: str):
    """FloorDiv is the quotient rounded down; INT_MIN // -1 wraps (T11)."""
    integers("a // b", dtype, lambda a, b: math.floor(Fraction(a, b)), divisor=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_TIR_EVAL_16i_floor_div_of_floats(dtype: str):
    """FloorDiv of floats is the floor of their quotient."""
    a, b = values(dtype, 7.0, -7.0, 7.0, -7.5), values(dtype, 2.0, 2.0, -2.0, -2.5)
    assert each("a // b", a=a, b=b).tolist() == [3, -4, -4, 3]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16j_floor_mod(dtype: str):
    """FloorMod is what the floor leaves over, with the sign of the divisor (T10, T11)."""
    integers("a % b", dtype, lambda a, b: a - math.floor(Fraction(a, b)) * b, divisor=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_TIR_EVAL_16j_floor_mod_of_floats(dtype: str):
    """FloorMod of floats has the sign of the divisor too."""
    a, b = values(dtype, 7.0, -7.0, 7.0, -7.0), values(dtype, 2.0, 2.0, -2.0, -2.0)
    assert each("a % b", a=a, b=b).tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_16k_min_max(dtype: str):
    """Min and Max of integers are the smaller and the larger, by the sign of the dtype."""
    integers("T.min(a, b)", dtype, min)
    integers("T.max(a, b)", dtype, max)


@pytest.mark.parametrize("dtype", FLOATS)
def test_TIR_EVAL_16k_nan(dtype: str):
    """Min and Max give NaN where either operand is NaN (T14)."""
    a, b = values(dtype, NAN, 2.0, NAN, -INF, 1.0), values(dtype, 2.0, NAN, NAN, INF, -1.0)
    assert same_floats(each("T.min(a, b)", a=a, b=b), values(dtype, NAN, NAN, NAN, -INF, -1.0))
    assert same_floats(each("T.max(a, b)", a=a, b=b), values(dtype, NAN, NAN, NAN, INF, 1.0))


# -- logic ---------------------------------------------------------------------------------------
FLAGS = {"a": truths(0, 0, 1, 1), "b": truths(0, 1, 0, 1)}


def test_TIR_EVAL_17_and_stops():
    """And of scalars stops at a false left operand: a division behind it does not happen (T15)."""
    assert each("a and b", "bool", **FLAGS).tolist() == [False, False, False, True]
    guarded = each("a != 0 and 10 // a > 2", "bool", a=i32(0, 3, 5, -1))
    assert guarded.tolist() == [False, True, False, False]
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.bool:
            return 10 // x > 2 and x != 0  # <--
    """
    fails("RUN0201", source, 0)


def test_TIR_EVAL_18_or_stops():
    """Or of scalars stops at a true left operand (T15)."""
    assert each("a or b", "bool", **FLAGS).tolist() == [False, True, True, True]
    guarded = each("a == 0 or 10 // a > 2", "bool", a=i32(0, 3, 5, -1))
    assert guarded.tolist() == [True, True, False, False]
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.bool:
            return 10 // x > 2 or x == 0  # <--
    """
    fails("RUN0201", source, 0)


def test_TIR_EVAL_19_vector_logic():
    """And and Or of vectors are the lanes' own, whichever are evaluated."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool"), C: T.Buffer((8,), "bool")):
            C[0:4] = T.And(A[0:4], B[0:4])
            C[4:8] = T.Or(A[0:4], B[0:4])
    """
    out = both(source, FLAGS["a"], FLAGS["b"], zeros(8, dtype="bool"))
    assert out.astype(int).tolist() == [0, 0, 0, 1, 0, 1, 1, 1]


def test_TIR_EVAL_20_not():
    """Not turns each truth value around, lane by lane."""
    assert each("not a", a=truths(0, 1)).tolist() == [True, False]
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool")):
            B[0:4] = T.Not(A[0:4])
    """
    assert both(source, truths(0, 1, 1, 0), truths(0, 0, 0, 0)).tolist() == [
        True,
        False,
        False,
        True,
    ]
    # What is in memory may be any byte but 0 (T19).
    odd = np.array([2, 255, 0, 1], np.uint8).view(bool)
    assert both(source, odd, truths(0, 0, 0, 0)).view(np.uint8).tolist() == [0, 0, 1, 0]


# -- comparisons ---------------------------------------------------------------------------------
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("op", [Eq, NE, LT, LE, GT, GE])
def test_TIR_EVAL_21_left_operand_first(op: Callable[..., PrimExpr]):
    """A comparison evaluates its left side first."""
    x = Var("x", "int32")
    one, two = convert(1) // x, convert(1) % x
    assert "FloorDiv" in fails("RUN0201", func(use(op(one, two)), x), 0).message
    assert "FloorMod" in fails("RUN0201", func(use(op(two, one)), x), 0).message


def test_TIR_EVAL_21_lanes():
    """Vectors are compared lane by lane."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "bool")):
            B[0:4] = A[0:4] <= T.Broadcast(2, 4)
    """
    out = both(source, i32(1, 2, 3, -4), truths(0, 0, 0, 0))
    assert out.tolist() == [True, True, False, True]


@pytest.mark.parametrize("symbol", COMPARE)
@pytest.mark.parametrize("dtype", FLOATS)
def test_TIR_EVAL_21a_floats(symbol: str, dtype: str):
    """Floats compare as IEEE 754 says: NaN differs from all, itself too; the zeros are equal (T13)."""
    rows = list(itertools.product([0.0, -0.0, 1.5, INF, -INF, NAN], repeat=2))
    a, b = (values(dtype, *column) for column in zip(*rows, strict=True))
    out = each(f"a {symbol} b", "bool", a=a, b=b)
    assert out.tolist() == [COMPARE[symbol](x, y) for x, y in rows]
    # `not` reverses no comparison.
    negated = each(f"not (a {symbol} b)", "bool", a=a, b=b)
    assert negated.tolist() == [not COMPARE[symbol](x, y) for x, y in rows]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_TIR_EVAL_21b_integers(dtype: str):
    """Integers compare as the numbers that they are, signed or unsigned."""
    left, right = pairs(dtype)
    numpy = numpy_named(dtype)
    for symbol in ("<", ">="):
        out = each(
            f"a {symbol} b", "bool", a=np.array(left, numpy), b=np.array(right, numpy)
        ).tolist()
        assert out == [COMPARE[symbol](a, b) for a, b in zip(left, right, strict=True)]


def test_TIR_EVAL_21c_result():
    """A comparison gives 0 or 1 as a truth value (T9)."""
    out = each("a < b", "bool", a=u8(1, 2), b=u8(2, 1))
    assert out.dtype == bool
    assert out.view(np.uint8).tolist() == [1, 0]
    assert each("T.cast(a == b, 'int8')", a=i8(-1, 2), b=i8(-1, 1)).tolist() == [1, 0]


@pytest.mark.parametrize("symbol", COMPARE)
def test_TIR_EVAL_21d_each_comparison(symbol: str):
    """Each comparison holds where its sign says."""
    for a, b in [(i32(1, 2, 3), i32(2, 2, 2)), (f64(-1, 0, 1), f64(0, 0, 0))]:
        wanted = [COMPARE[symbol](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        assert each(f"a {symbol} b", "bool", a=a, b=b).tolist() == wanted
    flags = each(f"a {symbol} b", "bool", **FLAGS)
    rows = zip(FLAGS["a"].tolist(), FLAGS["b"].tolist(), strict=True)
    assert flags.tolist() == [COMPARE[symbol](x, y) for x, y in rows]
