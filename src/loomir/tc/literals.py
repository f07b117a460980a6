"""Parse literals as C does."""

from __future__ import annotations

import re
from typing import Final

from loomir.support.dtype import DataType
from loomir.tir.expr import FloatImm, IntImm, PrimExpr

__all__ = ["read_number"]

_INTEGER: Final = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
    r"(?P<suffix>[uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])"
)
_FLOAT: Final = re.compile(
    r"(?P<digits>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"(?P<suffix>[fFlL]?)"
)
_HEX_FLOAT: Final = re.compile(
    r"(?P<digits>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)"
    r"(?P<suffix>[fFlL]?)"
)


def read_number(text: str) -> PrimExpr | str:
    """Return the constant of a literal, or say what is wrong with it.

    Types: int32, int64 or uint64, the first that holds it; uint32 with ``u``, at least 64 bits with
    ``l``; float64, float32 with ``f``.
    """
    hit = _INTEGER.fullmatch(text)
    if hit is not None:
        return _integer(hit)
    hit = _FLOAT.fullmatch(text) or _HEX_FLOAT.fullmatch(text)
    if hit is None:
        if re.fullmatch(r"0[0-9]+[uUlL]*", text):
            return "an integer that starts with 0 is octal, with digits from 0 to 7"
        return "C has no such number"
    digits = hit["digits"]
    try:
        value = float.fromhex(digits) if digits[:2] in ("0x", "0X") else float(digits)
    except OverflowError:
        return "it is too large"
    dtype = DataType("float32" if hit["suffix"] in ("f", "F") else "float64")
    if abs(value) > dtype.max_finite:
        return f"it is too large for {dtype}"
    return FloatImm(value, dtype)


def _integer(hit: re.Match[str]) -> PrimExpr | str:
    plain = hit["decimal"]
    digits, base = (plain, 10) if plain else (hit["hex"], 16) if hit["hex"] else (hit["octal"], 8)
    if len(digits) > 70:
        return "it is too large for 64 bits"
    value = int(digits, base)
    suffix = hit["suffix"].lower()
    # As in C: a decimal without u stays signed, other bases may become unsigned.
    signed = [] if "u" in suffix else ["int32", "int64"]
    unsigned = ["uint32", "uint64"] if "u" in suffix or not plain else []
    order = [name for pair in _interleave(signed, unsigned) for name in pair]
    for name in order:
        dtype = DataType(name)
        if "l" in suffix and dtype.bits < 64:
            continue
        if value <= dtype.max_value:
            return IntImm(value, dtype)
    return (
        "it is too large for 64 bits" if not plain or "u" in suffix else "it is too large for int64"
    )


def _interleave(signed: list[str], unsigned: list[str]) -> list[list[str]]:
    if not signed or not unsigned:
        return [signed or unsigned]
    return [[a, b] for a, b in zip(signed, unsigned, strict=True)]
