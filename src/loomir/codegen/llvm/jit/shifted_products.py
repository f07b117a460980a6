"""Hide products that LLVM's x86 back end shifts wrongly: ``trunc(a * b >> 24)`` of 16-bit numbers.

If such a product is computed in 64 bits and 16 bits of it are kept, ``combinePMULH`` of LLVM 22
takes the high half of the product of 32 bits (``pmulhw``), and shifts that by what is left of the
distance as if it were unsigned. Signs are lost, and from a distance of 32 on the result is
undefined. Only a distance of 16 is right.

Code that no pass has simplified says the same in more lines: the distance is masked first, shifts
and conversions follow each other. Instruction selection merges those, so they are followed here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["find_shifted_products", "may_shift_products"]

_PRODUCT: Final = re.compile(r"^  (%\S+) = mul (?:nuw |nsw )*<\d+ x i64> ")
_SHIFT: Final = re.compile(
    r"^  (%\S+) = [al]shr (?:exact )?(<(\d+) x i64>) (%[^\s,]+), (?:splat \(i64 (\d+)\))?"
)
_MASK: Final = re.compile(r"^  (%\S+) = and <\d+ x i(?:64|32)> (%[^\s,]+), [^%]+$")
_TRUNCATION: Final = re.compile(
    r"^  (%\S+) = trunc (?:nuw |nsw )*<\d+ x i(?:64|32)> (%[^\s,]+) to <\d+ x i(16|32)>"
)
_SHORTS: Final = re.compile(r" = trunc (?:nuw |nsw )*<\d+ x i(?:64|32)> %\S+ to <\d+ x i16>")
_HALF_BITS: Final = 16
"""The distance of the half of a product that ``pmulhw`` returns."""
_UNKNOWN: Final = 64
"""A distance that no line says by a number: beyond every one that is right."""


def may_shift_products(text: str) -> bool:
    """Tell whether IR keeps 16 of more bits in vectors."""
    return _SHORTS.search(text) is not None


def find_shifted_products(lines: Sequence[str]) -> dict[int, list[str]]:
    """Return lines of IR in place of shifts of such products, by the number of the line.

    A zero is added to the product by ``or``. It comes from empty inline assembly, so that
    instruction selection does not know that it is zero.
    """
    distances: dict[str, int] = {}
    """By how many bits products are shifted in all, by the name of the value."""
    shifts: dict[str, int] = {}
    """The line of the last shift that is too far, by the name of the value."""
    changed: dict[int, list[str]] = {}
    for at, line in enumerate(lines):
        if line.startswith("define"):
            distances.clear()
            shifts.clear()
        elif product := _PRODUCT.match(line):
            distances[product[1]] = 0
        elif shift := _SHIFT.match(line):
            before = distances.get(shift[4])
            if before is not None:
                distance = before + int(shift[5] or _UNKNOWN)
                distances[shift[1]] = distance
                if distance > _HALF_BITS:
                    shifts[shift[1]] = at
        elif mask := _MASK.match(line):
            _copy(distances, mask[2], mask[1])
            _copy(shifts, mask[2], mask[1])
        elif (kept := _TRUNCATION.match(line)) and kept[2] in shifts:
            place = shifts[kept[2]]
            if int(kept[3]) > _HALF_BITS:
                shifts[kept[1]] = place
            else:
                changed[place] = _hide(lines[place], place)
    return changed


def _copy(of: dict[str, int], name: str, to: str) -> None:
    if name in of:
        of[to] = of[name]


def _hide(line: str, at: int) -> list[str]:
    """Return a shift of a vector, of any length, with a hidden zero added to the vector before."""
    shift = _SHIFT.match(line)
    if shift is None:
        return [line]
    kind, lanes, name = shift[2], shift[3], shift[4]
    zero, one, every, sum_ = (f"%hidden.{at}.{part}" for part in ("zero", "one", "all", "sum"))
    mask = f"<{lanes} x i32> zeroinitializer"
    return [
        f'  {zero} = call i64 asm "", "=r,0"(i64 0)',
        f"  {one} = insertelement {kind} poison, i64 {zero}, i64 0",
        f"  {every} = shufflevector {kind} {one}, {kind} poison, {mask}",
        f"  {sum_} = or {kind} {name}, {every}",
        line.replace(f" {name}, ", f" {sum_}, ", 1),
    ]
