"""Hide products that LLVM's x86 back end shifts wrongly: ``trunc(a * b >> 24)`` of 16-bit numbers.

If such a product is computed in 64 bits and 16 bits of it are kept, ``combinePMULH`` of LLVM 22
takes the high half of the product of 32 bits (``pmulhw``), and shifts that by what is left of the
distance as if it were unsigned. Signs are lost, and from a distance of 32 on the result is
undefined. Only a distance of 16 is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["find_shifted_products", "may_shift_products"]

_PRODUCT: Final = re.compile(r"^  (%\S+) = mul (?:nuw |nsw )*<\d+ x i64> ")
_SHIFT: Final = re.compile(
    r"^  (%\S+) = [al]shr (?:exact )?(<(\d+) x i64>) (%\S+), splat \(i64 (\d+)\)"
)
_KEPT: Final = re.compile(r"^  %\S+ = trunc (?:nuw |nsw )*<\d+ x i64> (%[^\s,]+) to <\d+ x i16>")
_SHORTS: Final = re.compile(r" = trunc (?:nuw |nsw )*<\d+ x i64> %\S+ to <\d+ x i16>")
_HALF_BITS: Final = 16
"""The distance of the half of a product that ``pmulhw`` returns."""


def may_shift_products(text: str) -> bool:
    """Tell whether IR keeps 16 of 64 bits in vectors."""
    return _SHORTS.search(text) is not None


def find_shifted_products(lines: Sequence[str]) -> dict[int, list[str]]:
    """Return lines of IR in place of shifts of such products, by the number of the line.

    A zero is added to the product by ``or``. It comes from empty inline assembly, so that
    instruction selection does not know that it is zero.
    """
    products: set[str] = set()
    shifts: dict[str, int] = {}
    changed: dict[int, list[str]] = {}
    for at, line in enumerate(lines):
        if line.startswith("define"):
            products.clear()
            shifts.clear()
        elif product := _PRODUCT.match(line):
            products.add(product[1])
        elif shift := _SHIFT.match(line):
            if shift[4] in products and int(shift[5]) > _HALF_BITS:
                shifts[shift[1]] = at
        elif (kept := _KEPT.match(line)) and kept[1] in shifts:
            place = shifts[kept[1]]
            changed[place] = _hide(lines[place], place)
    return changed


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
        line.replace(f" {name}, splat", f" {sum_}, splat"),
    ]
