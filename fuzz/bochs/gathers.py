"""Emulate gathers and scatters that use the upper 16 vector registers, which Bochs refuses.

Each is rewritten to use one of the lower 16, whose contents are exchanged for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LoweredGather", "lowered"]

_OPCODES: Final = frozenset({0x90, 0x91, 0x92, 0x93, 0xA0, 0xA1, 0xA2, 0xA3})


class LoweredGather(NamedTuple):
    """An instruction and the registers of its indices: as it was, and as it is written anew."""

    code: bytes
    upper: int
    lower: int


def lowered(code: bytes) -> LoweredGather | None:
    """Rewrite the instruction that bytes begin with; None where it is no such one."""
    if len(code) < 11 or code[0] != 0x62 or code[1] & 7 != 2 or code[4] not in _OPCODES:
        return None
    more, whole = code[5], code[6]
    if more >> 6 == 3 or more & 7 != 4 or code[3] & 8:
        return None
    wide = {0: 4 if whole & 7 == 5 else 0, 1: 1, 2: 4}[more >> 6]
    high = ~code[1] >> 6 & 1
    upper = 16 | high << 3 | whole >> 3 & 7
    data = more >> 3 & 7 | (~code[1] >> 7 & 1) << 3 | (~code[1] >> 4 & 1) << 4
    lower = upper - 16
    first = code[1]
    if lower == data:
        # Another register than the one that is read or written.
        lower ^= 8
        first ^= 0x40
    made = bytes([code[0], first, code[2], code[3] | 8, *code[4 : 7 + wide]])
    return LoweredGather(made, upper, lower)
