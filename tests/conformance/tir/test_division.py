"""The note on division: what tells the truncating pair from the floor pair."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.compare_engines import Array, each, i32, numpy_named

DTYPES = ["int8", "uint8", "int32", "int64", "uint64"]


def all_small(dtype: str) -> Array:
    """List numbers of a dtype around zero, and at its ends."""
    info = np.iinfo(dtype)
    numbers = {*range(-20, 21), info.min, info.min + 1, info.max - 1, info.max}
    return np.array(sorted(n for n in numbers if info.min <= n <= info.max), numpy_named(dtype))


def test_TIR_DIVNOTE_01_truncating_pair():
    """With Div and Mod, 5 / 2 is 2, -5 / 2 is -2, and -5 mod 2 is -1 (T10)."""
    a, b = i32(5, -5, 5, -5), i32(2, 2, -2, -2)
    assert each("T.div(a, b)", a=a, b=b).tolist() == [2, -2, -2, 2]
    assert each("T.truncmod(a, b)", a=a, b=b).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_TIR_DIVNOTE_02_quotient_and_remainder(dtype: str):
    """Floor quotient times divisor plus floor remainder is the dividend, for any divisor (T10)."""
    rows = [(a, b) for a in all_small(dtype) for b in all_small(dtype)[::5] if b]
    a, b = (np.array(column, numpy_named(dtype)) for column in zip(*rows, strict=True))
    assert each("(a // b) * b + a % b", a=a, b=b).tolist() == a.tolist()
    assert each("T.div(a, b) * b + T.truncmod(a, b)", a=a, b=b).tolist() == a.tolist()
    signs = each("a % b", a=a, b=b)
    assert all(0 <= r < d if d > 0 else d < r <= 0 for r, d in zip(signs.tolist(), b.tolist()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_TIR_DIVNOTE_03_range_of_the_remainder(dtype: str, n: int):
    """For a positive N, the floor remainder is at least 0 and below N."""
    out = each(f"a % T.{dtype}({n})", a=all_small(dtype)).tolist()
    assert all(0 <= r < n for r in out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_TIR_DIVNOTE_04_one_more(dtype: str, n: int):
    """For a positive N, adding N adds one to the floor quotient, unless the sum wraps."""
    a = all_small(dtype)
    a = a[a <= np.iinfo(dtype).max - n]
    constant = f"T.{dtype}({n})"
    more = each(f"(a + {constant}) // {constant}", a=a)
    assert more.tolist() == (each(f"a // {constant}", a=a) + numpy_named(dtype).type(1)).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_TIR_DIVNOTE_05_same_remainder(dtype: str, n: int):
    """For a positive N, adding N leaves the floor remainder as it is, unless the sum wraps."""
    a = all_small(dtype)
    a = a[a <= np.iinfo(dtype).max - n]
    constant = f"T.{dtype}({n})"
    more = each(f"(a + {constant}) % {constant}", a=a)
    assert more.tolist() == each(f"a % {constant}", a=a).tolist()
