"""Arithmetic against NumPy and ml_dtypes, exhaustively where a dtype is small."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.interp.arithmetic import binary_function, conversion, wrapper
from loomir.interp.values import FORMATS, pack, round_exact, rounder, unpack
from loomir.support.dtype import DataType, numpy_of
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
    Sub,
)
from tests.clause import clauses

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SHORT_FLOATS = ["float16", "bfloat16"]
FLOATS = [*SHORT_FLOATS, "float32", "float64"]
NUMPY = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
}
COMPARISONS = {
    Eq: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
}


def same(a: float, b: float) -> bool:
    """Bit for bit, all NaNs equal."""
    if a != a or b != b:
        return a != a and b != b
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


def grid(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an 8-bit dtype, or pairs of corners and random values."""
    numpy = np.dtype(dtype)
    if numpy.itemsize == 1:
        values = np.arange(256, dtype=np.uint8).view(numpy)
    else:
        info = np.iinfo(numpy)
        corners = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7]
        random = np.random.default_rng(5).integers(info.min, info.max, 30, numpy, endpoint=True)
        values = np.concatenate([np.array(corners, numpy), random, -random[:5]])
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", [Add, Sub, Mul, FloorDiv, FloorMod])
@clauses("TIR-EVAL-16c", "TIR-EVAL-16d", "TIR-EVAL-16i", "TIR-EVAL-16j")
def test_integers_agree_with_numpy_and_wrap(kind: type, dtype: str) -> None:
    a, b = grid(dtype)
    if kind in (FloorDiv, FloorMod):
        a, b = a[b != 0], b[b != 0]
    with np.errstate(all="ignore"):
        wanted = NUMPY[kind](a, b).tolist()
    function = binary_function(kind, DataType(dtype))
    assert [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)] == wanted


@pytest.mark.parametrize("dtype", INTEGERS)
@clauses("TIR-EVAL-16f", "TIR-EVAL-16h", "TIR-DIVNOTE-01")
def test_div_and_mod_truncate(dtype: str) -> None:
    a, b = grid(dtype)
    a, b = a[b != 0], b[b != 0]
    div, mod = (binary_function(k, DataType(dtype)) for k in (Div, Mod))
    wrap = wrapper(DataType(dtype))
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        exact = math.trunc(Fraction(x, y))
        assert div(x, y) == wrap(exact)
        assert mod(x, y) == wrap(x - exact * y)


@clauses("TIR-DIVNOTE-01")
def test_the_note_on_division() -> None:
    div, mod = (binary_function(k, DataType("int32")) for k in (Div, Mod))
    assert (div(5, 2), div(-5, 2), mod(-5, 2)) == (2, -2, -1)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint64"])
@given(data=st.data())
@clauses("TIR-DIVNOTE-02", "TIR-DIVNOTE-03", "TIR-DIVNOTE-04", "TIR-DIVNOTE-05")
def test_laws_of_the_floor_pair(dtype: str, data: st.DataObject) -> None:
    kind = DataType(dtype)
    div, mod = (binary_function(k, kind) for k in (FloorDiv, FloorMod))
    a = data.draw(st.integers(kind.min_value, kind.max_value))
    b = data.draw(st.integers(kind.min_value, kind.max_value).filter(bool))
    assert wrapper(kind)(div(a, b) * b + mod(a, b)) == a
    n = data.draw(st.integers(1, kind.max_value))
    assert 0 <= mod(a, n) < n
    if a + n <= kind.max_value:
        assert div(a + n, n) == div(a, n) + 1
        assert mod(a + n, n) == mod(a, n)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@clauses("TIR-EVAL-16e", "TIR-EVAL-16c")
def test_the_smallest_integer_by_minus_one_wraps(dtype: str) -> None:
    kind = DataType(dtype)
    for divide, remainder in ((Div, Mod), (FloorDiv, FloorMod)):
        assert binary_function(divide, kind)(kind.min_value, -1) == kind.min_value
        assert binary_function(remainder, kind)(kind.min_value, -1) == 0


@pytest.mark.parametrize("kind", [Div, Mod, FloorDiv, FloorMod])
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@clauses("TIR-EVAL-16e")
def test_division_of_integers_by_zero_raises(kind: type, dtype: str) -> None:
    with pytest.raises(ZeroDivisionError):
        binary_function(kind, DataType(dtype))(1, 0)


def test_bool_is_arithmetic_modulo_two() -> None:
    table = {
        Add: operator.xor,
        Sub: operator.xor,
        Mul: operator.and_,
        Min: operator.and_,
        Max: operator.or_,
    }
    for kind, wanted in table.items():
        function = binary_function(kind, DataType("bool"))
        for a in (False, True):
            for b in (False, True):
                assert function(a, b) is wanted(a, b)


