"""Formulas of small numbers, written as text and computed by NumPy at the same time.

A ``Value`` is an expression of a program and its value at every point of a grid. Arithmetic is that
of the language: integers wrap, each float operation rounds by itself, and a float becomes the
nearest integer in range, NaN becomes 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

__all__ = [
    "FLOATS",
    "INTEGERS",
    "Value",
    "bits_of",
    "cast",
    "chosen",
    "clz",
    "combine_truths",
    "const",
    "equal",
    "floored",
    "fma",
    "infinity",
    "is_float",
    "is_signed",
    "larger",
    "limits",
    "magnitude",
    "negated",
    "negative",
    "numpy_of",
    "popcount",
    "rounded",
    "smaller",
    "square_root",
    "truncated",
    "truncated_quotient",
]

Array: TypeAlias = Any

INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_SHORT: Final = ("float16", "bfloat16")


def numpy_of(dtype: str) -> Any:
    """Return NumPy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def bits_of(dtype: str) -> int:
    """Return the width of a dtype."""
    return 8 * numpy_of(dtype).itemsize


def is_float(dtype: str) -> bool:
    """Whether a dtype is one of floats."""
    return dtype in FLOATS


def is_signed(dtype: str) -> bool:
    """Whether a dtype is one of signed integers."""
    return dtype.startswith("int")


