"""How a ``DLTensor`` lies in memory, as IR sees it."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.types import I8, I16, I32, I64, PTR, Type, struct
from loomir.support.dtype import DataType

__all__ = ["DLTENSOR", "FIELDS", "element_code", "header_word"]

DLTENSOR: Final[Type] = struct([PTR, I32, I32, I32, I8, I8, I16, PTR, PTR, I64])
"""data, device type and number, ndim, code, bits, lanes, shape, strides, byte offset."""

FIELDS: Final = {"data": 0, "device": 1, "ndim": 3, "shape": 7, "strides": 8, "byte_offset": 9}


def element_code(dtype: DataType) -> tuple[int, int]:
    """Give DLPack's code and bits of a dtype's elements."""
    return int(dtype.code), 8 if dtype.is_bool else dtype.bits


def header_word(dtype: DataType, rank: int) -> int:
    """Give the 64 bits that ``ndim`` and the dtype fill, lowest byte first."""
    code, bits = element_code(dtype)
    return rank | code << 32 | bits << 40 | dtype.lanes << 48