def sample(dtype: str, count: int) -> list[float]:
    """Special values, corners, and random bit patterns of a float dtype."""
    form = FORMATS[dtype]
    tiny = math.ldexp(1.0, form.least)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        math.inf,
        -math.inf,
        math.nan,
        form.limit,
        -form.limit,
        tiny,
        -tiny,
    ]
    normal = math.ldexp(1.0, form.least + form.precision - 1)
    special += [normal, normal - tiny, 1 + math.ldexp(1, 1 - form.precision), 3.0, 0.5]
    bits = DataType(f"uint{8 * numpy_of(DataType(dtype)).itemsize}")
    random = np.random.default_rng(7).integers(0, bits.max_value, count, np.uint64, endpoint=True)
    cut = rounder(DataType(dtype))
    patterns = [unpack(pack(int(b), bits), DataType(dtype)) for b in random]
    return [cut(x) for x in special] + patterns


REFERENCE = {Add: operator.add, Sub: operator.sub, Mul: operator.mul, Div: operator.truediv}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", [Add, Sub, Mul, Div])
@clauses("TIR-EVAL-16b", "TIR-EVAL-16d", "TIR-EVAL-16g")
def test_floats_agree_with_numpy(kind: type, dtype: str) -> None:
    values = sample(dtype, 180)
    numpy = numpy_of(DataType(dtype))
    function = binary_function(kind, DataType(dtype))
    with np.errstate(all="ignore"):
        # bfloat16 has no arithmetic of its own: float32 is wide enough for one operation.
        wide = np.float32 if dtype == "bfloat16" else numpy
        a = np.array(values, wide)
        wanted = REFERENCE[kind](a[:, None], a[None, :]).astype(numpy).astype(np.float64)
    for i, x in enumerate(values):
        for j, y in enumerate(values):
            assert same(function(x, y), float(wanted[i, j])), (x, y)


