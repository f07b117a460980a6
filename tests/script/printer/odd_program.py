"""Random programs with the oddest names, strings, constants and attributes that a user may have."""

from __future__ import annotations

import builtins
import keyword
import math
import struct
import sys
from typing import Any, Final

from loomir.script import tir
from loomir.support.dtype import DataType
from loomir.tir import IntImm, StringImm
from tests.script.printer.random_program import Maker

WORDS: Final = (
    *keyword.kwlist,
    *keyword.softkwlist,
    *dir(builtins),
    *tir.__all__,
    *("self", "cls", "T", "I", "R", "tir", "tirx", "Module", "root", "main", "loomir", "tvm"),
    *("__init__", "__class__", "__", "_", "__name__", "_1", "v", "v_1", "x_1_1", "nan", "inf"),
)
CHARACTERS: Final = (
    *"aZ_09 .-+*/\\'\"`#%{}[]()<>$@!?,;:=&|^~",
    *"\0\a\b\t\n\v\f\r\x1b\x7f\x80\x85\xa0\xad",
    *"éßſﬁǅΩКйאب中文ｘ①²٣½ªº·℘℮",
    *"\u0301\u200b\u200d\u200e\u202e\u2028\u2029\u2060\ufeff\ufffd\ufffe\ud800\udfff",
    *"😀𝐱𝟙\U0010ffff",
)
ENDINGS: Final = (
    "\\",
    "'",
    '"',
    "\n",
    "\r\n",
    "'''",
    '"""',
    "\\N{DIGIT ONE}",
    "{x}",
    "%s",
    "\\x41",
)


def _float32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


class OddMaker(Maker):
    """Makes one program from a seed, nothing of it plain."""

    def letters(self, most: int) -> str:
        made = "".join(self.r.choices(CHARACTERS, k=self.r.randint(0, most)))
        return made + (self.r.choice(ENDINGS) if self.one_in(4) else "")

    def name(self) -> str:
        kind = self.r.randrange(8)
        if kind < 3:
            return self.r.choice(WORDS)
        if kind < 6:
            return self.letters(6)
        if kind == 6:
            return self.r.choice("xé变") * self.r.choice((1, 200))
        return super().name()

    def text(self) -> str:
        return self.letters(self.r.choice((3, 40))) if self.r.random() < 0.8 else super().text()

    def floats(self) -> tuple[float, ...]:
        bits = self.r.getrandbits(64)
        (wide,) = struct.unpack("<d", struct.pack("<Q", bits))
        return (
            *super().floats(),
            *(
                wide,
                _float32(bits >> 32),
                _float32(bits >> 55),
                5e-324,
                -5e-324,
                2.0**-149,
                2.0**-24,
            ),
            *(1.1754943508222875e-38, sys.float_info.max, sys.float_info.min, 65504.0, 65519.9),
            *(math.nextafter(1, 2), 1e22, 1e23, 123456789012345680.0, 0.1 + 0.2, -math.nan),
        )

    def integer(self, dtype: DataType) -> int:
        low, high = dtype.min_value, dtype.max_value
        near = (low, low + 1, high, high - 1, 0, 1, -1 if low < 0 else 1, self.r.randint(low, high))
        return min(max(self.r.choice(near), low), high)

    def attribute_value(self, depth: int) -> Any:
        kind = self.r.randrange(12)
        if kind == 0:
            return self.r.choice((1, -1)) * self.r.getrandbits(self.r.choice((8, 64, 1000, 9000)))
        if kind == 1:
            return self.r.choice(self.floats())
        if kind == 2:
            return self.text()
        if kind == 3 and depth > 0:
            return {self.name(): self.attribute_value(depth - 1) for _ in range(2)}
        if kind == 4 and depth > 0:
            return [self.attribute_value(depth - 1) for _ in range(self.r.randint(0, 3))]
        if kind == 5:
            return self.r.choice((None, True, False, (), [], {}, "", StringImm(self.text())))
        if kind == 6:
            dtype = DataType(self.r.choice(("int8", "uint64", "bool", "uint8", "int64")))
            return IntImm(self.integer(dtype), dtype)
        return super().attribute_value(depth)
