"""Math kernels at their hardest: limits, poles, multiples of a quarter turn, special values."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from loomir.codegen.llvm.math.mathlib import MATH, emit_math
from loomir.support.dtype import DataType
from loomir.tir.builtins.accuracy import ACCURACY
from tests.codegen.llvm.kernels import kernel
from tests.codegen.llvm.math.test_mathlib import REFERENCES

INF, NAN = math.inf, math.nan


def sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mpmath.exp(-x))


TRUE: dict[str, Callable[..., mpf]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpf(2) ** x,
    "exp10": lambda x: mpf(10) ** x,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "tanh": mpmath.tanh,
    "sigmoid": sigmoid,
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
    "pow": lambda x, y: x**y,
    "atan2": mpmath.atan2,
    "hypot": mpmath.hypot,
}


def run(name: str, bits: int, *args: np.ndarray) -> np.ndarray:
    dtype = DataType(f"float{bits}x4")
    return kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype] * len(args), dtype)(*args)


def real(bits: int) -> type:
    return np.float32 if bits == 32 else np.float64


def around(points: list[float], bits: int, steps: int = 20) -> np.ndarray:
    """Return numbers and their neighbours, near and farther."""
    kind = real(bits)
    with np.errstate(all="ignore"):
        base = np.array(points).astype(kind)
        base = base[np.isfinite(base)]
        words = base.view(f"i{bits // 8}")
        moves = [*range(-steps, steps + 1), *(s << k for k in range(5, 20, 2) for s in (-1, 1))]
        near = np.concatenate([words + m for m in moves]).astype(words.dtype).view(kind)
        found = np.unique(np.concatenate([base, near, -near]))
    return found[np.isfinite(found)]


def error(got: float, true: mpf, bits: int) -> float:
    """Return the error in units in the last place of the true value, or infinity."""
    digits, least, most = (24, -149, 128) if bits == 32 else (53, -1074, 1024)
    half_way = mpf(2) ** most - mpf(2) ** (most - digits - 1)
    if abs(true) >= half_way or math.isinf(got):
        # Near the limit either may be what the rounded result is, within the bound.
        size = mpf(2) ** most if math.isinf(got) else mpf(abs(got))
        if (got > 0) != (true > 0):
            return INF
        return float(abs(size - min(abs(true), mpf(2) ** most)) / mpf(2) ** (most - digits))
    exponent = mpmath.frexp(true)[1] if true else least
    unit = mpf(2) ** max(exponent - digits, least)
    return float(abs(mpf(got) - true) / unit)


def quarter_turns(bits: int) -> np.ndarray:
    """Give, for exponents of all sizes, the number that is nearest to a multiple of pi/2."""
    digits = 24 if bits == 32 else 53
    top = 104 if bits == 32 else 971
    found: list[float] = []
    with mpmath.workprec(2400):
        ratio = 2 / mpmath.pi
        for e in [*range(-digits, 60), *range(60, top, 7), 797, top]:
            if e > top:
                continue
            scaled = ratio * mpf(2) ** e
            rest = Fraction(int((scaled - mpmath.floor(scaled)) * 2**200), 2**200)
            before, last = 0, 1
            while rest and last < 2**digits:
                rest = 1 / rest
                whole = rest.numerator // rest.denominator
                following = whole * last + before
                if following >= 2**digits:
                    break
                before, last, rest = last, following, rest - whole
            for m in {last, last * ((2**digits - 1) // last)}:
                found.append(math.ldexp(m, e))
    return np.array(found).astype(real(bits))


LIMITS = {
    "exp": [88.72284, -87.33655, -103.97208, 709.782712893384, -708.3964, -745.1332191019411],
    "exp2": [128.0, -126.0, -149.0, -150.0, 1024.0, -1022.0, -1074.0, -1075.0],
    "exp10": [38.53184, -37.92978, -45.15449, 308.2547155599167, -307.6526, -323.6062, 22.0],
    "sinh": [89.41599, 710.4758600739439, 1.0, 0.00390625, 20.0],
    "cosh": [89.41599, 710.4758600739439, 1.0, 20.0],
    "tanh": [0.35, 9.01, 10.0, 19.06, 20.0],
    "sigmoid": [-87.33655, -103.97208, -708.3964, -745.1332191019411, 37.0],
    "erf": [1.0, 3.919, 4.0, 5.92, 6.0],
    "log": [math.sqrt(2), math.sqrt(0.5), 1.0],
    "log2": [math.sqrt(2), math.sqrt(0.5), 1.0, 8.0, 2.0**100],
    "log10": [math.sqrt(2), math.sqrt(0.5), 1.0, 10.0, 1e22],
    "log1p": [1.0, -0.5, -1.0, 2.0**-16, 2.0**-53, 2.0**53, math.sqrt(2) - 1, math.sqrt(0.5) - 1],
    "asin": [0.5, 1.0, 0.7071067811865476],
    "acos": [0.5, 1.0, 0.7071067811865476],
    "atan": [1.0, 0.4142135623730951, 2.0**53],
    "asinh": [1.0, 0.00390625, 2.0**28, 0.75],
    "acosh": [1.0, 1.5, 2.0**28],
    "atanh": [1.0, 0.00390625, 0.5, 0.171572875],
    "sqrt": [1.0, 2.0, 4.0],
    "rsqrt": [1.0, 2.0, 4.0],
}
COMMON = [0.0, 1.0, 0.5, 2.0, 3.141592653589793]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", sorted(n for n in TRUE if MATH[n].arity == 1))
def test_the_bounds_hold_at_limits_and_near_poles(name: Any, bits: int):
    kind = real(bits)
    info = np.finfo(kind)
    edges = [float(info.tiny), float(info.smallest_subnormal), 2.0**-30, 2.0**30]
    x = around([*COMMON, *LIMITS.get(name, []), *edges], bits, 6)
    x = np.concatenate([x, np.array([info.max, -info.max], kind)])
    if name in ("sin", "cos", "tan"):
        turns = quarter_turns(bits)
        x = np.concatenate([x, turns, -turns, np.nextafter(turns, kind(0))])
    got = run(name, bits, x)
    worst = (0.0, 0.0)
    with mpmath.workprec(1300 if name in ("sin", "cos", "tan") else 300):
        for value, found in zip(x.tolist(), got.tolist(), strict=True):
            true = _true(name, value)
            if true is None or mpmath.isinf(true):
                continue  # the table of special values has these
            assert not math.isnan(found), (name, value)
            worst = max(worst, (error(found, true, bits), value))
    row = ACCURACY[name]
    assert worst[0] <= (row.float32 if bits == 32 else row.float64), worst


def _true(name: str, x: float) -> mpf | None:
    """Return the true value, or None outside of the domain and where it is far beyond the range."""
    domains = {
        "log": x > 0,
        "log2": x > 0,
        "log10": x > 0,
        "log1p": x > -1,
        "sqrt": x >= 0,
        "rsqrt": x > 0,
        "asin": abs(x) <= 1,
        "acos": abs(x) <= 1,
        "acosh": x >= 1,
        "atanh": abs(x) < 1,
    }
    if not domains.get(name, True):
        return None
    if name in ("exp", "exp2", "exp10", "sinh", "cosh", "sigmoid") and abs(x) > 5000:
        return None
    if name in ("tanh", "erf") and abs(x) > 100:
        return mpf(math.copysign(1, x))
    return TRUE[name](mpf(x))


def _pairs(name: str, bits: int) -> tuple[np.ndarray, np.ndarray]:
    kind = real(bits)
    info = np.finfo(kind)
    rng = np.random.default_rng(17)
    most = math.log(float(info.max))
    if name == "pow":
        x = np.concatenate(
            [
                np.exp(rng.uniform(-most, most, 400)),
                1
                + rng.choice([-1, 1], 400)
                * np.exp2(-rng.uniform(1, 24 if bits == 32 else 53, 400)),
                rng.integers(2, 40, 200),
            ]
        ).astype(kind)
        size = np.log(x.astype(np.float64))
        # Powers near the ends of the range, and some in the middle.
        target = rng.choice([most, -most, -most - 15, 1.0], len(x)) * rng.uniform(0.98, 1.0, len(x))
        y = (target / np.where(size == 0, 1, size)).astype(kind)
        y[-200:] = rng.integers(-20, 20, 200)
    else:
        x, y = (
            (rng.choice([-1, 1], 1000) * np.exp(rng.uniform(-most, most, 1000))).astype(kind)
            for _ in range(2)
        )
        y[:500] = x[:500] * rng.uniform(0.2, 1.0, 500).astype(kind)
        y[200:400], x[200:400] = x[200:400].copy(), y[200:400].copy()
        x[500:510], y[510:520] = info.smallest_subnormal, info.smallest_subnormal
        y[520:530], x[520:530] = info.tiny, info.tiny * 3
    keep = np.isfinite(x) & np.isfinite(y)
    return x[keep], y[keep]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
def test_the_bounds_hold_for_two_arguments(name: str, bits: int):
    x, y = _pairs(name, bits)
    got = run(name, bits, x, y)
    row = ACCURACY[name]
    worst = (0.0, 0.0, 0.0)
    with mpmath.workprec(300):
        for a, c, found in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
            true = TRUE[name](mpf(a), mpf(c))
            worst = max(worst, (error(found, true, bits), a, c))
    assert worst[0] <= (row.float32 if bits == 32 else row.float64), worst


@pytest.mark.parametrize("bits", [32, 64])
def test_remainders_are_exact(bits: int):
    kind = real(bits)
    info = np.finfo(kind)
    rng = np.random.default_rng(23)
    drawn = rng.integers(0, 2**bits, (2, 6000), np.uint32 if bits == 32 else np.uint64)
    x, y = drawn.view(kind)
    small = rng.integers(1, 50, 2000).astype(kind)
    x = np.concatenate([x, small * kind(0.1), small * info.smallest_subnormal, info.max / small])
    y = np.concatenate([y, np.roll(small, 1) * kind(0.1), small[::-1] * kind(3), info.tiny * small])
    keep = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[keep], y[keep]
    got = run("fmod", bits, x, y)
    want = np.array([math.fmod(a, c) for a, c in zip(x.tolist(), y.tolist(), strict=True)], kind)
    assert (got.view(f"u{bits // 8}") == want.view(f"u{bits // 8}")).all()


QUARTER, HALF_TURN = math.pi / 4, math.pi
# C99, Annex F; a zero's sign counts.
SPECIAL: dict[str, list[tuple[float, ...]]] = {
    "exp": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (1e4, INF), (-1e4, 0.0)],
    "exp2": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (3.0, 8.0), (-1.0, 0.5)],
    "exp10": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (1.0, 10.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (8.0, 3.0)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (1000.0, 3.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-1.5, NAN), (INF, INF), (-INF, NAN)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (4.0, 2.0)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (-1e4, INF)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN), (1.0, 2 * QUARTER)],
    "acos": [(1.0, 0.0), (-1.0, HALF_TURN), (0.0, 2 * QUARTER), (1.5, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, 2 * QUARTER), (-INF, -2 * QUARTER), (1.0, QUARTER)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)],
    "floor": [(0.5, 0.0), (-0.5, -1.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "ceil": [(0.5, 1.0), (-0.5, -0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "trunc": [(0.5, 0.0), (-0.5, -0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "round": [(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0), (INF, INF)],
    "nearbyint": [(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0), (INF, INF)],
    "atan2": [
        *((0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, HALF_TURN), (-0.0, -0.0, -HALF_TURN)),
        *((0.0, -1.0, HALF_TURN), (-0.0, -1.0, -HALF_TURN), (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0)),
        *((-1.0, 0.0, -2 * QUARTER), (-1.0, -0.0, -2 * QUARTER), (1.0, -0.0, 2 * QUARTER)),
        *((1.0, -INF, HALF_TURN), (-1.0, -INF, -HALF_TURN), (1.0, INF, 0.0), (-1.0, INF, -0.0)),
        *((INF, 1.0, 2 * QUARTER), (-INF, -1.0, -2 * QUARTER), (INF, INF, QUARTER)),
        *((INF, -INF, 3 * QUARTER), (-INF, INF, -QUARTER), (-INF, -INF, -3 * QUARTER)),
    ],
    "hypot": [(INF, NAN, INF), (NAN, -INF, INF), (3.0, 4.0, 5.0), (0.0, -0.0, 0.0)],
    "fmod": [
        *((0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (1.0, 0.0, NAN), (INF, 1.0, NAN), (1.0, INF, 1.0)),
        *((-1.0, -INF, -1.0), (-0.0, INF, -0.0), (5.0, 3.0, 2.0), (-5.0, 3.0, -2.0)),
        *((5.0, -3.0, 2.0), (-6.0, 3.0, -0.0), (INF, INF, NAN), (0.0, 0.0, NAN)),
    ],
    "pow": [
        *((0.0, -1.0, INF), (-0.0, -1.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF)),
        *((0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0)),
        *((-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0)),
        *((1.0, NAN, 1.0), (1.0, INF, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (-8.0, 0.5, NAN)),
        *((0.5, -INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0), (-2.0, INF, INF)),
        *((-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF)),
        *(
            (-INF, 0.5, INF),
            (INF, -1.0, 0.0),
            (INF, 1.0, INF),
            (-2.0, 3.0, -8.0),
            (-2.0, -1.0, -0.5),
        ),
        *((NAN, 1.0, NAN), (2.0, NAN, NAN), (0.0, NAN, NAN), (INF, NAN, NAN), (-2.0, 1e300, INF)),
    ],
}


def test_every_function_has_special_values():
    assert set(SPECIAL) == set(MATH)
    for name, rows in SPECIAL.items():
        assert {len(row) for row in rows} == {MATH[name].arity + 1}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values_are_those_of_the_standards(name: Any, bits: int):
    kind = real(bits)
    arity = MATH[name].arity
    rows = list(SPECIAL[name])
    if name not in ("pow", "hypot"):  # which give numbers beside NaN
        rows += [(*r, NAN) for r in itertools.product((NAN, 1.0), repeat=arity) if NAN in r]
    with np.errstate(all="ignore"):
        columns = [np.array(c).astype(kind) for c in zip(*rows, strict=True)]
    got = run(name, bits, *columns[:-1])
    for row, found, want in zip(rows, got, columns[-1], strict=True):
        if np.isnan(want):
            assert np.isnan(found), row
        elif found != want and name in ACCURACY and np.isfinite(want):
            # A rounded constant such as pi: within the bound, and of the same sign.
            assert abs(found - want) <= 2 * np.spacing(abs(want)), row
        else:
            assert found == want, row
        assert np.isnan(want) or np.signbit(found) == np.signbit(want), row


EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("name", sorted(n for n in ACCURACY if MATH[n].arity == 1 and n != "erf"))
def test_rounding_twice_costs_a_16_bit_float_next_to_nothing(name: Any):
    """Of all float16 numbers: half a unit, and what the float32 result was off by."""
    dtype = DataType("float16x8")
    x = EVERY_HALF.view(np.float16)
    got = kernel(lambda b, v: emit_math(b, name, v, dtype), [dtype], dtype)(x)
    with np.errstate(all="ignore"):
        true = REFERENCES[name](x.astype(np.longdouble))
        rounded = true.astype(np.float16)
        unit = np.maximum(np.exp2(np.frexp(true)[1].astype(np.float64) - 11), 2.0**-24)
        off = np.abs(got.astype(np.longdouble) - true) / unit
    settled = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    assert (settled | (off <= 0.5 + ACCURACY[name].float32 * 2.0**-13)).all()
