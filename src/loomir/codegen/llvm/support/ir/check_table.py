"""The table that says what a function wants of its arrays, and the records that checks write.

``ir.checks`` reads the tables; the entries of functions write them (``tir.entry.arguments``).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANY_EXTENT",
    "ARRAY",
    "ARRAY_WORDS",
    "HEAD",
    "NOT_COMPARED",
    "ONE_BY_ONE",
    "RECORD",
    "RECORD_DATA",
    "RECORD_STRIDES",
    "RECORD_WORDS",
    "STRIDED",
    "TOGETHER",
    "WRITTEN",
]

ANY_EXTENT: Final = -(1 << 63)
"""Stands for an extent that is not a constant."""

# How arrays are checked for overlaps.
NOT_COMPARED: Final = 0
ONE_BY_ONE: Final = 1  # each pair has its own site
TOGETHER: Final = 2  # all pairs share one site, whose values are the numbers of the two arrays

# Flags of an array.
WRITTEN: Final = 1  # no other array may overlap it
STRIDED: Final = 2  # its strides are declared

HEAD: Final = ("COUNT", "VALUES", "PAIRS", "PAIR_SITE", "EXTENT_SITE", "PLAIN")
"""The first words of a table: the number of arrays, the number of values of a fault, how pairs are
compared, their first site, the first site of extents, and whether all arrays have elements. Pairs
of arrays that are both only read are not compared."""
ARRAY: Final = (
    "WORD",
    "SIZE",
    "RANK",
    "FLAGS",
    "KIND_SITE",
    "OFFSET_SITE",
    "MEASURE_SITE",
    "LAYOUT_SITE",
    "BYTES",
    "MASK",
)
"""The words of each array, before its extents: rank and dtype as in ``DLTensor``, the bytes of an
element, the rank, flags, sites; and for ``loomir_check`` the array's bytes, and a mask of the bits
of a byte offset that must be zero for the fast check."""
ARRAY_WORDS: Final = len(ARRAY)

RECORD: Final = ("DATA", "LOW", "HIGH", "EMPTY", "STRIDES")
"""The words of a record: the address of the first element, the first byte and the end of the memory
that the array covers, whether it is empty, and its strides. After all records there is a word for
each axis of each array."""
RECORD_WORDS: Final = len(RECORD)
RECORD_DATA: Final = RECORD.index("DATA")
RECORD_STRIDES: Final = RECORD.index("STRIDES")
