"""Hide the bits of comparisons that LLVM's x86 back end cannot read as a half.

On CPUs with AVX-512, LLVM 22 keeps the result of a comparison of floats in a mask register. If it
is extended to 16 bits that are read as a half, as in ``reinterpret("float16", int16(a == b))``,
instruction selection ends the process: it has no such move from a mask register.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["find_reinterpreted_bools", "may_reinterpret_bools"]

_HALF: Final = re.compile(r"^  %\S+ = bitcast i16 (%\S+) to half", re.MULTILINE)


def may_reinterpret_bools(text: str) -> bool:
    """Tell whether IR compares floats, and reads 16 bits as a half."""
    return " = fcmp " in text and _HALF.search(text) is not None


def find_reinterpreted_bools(lines: Sequence[str]) -> dict[int, list[str]]:
    """Return lines of IR in place of those that read bits as a half, by the number of the line.

    The bits pass through empty inline assembly, which costs no instruction.
    """
    changed: dict[int, list[str]] = {}
    for at, line in enumerate(lines):
        if read := _HALF.match(line):
            hidden = f"%hidden.{at}.bits"
            hide = f'  {hidden} = call i16 asm "", "=r,0"(i16 {read[1]})'
            changed[at] = [hide, line.replace(f" i16 {read[1]} to ", f" i16 {hidden} to ")]
    return changed
