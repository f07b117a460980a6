"""How values are stored in memory: a bool is a byte (nonzero is true), lanes are contiguous."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I8, Type
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import register_type
from loomir.support.dtype import DataType

__all__ = ["element_size", "load_value", "memory_type", "store_value"]


def memory_type(dtype: DataType) -> Type:
    """Return the type of a value of the dtype in memory."""
    return I8.with_lanes(dtype.lanes) if dtype.is_bool else register_type(dtype)


def element_size(dtype: DataType) -> int:
    """Return the bytes that one lane takes."""
    return (dtype.bits + 7) // 8


def load_value(
    b: Builder, dtype: DataType, address: Value, *, align: int = 0, volatile: bool = False
) -> Value:
    """Read a value of the dtype, lanes side by side; ``align`` as ``Builder.load`` takes it."""
    raw = b.load(memory_type(dtype), address, align=align, volatile=volatile)
    return b.icmp("ne", raw, const(raw.type, 0)) if dtype.is_bool else raw


def store_value(
    b: Builder,
    dtype: DataType,
    value: Value,
    address: Value,
    *,
    align: int = 0,
    volatile: bool = False,
) -> None:
    """Write a value of the dtype, lanes side by side."""
    raw = b.zext(value, memory_type(dtype)) if dtype.is_bool else value
    b.store(raw, address, align=align, volatile=volatile)
