"""Values at run time, and their representation in memory.

A scalar is a Python ``int`` in the range of its dtype, a ``bool``, or a ``float`` that its dtype
can represent (the floats of every dtype are a subset of float64's). A vector is a tuple of its
lanes, or a range. Rounding to a dtype is exact: once, half to even, from whatever number it starts
with.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.support.dtype import DataType

__all__ = [
    "FORMATS",
    "FloatFormat",
    "Pointer",
    "Scalar",
    "Value",
    "cell_format",
    "decoder",
    "encoder",
    "format_of",
    "pack",
    "round_exact",
    "rounder",
    "unpack",
]

Scalar: TypeAlias = int | float | bool
Value: TypeAlias = Any
"""A scalar, a tuple of scalars, or a handle: a ``Pointer``, a string, or an int (0 is null)."""


class Pointer(NamedTuple):
    """An address: a memory, and an offset in bytes."""

    memory: Any
    offset: int


class FloatFormat(NamedTuple):
    """A binary float format: bits of the significand (with the hidden bit), least exponent."""

    precision: int
    least: int
    """The exponent of the smallest subnormal: its value is 2**least."""
    limit: float
    """The largest finite value."""


FORMATS: Final[dict[str, FloatFormat]] = {
    "float16": FloatFormat(11, -24, 65504.0),
    "bfloat16": FloatFormat(8, -133, 3.3895313892515355e38),
    "float32": FloatFormat(24, -149, 3.4028234663852886e38),
    "float64": FloatFormat(53, -1074, 1.7976931348623157e308),
}


def format_of(dtype: DataType) -> FloatFormat:
    """Return the format of the elements of a float dtype."""
    return FORMATS[str(dtype.element)]


def round_exact(number: int | Fraction, form: FloatFormat) -> float:
    """Round an exact number to a format, to infinity beyond its range."""
    if not number:
        return 0.0
    numerator, below = number.as_integer_ratio()
    above = abs(numerator)
    # The magnitude is in the octave of 2**top or the one below; find which.
    top = above.bit_length() - below.bit_length()
    if above < below << top if top >= 0 else above << -top < below:
        top -= 1
    shift = max(top + 1 - form.precision, form.least)
    if shift >= 0:
        below <<= shift
    else:
        above <<= -shift
    units, rest = divmod(above, below)
    if 2 * rest > below or (2 * rest == below and units & 1):  # half to even
        units += 1
    try:
        rounded = math.ldexp(float(units), shift)
    except OverflowError:
        rounded = math.inf
    if rounded > form.limit:
        rounded = math.inf
    return -rounded if numerator < 0 else rounded


def _float_rounder(form: FloatFormat) -> Callable[[float], float]:
    precision, least, limit = form

    def round_to(x: float) -> float:
        if x != x:
            return x
        if abs(x) >= 2 * limit:
            return math.copysign(math.inf, x)
        shift = max(math.frexp(x)[1] - precision, least)
        # Exact: scaled by a power of two, then `round` rounds half to even.
        near = math.copysign(math.ldexp(round(math.ldexp(x, -shift)), shift), x)
        return near if -limit <= near <= limit else math.copysign(math.inf, x)

    return round_to


def _float32_rounder() -> Callable[[float], float]:
    # Storing into a C float rounds once, half to even, and overflows to infinity.
    cell = memoryview(bytearray(4)).cast("f")

    def round_to(x: float) -> float:
        cell[0] = x
        return cell[0]

    return round_to


def _identity(x: float) -> float:
    return x


_ROUNDERS: Final[dict[str, Callable[[float], float]]] = {
    "float64": _identity,
    "float32": _float32_rounder(),
    "float16": _float_rounder(FORMATS["float16"]),
    "bfloat16": _float_rounder(FORMATS["bfloat16"]),
}


def rounder(dtype: DataType) -> Callable[[float], float]:
    """Return the function that rounds a float64 to the elements of a float dtype."""
    return _ROUNDERS[str(dtype.element)]


# -- memory ------------------------------------------------------------------------------------
_CELLS: Final[dict[str, str]] = {
    "bool": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "H",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
}


def cell_format(dtype: DataType) -> str:
    """Return the ``memoryview`` format of one element, or of its bits if there is none."""
    return _CELLS[str(dtype.element)]


def _unpack_half(bits: int) -> float:
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def _bfloat_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def _bits_of_half(x: float) -> int:
    return struct.unpack("<H", struct.pack("<e", x))[0]


def _bits_of_bfloat(x: float) -> int:
    if x != x:
        return 0x7FC0
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16


_DECODERS: Final[dict[str, Callable[[int], Scalar]]] = {
    "bool": bool,
    "float16": _unpack_half,
    "bfloat16": _bfloat_of,
}
_ENCODERS: Final[dict[str, Callable[[Any], int]]] = {
    "bool": int,
    "float16": _bits_of_half,
    "bfloat16": _bits_of_bfloat,
}


def decoder(dtype: DataType) -> Callable[[int], Scalar] | None:
    """Return the function from a memory cell to a value, or None if they are the same."""
    element = dtype.element
    return _table(str(element)) if element.bits == 16 else _DECODERS.get(str(element))


@functools.cache
def _table(name: str) -> Callable[[int], Scalar] | None:
    """Compute the values of all possible cells at once: faster later, but slow at first."""
    decode = _DECODERS.get(name)
    return None if decode is None else [decode(b) for b in range(1 << 16)].__getitem__


def encoder(dtype: DataType) -> Callable[[Any], int] | None:
    """Return the function from a value to a memory cell, or None if they are the same."""
    return _ENCODERS.get(str(dtype.element))


def pack(value: Value, dtype: DataType) -> bytes:
    """Return the bytes of a value, lanes in order, little-endian."""
    lanes = value if dtype.is_vector else (value,)
    encode = encoder(dtype)
    cells = lanes if encode is None else [encode(v) for v in lanes]
    return struct.pack(f"<{dtype.lanes}{cell_format(dtype)}", *cells)


def unpack(data: bytes, dtype: DataType) -> Value:
    """Return the value of bytes."""
    cells = struct.unpack(f"<{dtype.lanes}{cell_format(dtype)}", data)
    decode = decoder(dtype)
    lanes = cells if decode is None else tuple(decode(c) for c in cells)
    return lanes if dtype.is_vector else lanes[0]
