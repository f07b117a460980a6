"""Widen the vectors of three numbers that LLVM's AArch64 back end cannot narrow to bytes.

Where three bytes are stored that were narrowed from integers of 64 bits, as in a clip of three
products, LLVM 22 (``combineI8TruncStore``) takes them for integers of 16 or 32 bits, and ends the
process. Four numbers are narrowed in their place, the last of them unused.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["widen_narrowed_triples"]

_NARROWED: Final = re.compile(
    r"^  (%\S+) = trunc (?:nuw |nsw )*(<3 x i(\d+)>) (.+?) to <3 x i8>", re.MULTILINE
)
_RIGHT: Final = (16, 32)
"""The bits of integers from which LLVM narrows three correctly."""


def widen_narrowed_triples(text: str) -> str | None:
    """Return IR in which no three wide integers become bytes; None if there are none."""
    if " to <3 x i8>" not in text:
        return None

    def widen(match: re.Match[str]) -> str:
        name, triple, bits, value = match.groups()
        if int(bits) in _RIGHT:
            return match[0]
        four = "<4 x i32> <i32 0, i32 1, i32 2, i32 poison>"
        return (
            f"  {name}.wide = shufflevector {triple} {value}, {triple} poison, {four}\n"
            f"  {name}.bytes = trunc <4 x i{bits}> {name}.wide to <4 x i8>\n"
            f"  {name} = shufflevector <4 x i8> {name}.bytes, <4 x i8> poison, "
            "<3 x i32> <i32 0, i32 1, i32 2>"
        )

    made = _NARROWED.sub(widen, text)
    return None if made == text else made