def limits(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest of integers."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


# -- conversions -------------------------------------------------------------------------------
def _to_bfloat16(x: Array) -> Array:
    """Round float64 once; the conversion of ml_dtypes rounds to float32 before."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        near = x.astype(np.float32)
    # An odd last bit says that float32 was not exact, so that nothing looks halfway by chance.
    bits = near.view(np.uint32)
    over = np.abs(near.astype(np.float64)) > np.abs(x)
    inexact = (near.astype(np.float64) != x) & np.isfinite(near) & np.isfinite(x)
    bits = np.where(inexact, np.where(over, bits - np.uint32(1), bits) | np.uint32(1), bits)
    # Beyond the range of float32 a float is beyond that of bfloat16 as well.
    return bits.astype(np.uint32).view(np.float32).astype(ml_dtypes.bfloat16)


def _to_float64(x: Array) -> Array:
    """Convert integers to float64 with an odd last bit where that is not exact."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    magnitude = np.where(x < 0, (~x).astype(np.uint64) + np.uint64(1), x.astype(np.uint64))
    low = np.uint64(0xFFF)
    sticky = (magnitude & ~low) | np.where(magnitude & low, np.uint64(0x800), np.uint64(0))
    odd = np.where(magnitude >> np.uint64(53), sticky, magnitude).astype(np.float64)
    return np.where(x < 0, -odd, odd)


def converted(x: Array, dtype: str) -> Array:
    """Convert as the language does."""
    with np.errstate(all="ignore"):
        return _converted(np.asarray(x), dtype)


def _converted(x: Array, dtype: str) -> Array:
    to = numpy_of(dtype)
    if x.dtype == to:
        return x
    if dtype == "bool":
        return x != 0
    from_float = x.dtype.kind == "f" or x.dtype == numpy_of("bfloat16")
    if is_float(dtype):
        if dtype in _SHORT:
            wide = x.astype(np.float64) if from_float or x.dtype.kind == "b" else _to_float64(x)
            return _to_bfloat16(wide) if dtype == "bfloat16" else wide.astype(to)
        return x.astype(to)
    if not from_float:
        return x.astype(to)
    low, high = limits(dtype)
    wide = np.trunc(x.astype(np.float64))
    beyond, below = wide >= 2.0 ** (high.bit_length()), wide < float(low)
    safe = np.where(np.isnan(wide) | beyond | below, 0.0, wide)
    made = safe.astype(np.uint64 if dtype == "uint64" else np.int64).astype(to)
    return np.where(beyond, to.type(high), np.where(below, to.type(low), made))


# -- expressions -------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Value:
    """An expression: its dtype, its text, and what it gives."""

    dtype: str
    text: str
    array: Array

    def __add__(self, other: Value | int | float) -> Value:
        return _binary("+", np.add, self, other)

    def __sub__(self, other: Value | int | float) -> Value:
        return _binary("-", np.subtract, self, other)

    def __mul__(self, other: Value | int | float) -> Value:
        return _binary("*", np.multiply, self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return _binary("/", np.divide, self, other)

    def __and__(self, other: Value | int) -> Value:
        return _binary("&", np.bitwise_and, self, other)

    def __or__(self, other: Value | int) -> Value:
        return _binary("|", np.bitwise_or, self, other)

    def __xor__(self, other: Value | int) -> Value:
        return _binary("^", np.bitwise_xor, self, other)

    def __invert__(self) -> Value:
        return Value(self.dtype, f"(~{self.text})", ~self.array)

    def __lshift__(self, other: Value | int) -> Value:
        return _binary("<<", _shifted(np.left_shift), self, other)

    def __rshift__(self, other: Value | int) -> Value:
        return _binary(">>", _shifted(np.right_shift), self, other)

    def __floordiv__(self, other: Value | int) -> Value:
        return _binary("//", np.floor_divide, self, other)

    def __mod__(self, other: Value | int) -> Value:
        return _binary("%", np.mod, self, other)

    def __lt__(self, other: Value | int | float) -> Value:
        return _compared("<", np.less, self, other)

    def __le__(self, other: Value | int | float) -> Value:
        return _compared("<=", np.less_equal, self, other)

    def __gt__(self, other: Value | int | float) -> Value:
        return _compared(">", np.greater, self, other)

    def __ge__(self, other: Value | int | float) -> Value:
        return _compared(">=", np.greater_equal, self, other)


def _shifted(shift: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def by(x: Array, y: Array) -> Array:
        return shift(x, (y & (8 * x.dtype.itemsize - 1)).astype(x.dtype))

    return by


def const(number: float, dtype: str) -> Value:
    """Return a number, which floats must hold."""
    if is_float(dtype):
        made = converted(np.array(number, np.float64), dtype)
        if not np.isfinite(made):
            return infinity(dtype, minus=number < 0)
        return Value(dtype, f"T.{dtype}({float(made)!r})", made)
    return Value(dtype, f"T.{dtype}({int(number)})", np.array(int(number), dtype))


def infinity(dtype: str, *, minus: bool = False) -> Value:
    """Return an infinity."""
    made = np.array(-math.inf if minus else math.inf, numpy_of(dtype))
    return Value(dtype, f'({"-" if minus else ""}T.infinity("{dtype}"))', made)


def _of(dtype: str, other: Value | int | float) -> Value:
    made = other if isinstance(other, Value) else const(other, dtype)
    assert made.dtype == dtype, (made.dtype, dtype)
    return made


def computed(dtype: str, function: Callable[..., Array], *arrays: Array) -> Array:
    """Compute in a dtype; short floats in float32, rounded at the end."""
    with np.errstate(all="ignore"):
        if dtype not in _SHORT:
            return np.asarray(function(*map(np.asarray, arrays))).astype(numpy_of(dtype))
        wide = [np.asarray(a).astype(np.float32) for a in arrays]
        return converted(np.asarray(function(*wide)), dtype)


def _binary(
    name: str, function: Callable[[Array, Array], Array], a: Value, other: Value | int | float
) -> Value:
    b = _of(a.dtype, other)
    return Value(
        a.dtype, f"({a.text} {name} {b.text})", computed(a.dtype, function, a.array, b.array)
    )


def _compared(
    name: str, function: Callable[[Array, Array], Array], a: Value, other: Value | int | float
) -> Value:
    b = _of(a.dtype, other)
    with np.errstate(all="ignore"):  # NaN
        made = function(a.array, b.array)
    return Value("bool", f"({a.text} {name} {b.text})", made)


def equal(a: Value, other: Value | int, *, not_so: bool = False) -> Value:
    """Compare whether numbers are equal, or are not."""
    return (
        _compared("!=", np.not_equal, a, other) if not_so else _compared("==", np.equal, a, other)
    )


def combine_truths(word: str, a: Value, b: Value) -> Value:
    """Combine truth values by ``and`` or ``or``."""
    function = np.logical_and if word == "and" else np.logical_or
    return Value("bool", f"({a.text} {word} {b.text})", function(a.array, b.array))


def negated(a: Value) -> Value:
    """Return the other truth value."""
    return Value("bool", f"(not {a.text})", ~a.array)


def cast(x: Value, dtype: str) -> Value:
    """Convert a value."""
    return Value(dtype, f'T.Cast("{dtype}", {x.text})', converted(x.array, dtype))


def chosen(condition: Value, a: Value, other: Value | int | float, *, lazy: bool = False) -> Value:
    """Choose one of two values."""
    b = _of(a.dtype, other)
    word = "T.if_then_else" if lazy else "T.Select"
    made = np.where(condition.array, a.array, b.array).astype(numpy_of(a.dtype))
    return Value(a.dtype, f"{word}({condition.text}, {a.text}, {b.text})", made)


def smaller(a: Value, other: Value | int | float) -> Value:
    """Return the smaller one, NaN if either is; the first of two zeros."""
    b = _of(a.dtype, other)
    x, y = np.asarray(a.array), np.asarray(b.array)
    made = np.where(np.isnan(x) | (x <= y) if is_float(a.dtype) else x <= y, x, y)
    return Value(a.dtype, f"T.min({a.text}, {b.text})", made.astype(numpy_of(a.dtype)))


def larger(a: Value, other: Value | int | float) -> Value:
    """Return the larger one, NaN if either is; the first of two zeros."""
    b = _of(a.dtype, other)
    x, y = np.asarray(a.array), np.asarray(b.array)
    made = np.where(np.isnan(x) | (x >= y) if is_float(a.dtype) else x >= y, x, y)
    return Value(a.dtype, f"T.max({a.text}, {b.text})", made.astype(numpy_of(a.dtype)))


def negative(x: Value) -> Value:
    """Return a number with the other sign."""
    return Value(x.dtype, f"(-{x.text})", computed(x.dtype, np.negative, x.array))


def magnitude(x: Value) -> Value:
    """Return a number without its sign; the least integer stays."""
    return Value(x.dtype, f"T.abs({x.text})", computed(x.dtype, np.abs, x.array))


def truncated_quotient(x: Value, divisor: int) -> Value:
    """Divide by a number other than 0 and -1, rounded towards zero."""
    by = const(divisor, x.dtype)
    low = np.floor_divide(x.array, by.array)
    more = (np.mod(x.array, by.array) != 0) & ((x.array < 0) != (divisor < 0))
    made = (low + more.astype(low.dtype)).astype(low.dtype)
    return Value(x.dtype, f"T.div({x.text}, {by.text})", made)


def popcount(x: Value) -> Value:
    """Count bits that are set; an int32."""
    width = bits_of(x.dtype)
    unsigned = np.asarray(x.array).astype(f"uint{width}").astype(np.uint64)
    made = sum(((unsigned >> np.uint64(k)) & np.uint64(1)) for k in range(width))
    return Value("int32", f"T.popcount({x.text})", np.asarray(made).astype(np.int32))


def clz(x: Value) -> Value:
    """Count zero bits above the highest set bit; an int32."""
    width = bits_of(x.dtype)
    unsigned = np.asarray(x.array).astype(f"uint{width}").astype(np.uint64)
    used = sum(((unsigned >> np.uint64(k)) != 0).astype(np.int32) for k in range(width))
    return Value("int32", f"T.clz({x.text})", np.asarray(width - used).astype(np.int32))


def rounded(x: Value, how: str) -> Value:
    """Round a float by ``floor``, ``ceil``, ``trunc`` or ``round``."""
    function = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}[how]
    return Value(x.dtype, f"T.{how}({x.text})", computed(x.dtype, function, x.array))


def floored(x: Value) -> Value:
    """Round a float down."""
    return rounded(x, "floor")


def truncated(x: Value) -> Value:
    """Round a float towards zero."""
    return rounded(x, "trunc")


def square_root(x: Value) -> Value:
    """Return the square root, correctly rounded."""
    return Value(x.dtype, f"T.sqrt({x.text})", computed(x.dtype, np.sqrt, x.array))


def fma(a: Value, b: Value, c: Value) -> Value:
    """Return a * b + c rounded once, of numbers whose product and sum float64 holds."""
    x, y, z = (v.array.astype(np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        total = np.asarray(x * y + z)
    made = converted(total, a.dtype)
    return Value(a.dtype, f"T.fma({a.text}, {b.text}, {c.text})", made)
