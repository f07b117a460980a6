"""Typed values and constants of LLVM IR.

A ``Value`` is a type and the text that names it. A constant of vector type is a splat of one
scalar, unless ``vector_of`` makes it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    PTR,
    VOID,
    Type,
    array,
    vector,
)
from loomir.support.diagnostics import InternalError

__all__ = [
    "FALSE",
    "NOTHING",
    "NULL",
    "TRUE",
    "Value",
    "aggregate",
    "const",
    "poison",
    "vector_of",
    "zero",
]


class Value:
    """An operand of instructions."""

    __slots__ = ("text", "type")

    def __init__(self, type: Type, text: str) -> None:
        self.type = type
        self.text = text

    @property
    def typed(self) -> str:
        """The value with its type: ``i32 %x``."""
        return f"{self.type.text} {self.text}"

    @property
    def is_constant(self) -> bool:
        """Whether this is a literal, rather than a result, a parameter or a symbol."""
        return self.text[:1] not in "%@"

    def __repr__(self) -> str:
        return f"<{self.typed}>"


NULL: Final = Value(PTR, "null")
TRUE: Final = Value(I1, "true")
FALSE: Final = Value(I1, "false")
NOTHING: Final = Value(VOID, "")


def const(type: Type, value: int | float) -> Value:
    """Make the constant ``value``, in every lane of a vector.

    An integer is taken modulo two to the width. A number for half or float is rounded to nearest,
    ties to even.
    """
    element = type.element if type.lanes > 1 or type.kind == "vector" else type
    if element.kind == "int":
        if not isinstance(value, int):
            raise InternalError(f"{value!r} is not a constant of type {type.text}")
        text = _integer(element.bits, value)
    elif element.kind == "float":
        text = _float(element, float(value))
    else:
        raise InternalError(f"{value!r} is not a constant of type {type.text}")
    return Value(type, text if element is type else f"splat ({element.text} {text})")


def _integer(bits: int, value: int) -> str:
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


def _float(type: Type, value: float) -> str:
    if type is HALF:
        if math.isnan(value):
            return "0xH7E00"
        return f"0xH{_pack('>e', value).hex().upper()}"
    if type is FLOAT and not math.isnan(value):
        # IR writes a constant of type float as the double of the same value.
        value = struct.unpack(">f", _pack(">f", value))[0]
    elif type is not FLOAT and type is not DOUBLE:
        raise InternalError(f"no float constants of type {type.text}")
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.pack('>d', value).hex().upper()}"


def _pack(form: str, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except OverflowError:  # rounds to infinity
        return struct.pack(form, math.copysign(math.inf, value))


def zero(type: Type) -> Value:
    """Return the zero of any type: null for a pointer, all fields zero for a struct."""
    if not type.is_first_class:
        raise InternalError(f"{type.text} has no zero")
    if type.kind in ("int", "float"):
        return const(type, 0)
    return NULL if type is PTR else Value(type, "zeroinitializer")


def poison(type: Type) -> Value:
    """Return poison, the start for building a vector or struct."""
    if not type.is_first_class:
        raise InternalError(f"no value has type {type.text}")
    return Value(type, "poison")


def vector_of(values: Sequence[Value]) -> Value:
    """Make a vector of scalar constants of one type."""
    types = {v.type for v in values}
    if len(types) != 1 or not all(v.is_constant for v in values):
        raise InternalError("a constant vector holds constants of one type")
    return Value(vector(values[0].type, len(values)), f"<{', '.join(v.typed for v in values)}>")


def aggregate(type: Type, values: Sequence[Value]) -> Value:
    """Make a constant array or struct; its elements may be symbols."""
    listed = ", ".join(v.typed for v in values)
    if type.kind == "array":
        wanted: Sequence[Type] = [type.element] * type.count
        text = f"[{listed}]"
    elif type.kind == "struct":
        wanted = type.fields
        text = f"{{ {listed} }}" if values else "{}"
    else:
        raise InternalError(f"{type.text} is not an aggregate")
    if [v.type for v in values] != list(wanted) or any(v.text[:1] == "%" for v in values):
        raise InternalError(f"the values do not make a constant of type {type.text}")
    return Value(type, text)


def bytes_of(data: bytes, text: str) -> Value:
    """Make the constant array of escaped ``text``; for ``Module.string``."""
    return Value(array(I8, len(data)), f'c"{text}"')
