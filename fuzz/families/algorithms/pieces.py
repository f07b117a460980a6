"""Building blocks of textbook algorithms: sizes, arrays, lines."""

from __future__ import annotations

from typing import Any, Final

from fuzz.choices import Choices
from fuzz.families.drafts import Array, Dim, Draft

__all__ = ["Pieces"]

_FLOATS: Final = ("float32", "float32", "float64", "float16", "bfloat16")
_INTEGERS: Final = ("int32", "int32", "int64", "int16", "uint8", "int8", "uint32")


class Pieces:
    """A draft, and the dtypes that an algorithm is written for."""

    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft.drawn(c)
        self.float = c.pick(_FLOATS)
        self.int = c.pick(_INTEGERS)
        self.any = c.pick([self.float, self.int])

    def n(self, most: int = 40) -> Dim:
        """Draw a size of 1 or more."""
        return self.d.dim(max(1, self.d.extent(most)))

    def given(self, dtype: str, *dims: Dim, kind: str = "", content: Any = None) -> Array:
        """Add an argument with numbers."""
        if content is None:
            kind = kind or self.c.pick(["any", "small"])
            content = self.d.content(dtype, [dim.value for dim in dims], kind)
        return self.d.argument("A", dtype, dims, content)

    def out(self, dtype: str, *dims: Dim) -> Array:
        """Add an argument that is a result."""
        return self.d.argument("R", dtype, dims)

    def write(self, text: str) -> None:
        """Add lines; names of loops are made new."""
        for line in text.strip("\n").splitlines():
            depth = (len(line) - len(line.lstrip())) // 4
            self.d.line(depth, line.strip())

    def plus(self, to: str, value: str) -> str:
        """Write an addition in place."""
        return self.c.pick([f"{to} += {value}", f"{to} = {to} + {value}"])
