"""Further kernels for ``benchmarks.odd``: bytes with zero points."""

from __future__ import annotations

from typing import Final

from benchmarks.odd_kernels import Kind

__all__ = ["FORMS"]


def _bytes(x: str, y: str) -> str:
    return f"""
for i, j in T.grid(256, 256):
    acc = T.int32(0)
    for l in range(256):
        acc += {x} * {y}
    o[i, j] = acc
"""


_P, _Q = "T.int32(p[i, l])", "T.int32(q[l, j])"

FORMS: Final[dict[str, Kind]] = {
    "zero points": Kind(
        'p: T.Buffer((256, 256), "uint8"), q: T.Buffer((256, 256), "int8"), '
        'a: T.Buffer((1,), "uint8"), b: T.Buffer((256,), "int8"), '
        'o: T.Buffer((256, 256), "int32")',
        _bytes(_P, _Q),
        {
            "a number": _bytes(f"({_P} - 128)", _Q),
            "two numbers": _bytes(f"({_P} - 128)", f"({_Q} + 3)"),
            "a scalar": _bytes(f"({_P} - T.int32(a[0]))", _Q),
            "one for each column": _bytes(f"({_P} - T.int32(a[0]))", f"({_Q} - T.int32(b[j]))"),
            "differences of int16": _bytes("T.int32(T.int16(p[i, l]) - T.int16(128))", _Q),
        },
        alike=False,
    ),
}
