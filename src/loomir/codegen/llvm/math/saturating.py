"""Convert floats to integers: truncate, saturate to the range of the integers, NaN to 0.

LLVM's intrinsics for this are split into scalars for vectors: a conversion of float32 to int32 took
five times as long (on a Xeon, Emerald Rapids).
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I32, Type
from loomir.codegen.llvm.assembler.values import Value, const

__all__ = ["float_to_int"]

_DIGITS: Final = {32: 24, 64: 53}
"""Binary digits of a float, by its size."""


def float_to_int(b: Builder, x: Value, to: Type, *, signed: bool) -> Value:
    """Convert float or double to integers of 8 to 64 bits, scalars or vectors."""
    power = to.bits - signed
    least, most = -(2**power) if signed else 0, 2**power - 1
    digits = _DIGITS[x.type.bits]
    # Larger floats are beyond the range.
    highest = most if power <= digits else 2**power - 2 ** (power - digits)
    # Not 0, but the least number that truncates to it: LLVM simplifies ``max(max(x, 0), 0)`` to
    # ``max(x, 0)``, even if the program's own maximum returns NaN for NaN, and this one 0
    # (``foldSPFofSPF``).
    low = const(x.type, float(least) if signed else -1 + 2.0**-digits)
    high = const(x.type, float(highest))
    clipped = b.select(b.fcmp("ogt", x, low), x, low)  # NaN becomes the least number
    clipped = b.select(b.fcmp("olt", clipped, high), clipped, high)
    if to.bits < I32.bits:
        made = b.trunc(b.fptosi(clipped, I32.with_lanes(x.type.lanes)), to)
    else:
        made = b.fptosi(clipped, to) if signed else b.fptoui(clipped, to)
    if highest != most:
        made = b.select(b.fcmp("ogt", x, high), const(to, most), made)
    return b.select(b.fcmp("uno", x, x), const(to, 0), made) if signed else made
