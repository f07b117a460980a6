"""Emulate the matrix unit (AMX), which this Bochs CPU lacks, by the definition of its instructions.

Instructions are passed encoded, and memory is that of this process. Products of bfloat16 are added
as the manual defines: those at even and at odd positions in two sums, without rounding the product
first, then the two sums, then the old value. Denormal floats count as zero everywhere, and the
rounding mode and flags of the CPU have no effect.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["Operands", "TileError", "Tiles", "decoded"]

_COUNT, _ROWS, _BYTES = 8, 16, 64
_WORDS: Final = _BYTES // 4
_TINY: Final = np.float32(2.0**-126)


class TileError(Exception):
    """An instruction that the unit refuses."""


class Operands(NamedTuple):
    """A decoded instruction of the unit."""

    name: str
    size: int
    """How many bytes the instruction has."""
    target: int = 0
    """The tile that is written, or stored."""
    left: int = 0
    right: int = 0
    address: int = 0
    stride: int = 0


# By the opcode, the prefix (0 none, 1 66, 2 F3, 3 F2) and whether it names a tile or memory.
_NAMES: Final = {
    (0x49, 0, True): "release",
    (0x49, 3, True): "zero",
    (0x49, 0, False): "load_config",
    (0x49, 1, False): "store_config",
    (0x4B, 3, False): "load",
    (0x4B, 1, False): "load",
    (0x4B, 2, False): "store",
    (0x5E, 0, True): "dot_uu",
    (0x5E, 1, True): "dot_us",
    (0x5E, 2, True): "dot_su",
    (0x5E, 3, True): "dot_ss",
    (0x5C, 2, True): "dot_bf16",
}


def decoded(code: bytes, place: int, registers: Sequence[int]) -> Operands | None:
    """Decode the instruction at a place; None where it is none of the unit's.

    ``registers`` are the 16 general ones in the order of their numbers.
    """
    if len(code) < 5 or code[0] != 0xC4 or code[1] & 0x1F != 2 or code[2] & 0x84:
        return None
    prefix, opcode, more = code[2] & 3, code[3], code[4]
    mode, reg, rm = more >> 6, more >> 3 & 7, more & 7
    name = _NAMES.get((opcode, prefix, mode == 3))
    if name is None:
        return None
    if mode == 3:
        return Operands(name, 5, reg, rm, ~code[2] >> 3 & 15)
    at, base, stride = 5, 0, 0
    low = registers[rm | (~code[1] >> 5 & 1) << 3] if rm != 4 else 0
    wide = mode == 2
    if rm == 4:
        whole = code[at]
        at += 1
        index = whole >> 3 & 7 | (~code[1] >> 6 & 1) << 3
        number = whole & 7
        if index != 4:
            stride = registers[index] << (whole >> 6)
        if number == 5 and mode == 0:
            wide = True
        else:
            base = registers[number | (~code[1] >> 5 & 1) << 3]
    elif rm == 5 and mode == 0:
        base, wide = place + 9, True  # from the end of the instruction
    else:
        base = low
    offset = 0
    if wide:
        (offset,) = struct.unpack_from("<i", code, at)
        at += 4
    elif mode == 1:
        (offset,) = struct.unpack_from("<b", code, at)
        at += 1
    address = base + offset
    if opcode == 0x49:
        address, stride = address + stride, 0
    elif rm != 4:
        return None
    mask = (1 << 64) - 1
    signed = stride & mask
    return Operands(name, at, reg, address=address & mask, stride=signed - (signed >> 63 << 64))


class Tiles:
    """Eight tiles and their shapes."""

    def __init__(self) -> None:
        self._data = np.zeros((_COUNT, _ROWS, _BYTES), np.uint8)
        self._shapes: list[tuple[int, int]] | None = None
        self._config = bytes(64)
        self._products = 0

    def took_part(self) -> bool:
        """Whether there were products since this was last asked."""
        found, self._products = self._products > 0, 0
        return found

    def run(self, place: int, registers: Sequence[int]) -> int:
        """Run the instruction at a place; return its size, or 0 where it is none of the unit's.

        Errors: TileError where the unit refuses it.
        """
        found = decoded(ctypes.string_at(place, 12), place, registers)
        if found is None:
            return 0
        getattr(self, f"_{found.name}")(found)
        return found.size

    def _shape(self, tile: int) -> tuple[int, int]:
        if self._shapes is None:
            raise TileError("tiles are used before they have shapes")
        rows, width = self._shapes[tile]
        if not rows or not width:
            raise TileError(f"tile {tile} is used without a shape")
        return rows, width

    def _load_config(self, found: Operands) -> None:
        """Take the shapes of tiles from 64 bytes."""
        text = ctypes.string_at(found.address, 64)
        self._data[...] = 0
        self._config = text
        if text[0] == 0:
            self._release(found)
            return
        widths, rows = struct.unpack_from("<8H", text, 16), text[48:56]
        if text[0] != 1 or any(text[2:16]) or any(text[32:48]) or any(text[56:64]) or text[1]:
            raise TileError("shapes of tiles in a form that does not exist")
        for height, width in zip(rows, widths):
            if height > _ROWS or width > _BYTES or bool(height) != bool(width):
                raise TileError(f"a tile of {height} rows of {width} bytes")
        self._shapes = list(zip(rows, widths))

    def _store_config(self, found: Operands) -> None:
        ctypes.memmove(found.address, self._config, 64)

    def _release(self, found: Operands) -> None:
        """Forget shapes and contents."""
        self._data[...] = 0
        self._shapes, self._config = None, bytes(64)

    def _zero(self, found: Operands) -> None:
        self._shape(found.target)
        self._data[found.target] = 0

    def _load(self, found: Operands) -> None:
        rows, width = self._shape(found.target)
        tile = self._data[found.target]
        tile[...] = 0
        for row in range(rows):
            text = ctypes.string_at(found.address + row * found.stride, width)
            tile[row, :width] = np.frombuffer(text, np.uint8)

    def _store(self, found: Operands) -> None:
        rows, width = self._shape(found.target)
        for row in range(rows):
            text = self._data[found.target, row, :width].tobytes()
            ctypes.memmove(found.address + row * found.stride, text, width)

    def _dot(self, found: Operands, product: Callable[[Any, Any, Any], Any], dtype: str) -> None:
        """Add products: each row of the left by each column of words of the right."""
        self._products += 1
        target, left, right = found.target, found.left, found.right
        (rows, width), (height, depth), (steps, columns) = map(self._shape, (target, left, right))
        if len({target, left, right}) < 3:
            raise TileError("a product of tiles that are not three")
        if rows != height or width != columns or depth != 4 * steps or width % 4:
            raise TileError(
                f"a product of {height}x{depth} and {steps}x{columns} bytes in {rows}x{width}"
            )
        sums = self._data[target, :rows, :width].copy().view(dtype)
        ours = self._data[left, :rows, :depth].copy()
        theirs = self._data[right, :steps, :width].copy()
        made = product(sums, ours, theirs)
        self._data[target] = 0
        self._data[target, :rows, :width] = np.ascontiguousarray(made).view(np.uint8)

    def _bytes(self, found: Operands, left: str, right: str) -> None:
        def product(sums: Any, ours: Any, theirs: Any) -> Any:
            a = ours.view(left).astype(np.int64).reshape(len(ours), -1, 4)
            b = theirs.view(right).astype(np.int64).reshape(len(theirs), -1, 4)
            return (sums + np.einsum("mkp,knp->mn", a, b)).astype(np.uint32)

        self._dot(found, product, "u4")

    def _dot_ss(self, found: Operands) -> None:
        self._bytes(found, "i1", "i1")

    def _dot_su(self, found: Operands) -> None:
        self._bytes(found, "i1", "u1")

    def _dot_us(self, found: Operands) -> None:
        self._bytes(found, "u1", "i1")

    def _dot_uu(self, found: Operands) -> None:
        self._bytes(found, "u1", "u1")

    def _dot_bf16(self, found: Operands) -> None:
        self._dot(found, _bf16, "f4")


def _bf16(sums: Any, ours: Any, theirs: Any) -> Any:
    with np.errstate(all="ignore"):
        left = _floats(ours).reshape(len(ours), -1, 2)
        right = _floats(theirs).reshape(len(theirs), -1, 2)
        halves = []
        for half in (0, 1):
            total = np.zeros(sums.shape, np.float32)
            for k in range(right.shape[0]):
                total = _fused(left[:, k, half][:, None], right[k, :, half][None, :], total)
            halves.append(total)
        return _flushed(_flushed(sums) + _flushed(halves[0] + halves[1]))


def _floats(data: Any) -> Any:
    """Read bfloat16 as float32, denormals as zero."""
    return _flushed((data.view("u2").astype("u4") << 16).view("f4"))


def _flushed(values: Any) -> Any:
    return np.where(np.abs(values) < _TINY, np.copysign(np.float32(0), values), values)


def _fused(x: Any, y: Any, z: Any) -> Any:
    """Multiply and add, rounded once: products of bfloat16 are exact in float64."""
    product = x.astype(np.float64) * y.astype(np.float64)
    total = product + z.astype(np.float64)
    made = total.astype(np.float32)
    # Rounded twice where the sum in float64 was not exact: those few are done by fractions.
    error = _error_of_sum(product, z.astype(np.float64), total)
    for place in np.argwhere((error != 0) & np.isfinite(total)):
        at = tuple(place)
        exact = Fraction(float(product[at])) + Fraction(float(np.broadcast_to(z, total.shape)[at]))
        made[at] = _nearest(exact)
    return _flushed(made)


def _error_of_sum(a: Any, b: Any, total: Any) -> Any:
    part = total - a
    return (a - (total - part)) + (b - part)


def _nearest(value: Fraction) -> np.float32:
    """Round to the nearest float32, to even in the middle."""
    if not value:
        return np.float32(0)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, -126) - 23)
    return np.float32(float(round(value / step) * step))
