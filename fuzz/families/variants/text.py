"""Programs as lines over named arrays, the last of which are results."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Draft", "filled", "source_of"]


class Draft(NamedTuple):
    """The lines of a function, its arrays by name, and what it must leave in some of them."""

    lines: str
    arrays: Mapping[str, Any]
    expected: Mapping[str, Any]


def source_of(draft: Draft) -> str:
    """Write a draft as a module."""
    params = ", ".join(
        f'{name}: T.Buffer({array.shape}, "{array.dtype}")' for name, array in draft.arrays.items()
    )
    head = (
        "from loomir.script import ir as I, tir as T\n\n@I.ir_module\nclass Module:\n"
        f"    @T.prim_func\n    def main({params}):\n"
    )
    return head + textwrap.indent(textwrap.dedent(draft.lines).strip("\n"), " " * 8) + "\n"


def filled(numbers: np.random.Generator, shape: tuple[int, ...], dtype: str, most: int = 4) -> Any:
    """Draw small numbers: all that a byte holds, and at most ``most`` in other dtypes."""
    if dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        return numbers.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    least = 0 if dtype.startswith("u") else -most
    return numbers.integers(least, most, shape, endpoint=True).astype(dtype)
