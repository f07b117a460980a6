"""Compare floats with constants such that LLVM does not recognise a maximum or minimum.

LLVM's InstCombine (``foldSPFofSPF``) folds ``max(max(x, C), C)`` to the inner maximum, even if the
inner one propagates NaN and the outer one, ``C < x ? x : C``, would replace NaN by C. So a
comparison with a constant is emitted as one with the next float: ``x > 0`` becomes
``x >= 2**-149``, which is equivalent. Only ``max`` and ``min`` themselves, all of which propagate
NaN, remain for LLVM to recognise.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import FLOAT, HALF, Type
from loomir.codegen.llvm.assembler.values import Value, const

__all__ = ["compare_by_neighbour", "number_of"]

_SWAPPED: Final = {"ogt": "olt", "olt": "ogt", "oge": "ole", "ole": "oge"}
_BESIDE: Final = {"ogt": ("oge", 1), "oge": ("ogt", -1), "olt": ("ole", -1), "ole": ("olt", 1)}
"""The predicate that is equivalent with a neighbour of the constant, and the neighbour's side."""


def compare_by_neighbour(b: Builder, predicate: str, x: Value, y: Value) -> Value:
    """Compare floats; a constant is replaced by its neighbour, with an equivalent predicate."""
    if predicate in _SWAPPED and x.is_constant is not y.is_constant:
        if x.is_constant:
            predicate, x, y = _SWAPPED[predicate], y, x
        other, side = _BESIDE[predicate]
        number = number_of(y)
        if number is not None and math.isfinite(number):
            predicate, y = other, _step_float(y.type, number, side)
    return b.fcmp(predicate, x, y)


def number_of(value: Value) -> float | None:
    """Read a float constant, scalar or splat; None for any other value."""
    digits = value.text.removesuffix(")").rsplit("0x", 1)
    if not value.is_constant or len(digits) != 2:
        return None
    if digits[0] and not digits[0].startswith("splat"):
        return None
    form, code = (">e", digits[1][1:]) if digits[1].startswith("H") else (">d", digits[1])
    made: float = struct.unpack(form, bytes.fromhex(code))[0]
    return made


def _step_float(t: Type, number: float, side: int) -> Value:
    """Return the next float above or below."""
    element = t.element if t.lanes > 1 or t.kind == "vector" else t
    if element is not FLOAT and element is not HALF:
        return const(t, math.nextafter(number, side * math.inf))
    if number == 0:
        return const(t, side * 2.0 ** (-24 if element is HALF else -149))
    form, code = (">e", ">h") if element is HALF else (">f", ">i")
    (bits,) = struct.unpack(code, struct.pack(form, number))
    step = 1 if (number > 0) == (side > 0) else -1
    made: float = struct.unpack(form, struct.pack(code, bits + step))[0]
    return const(t, made)
