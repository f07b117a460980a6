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

# How arrays are compared with each other.
NOT_COMPARED: Final = 0
ONE_BY_ONE: Final = 1  # each pair has a site of its own
TOGETHER: Final = 2  # all pairs have one, and the numbers of the two are its values

# What is said of an array.
WRITTEN: Final = 1  # no other array may overlap it
STRIDED: Final = 2  # its strides are declared

HEAD: Final = ("COUNT", "VALUES", "PAIRS", "PAIR_SITE", "EXTENT_SITE", "PLAIN")
"""The first words of a table: how many arrays, how many values a fault has, how pairs are compared,
their first site, the first site of extents, and whether all arrays have elements. Pairs of which
neither array is written are not compared."""
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
"""The words of each array, before its extents: rank and dtype as ``DLTensor`` has them, the bytes
of an element, the rank, what is said of it, sites; and for ``loomir_check`` its bytes, and a mask
of the byte offsets that need no other look."""
ARRAY_WORDS: Final = len(ARRAY)

RECORD: Final = ("DATA", "LOW", "HIGH", "EMPTY", "STRIDES")
"""The words of a record: the first element, the bytes from where to where, whether there are none,
the strides. Behind all records there is room for as many words as all arrays have axes."""
RECORD_WORDS: Final = len(RECORD)
RECORD_DATA: Final = RECORD.index("DATA")
RECORD_STRIDES: Final = RECORD.index("STRIDES")
