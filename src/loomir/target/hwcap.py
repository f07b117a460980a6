"""The features of an AArch64 CPU, as Linux tells a process in its auxiliary vector.

This is what the process may use: inside a container, a virtual machine or an emulator, ``/proc``
may describe another CPU or none at all.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["features_of", "read_features"]

_AT_HWCAP: Final = 16
_AT_HWCAP2: Final = 26

_FIRST: Final = {
    "fp-armv8": (0,),
    "neon": (1,),
    "aes": (3, 4),
    "sha2": (5, 6),
    "crc": (7,),
    "lse": (8,),
    "fullfp16": (9, 10),
    "rdm": (12,),
    "jsconv": (13,),
    "complxnum": (14,),
    "rcpc": (15,),
    "sha3": (17, 21),
    "sm4": (18, 19),
    "dotprod": (20,),
    "sve": (22,),
    "fp16fml": (23,),
}
"""LLVM's features, each with the bits of ``AT_HWCAP`` that it needs (arch/arm64 of Linux)."""

_SECOND: Final = {
    "sve2": (1,),
    "i8mm": (13,),
    "bf16": (14,),
    "rand": (16,),
}
"""Those with bits of ``AT_HWCAP2``."""


def features_of(first: int, second: int) -> dict[str, bool]:
    """Return LLVM's features for the values of ``AT_HWCAP`` and ``AT_HWCAP2``."""
    return {
        name: all(value >> bit & 1 for bit in bits)
        for value, rows in ((first, _FIRST), (second, _SECOND))
        for name, bits in rows.items()
    }


def read_features() -> dict[str, bool]:
    """Ask Linux for LLVM's features of this CPU; none where the C library cannot tell."""
    getauxval = getattr(ctypes.CDLL(None), "getauxval", None)
    if getauxval is None:
        return {}
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return features_of(getauxval(_AT_HWCAP), getauxval(_AT_HWCAP2))
