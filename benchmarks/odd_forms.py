"""Further kernels for ``benchmarks.odd``: bytes with zero points, padded reads, searches."""

from __future__ import annotations

import textwrap
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


def _padded(value: str) -> str:
    return f"""
for y, x in T.grid(512, 512):
    acc = T.float32(0)
    for r, s in T.grid(3, 3):
        acc += {value} * w[r, s]
    o[y, x] = acc
"""


def _searched(
    body: str, start: str = "best = x[i, 0]\nat = T.int64(0)", end: str = "o[i] = at"
) -> str:
    """Search rows for the index of the greatest element."""
    inner = f"{start}\nfor k in range(1000):\n{textwrap.indent(body, '    ')}\n{end}"
    return f"for i in range(1000):\n{textwrap.indent(inner, '    ')}\n"


_INSIDE = "y + r >= 1 and y + r < 513 and x + s >= 1 and x + s < 513"
_OUTSIDE = "y + r - 1 < 0 or y + r - 1 > 511 or x + s - 1 < 0 or x + s - 1 > 511"
_CLAMPED = "p[T.max(T.min(y + r - 1, 511), 0), T.min(T.max(x + s - 1, 0), 511)]"
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
    "padded reads": Kind(
        'p: T.Buffer((512, 512), "float32"), w: T.Buffer((3, 3), "float32"), '
        'o: T.Buffer((512, 512), "float32")',
        _padded(f"T.if_then_else({_INSIDE}, p[y + r - 1, x + s - 1], T.float32(0))"),
        {
            "Select": _padded(f"T.Select({_INSIDE}, {_CLAMPED}, T.float32(0))"),
            "Select outside": _padded(f"T.Select({_OUTSIDE}, T.float32(0), {_CLAMPED})"),
            "clamped twice": _padded(f"T.if_then_else({_INSIDE}, {_CLAMPED}, T.float32(0))"),
        },
    ),
    "search": Kind(
        'x: T.Buffer((1000, 1000), "float32"), o: T.Buffer((1000,), "int64")',
        _searched("if x[i, k] > best:\n    best = x[i, k]\n    at = T.int64(k)"),
        {
            "named element": _searched(
                "v = x[i, k]\nif v > best:\n    best = v\n    at = T.int64(k)"
            ),
            "the index only": _searched(
                "if x[i, k] > x[i, o[i]]:\n    o[i] = T.int64(k)", "o[i] = T.int64(0)", "pass"
            ),
            "selects": _searched(
                "g = x[i, k] > best\nbest = T.Select(g, x[i, k], best)\n"
                "at = T.Select(g, T.int64(k), at)"
            ),
            "selects, the index first": _searched(
                "at = T.Select(x[i, k] > best, T.int64(k), at)\n"
                "best = T.Select(x[i, k] > best, x[i, k], best)"
            ),
            "into the result": _searched(
                "if x[i, k] > best:\n    best = x[i, k]\n    o[i] = T.int64(k)",
                "best = x[i, 0]\no[i] = T.int64(0)",
                "pass",
            ),
            "a buffer": _searched(
                "if best[0] < x[i, k]:\n    best[0] = x[i, k]\n    o[i] = T.int64(k)",
                'best = T.alloc_buffer((1,), "float32")\nbest[0] = x[i, 0]\no[i] = T.int64(0)',
                "pass",
            ),
        },
    ),
}