@pytest.mark.parametrize("dtype", FLOATS)
@clauses("TIR-EVAL-16b")
def test_floats_are_the_exact_result_rounded_once(dtype: str) -> None:
    values = [x for x in sample(dtype, 60) if math.isfinite(x)]
    form = FORMATS[dtype]
    tables = {Add: operator.add, Sub: operator.sub, Mul: operator.mul, Div: operator.truediv}
    for kind, exact in tables.items():
        function = binary_function(kind, DataType(dtype))
        for x in values:
            for y in values:
                if kind is Div and not y:
                    continue
                result = exact(Fraction(x), Fraction(y))
                if result:
                    assert function(x, y) == round_exact(result, form), (kind, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
@clauses("TIR-EVAL-16k")
def test_min_and_max_keep_nan_and_take_the_first_zero(dtype: str) -> None:
    low, high = (binary_function(k, DataType(dtype)) for k in (Min, Max))
    assert low(math.nan, 2.0) != low(math.nan, 2.0)
    assert high(2.0, math.nan) != high(2.0, math.nan)
    assert math.isnan(low(2.0, math.nan))
    assert math.isnan(high(math.nan, 2.0))
    assert same(low(-0.0, 0.0), -0.0)
    assert same(low(0.0, -0.0), 0.0)
    assert (low(1.0, 2.0), high(1.0, 2.0)) == (1.0, 2.0)
    for x in sample(dtype, 40):
        for y in sample(dtype, 40):
            with np.errstate(all="ignore"):
                assert same(low(x, y) + 0.0, float(np.minimum(x, y)) + 0.0)
                assert same(high(x, y) + 0.0, float(np.maximum(x, y)) + 0.0)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@clauses("TIR-EVAL-21", "TIR-EVAL-21a", "TIR-EVAL-21b", "TIR-EVAL-21c", "TIR-EVAL-21d")
def test_comparisons_agree_with_numpy(dtype: str) -> None:
    numpy = numpy_of(DataType(dtype))
    values = sample(dtype, 20) if dtype in FLOATS else sorted(set(grid(dtype)[0].tolist()))[::3]
    array = np.array(values, numpy)
    for kind, function in COMPARISONS.items():
        with np.errstate(all="ignore"):
            wanted = function(array[:, None], array[None, :]).tolist()
        mine = binary_function(kind, DataType(dtype))
        assert [[mine(x, y) for y in values] for x in values] == wanted


@pytest.mark.parametrize("dtype", FLOATS)
@clauses("TIR-EVAL-16i", "TIR-EVAL-16j")
def test_floor_pair_of_floats(dtype: str) -> None:
    div, mod = (binary_function(k, DataType(dtype)) for k in (FloorDiv, FloorMod))
    assert (div(7.0, 2.0), mod(7.0, 2.0)) == (3.0, 1.0)
    assert (div(-7.0, 2.0), mod(-7.0, 2.0)) == (-4.0, 1.0)
    assert (div(7.0, -2.0), mod(7.0, -2.0)) == (-4.0, -1.0)
    assert div(1.0, 0.0) == math.inf
    assert math.isnan(mod(1.0, 0.0))
    assert same(div(-0.0, 2.0), -0.0)


# -- conversions -------------------------------------------------------------------------------
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
@clauses("TIR-EVAL-04", "TIR-EVAL-04a", "TIR-EVAL-04b")
def test_integers_drop_or_extend_bits(source: str, target: str) -> None:
    values = grid(source)[0][:300]
    convert = conversion(DataType(source), DataType(target))
    assert [convert(x) for x in values.tolist()] == values.astype(target).tolist()


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
@clauses("TIR-EVAL-04c")
def test_floats_to_integers_truncate_and_saturate(source: str, target: str) -> None:
    kind = DataType(target)
    convert = conversion(DataType(source), kind)
    assert (convert(2.75), convert(math.nan)) == (2, 0)
    assert convert(-2.75) == (-2 if kind.is_int else 0)
    assert (convert(math.inf), convert(-math.inf)) == (kind.max_value, kind.min_value)
    for x in sample(source, 200):
        if math.isfinite(x):
            assert convert(x) == min(max(math.trunc(Fraction(x)), kind.min_value), kind.max_value)


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
@clauses("TIR-EVAL-04")
def test_to_bool_is_unequal_to_zero(source: str) -> None:
    convert = conversion(DataType(source), DataType("bool"))
    assert convert(0) is False
    assert all(convert(x) for x in ((2, 1) if source in INTEGERS else (0.5, 2.0, math.nan, -1.0)))
    assert convert(-0.0) is False


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", [*INTEGERS, "bool"])
@clauses("TIR-EVAL-04")
def test_integers_to_floats_round_once(source: str, target: str) -> None:
    kind, form = DataType(source), FORMATS[target]
    convert = conversion(kind, DataType(target))
    values = [0, 1] if kind.is_bool else grid(source)[0].tolist()[:400]
    if kind.bits == 64:
        # Half between two floats but for the last bit: rounding twice goes the wrong way.
        values += [(1 << 62) + (1 << (62 - form.precision)) + 1, (1 << 24) + 1, (1 << 53) + 1]
    for x in values:
        assert convert(x) == round_exact(int(x), form)
    if target in ("float32", "float64") and not kind.is_bool:
        assert [convert(x) for x in values] == np.array(values, source).astype(target).tolist()


@pytest.mark.parametrize("target", FLOATS)
@clauses("TIR-EVAL-04")
def test_floats_narrow_in_one_rounding(target: str) -> None:
    form = FORMATS[target]
    convert = conversion(DataType("float64"), DataType(target))
    half = math.ldexp(1.0, -form.precision)
    # Just above the half between 1 and its successor; rounding to float32 first loses "just above".
    for x in [
        1 + half,
        1 + half + 2**-52,
        1 + 3 * half,
        1 + 3 * half - 2**-51,
        *sample("float64", 500),
    ]:
        if math.isfinite(x) and x:
            assert convert(x) == round_exact(Fraction(x), form)
    for x in (math.inf, -math.inf, math.nan, 0.0, -0.0):
        assert same(convert(x), x)


def test_float16_agrees_with_numpy() -> None:
    convert = conversion(DataType("float64"), DataType("float16"))
    with np.errstate(all="ignore"):
        for x in sample("float64", 300) + sample("float32", 300) + sample("float16", 300):
            assert same(convert(x), float(np.float16(x)))


def test_bfloat16_of_float32_agrees_with_ml_dtypes() -> None:
    convert = conversion(DataType("float32"), DataType("bfloat16"))
    for x in sample("float32", 2000):
        assert same(convert(x), float(ml_dtypes.bfloat16(np.float32(x))))


@pytest.mark.parametrize("dtype", SHORT_FLOATS)
def test_every_short_float_survives_packing(dtype: str) -> None:
    kind, bits = DataType(dtype), DataType("uint16")
    for pattern in range(1 << 16):
        x = unpack(pack(pattern, bits), kind)
        assert x != x or unpack(pack(x, kind), bits) == pattern
        assert same(rounder(kind)(x), x)


@pytest.mark.parametrize("dtype", FLOATS)
@given(x=st.fractions())
def test_rounding_finds_the_nearest(dtype: str, x: Fraction) -> None:
    kind = DataType(dtype)
    got = round_exact(x, FORMATS[dtype])
    if math.isfinite(got) and got:
        bits = DataType(f"uint{kind.bits}")
        pattern = unpack(pack(got, kind), bits)
        for neighbour in (pattern - 1, pattern + 1):
            near = unpack(pack(neighbour, bits), kind)
            if math.isfinite(near):
                assert abs(x - Fraction(got)) <= abs(x - Fraction(near))
