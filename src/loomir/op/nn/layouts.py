"""Layouts of images and kernels: which letter names which axis, and which axes are split.

``"NCHW4c"`` names the axes of images whose channels are in blocks of four: the capital letter is
the index of the block, the lower-case letter the index within it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from loomir.op.rules.arguments import format_dim, number_of, product
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.reference import NPArray, xp
from loomir.relax.shape import Dim, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import with_count
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import FloorDiv, FloorMod, PrimExpr

__all__ = [
    "Layout",
    "change_layout",
    "extents",
    "extents_in_layout",
    "merge_blocks",
    "pack_array",
    "read_layout",
    "read_named_layout",
    "unpack_array",
]

_PART = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


class Layout(NamedTuple):
    """Axes in order, each with its letter, small ones with the size of their blocks."""

    text: str
    parts: tuple[tuple[str, int], ...]

    @property
    def blocks(self) -> dict[str, int]:
        """The sizes of blocks, by capital letters."""
        return {letter.upper(): size for letter, size in self.parts if size}


def read_layout(text: str) -> Layout | None:
    """Read a layout; None for a text that is none."""
    parts: list[tuple[str, int]] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            return None
        capital, size, small = found.groups()
        parts.append((capital, 0) if capital else (small, int(size)))
        at = found.end()
    return Layout(text, tuple(parts))


def _read_known(text: str) -> Layout:
    made = read_layout(text)
    assert made is not None, "inference has read this layout"
    return made


def read_named_layout(c: OpContext, option: str, letters: str) -> Layout:
    """Read a layout that must name each of ``letters`` once. Errors: OPS0060."""
    text: str = c[option]
    made = read_layout(text)
    names = [] if made is None else [letter for letter, _ in made.parts]
    capitals = [n for n in names if n.isupper()]
    whole = sorted(capitals) == sorted(letters) and len(set(names)) == len(names)
    if made is None or not whole or any(n.upper() not in letters for n in names):
        c.refuse(
            "OPS0060",
            f"{option} is {text!r}, which does not name the axes {', '.join(letters)}",
            help=f'order the letters as in "{letters}"; blocks are written as in '
            f'"{letters}4{letters[1].lower()}"',
        )
    return made


# -- extents -------------------------------------------------------------------------------------
def extents(
    c: OpContext, index: int, info: TensorStructInfo, layout: Layout, letters: str
) -> list[PrimExpr] | None:
    """Return the extents of an argument in the order of ``letters``, blocks merged.

    None if they are unknown. Errors: OPS0030, OPS0060 for blocks of another size.
    """
    if info.ndim >= 0 and info.ndim != len(layout.parts):
        c.refuse(
            "OPS0030",
            f"argument {index + 1} has {with_count(info.ndim, 'axis', 'axes')}, but its layout"
            f" {layout.text!r} names {len(layout.parts)}",
            help="reshape it, or give its true layout",
            arg=index,
        )
    if info.dims is None:
        return None
    by_letter: dict[str, PrimExpr] = {}
    for (letter, size), dim in zip(layout.parts, info.dims, strict=True):
        if size and c.equal(dim, size) is False:
            c.refuse(
                "OPS0060",
                f"axis {letter!r} of argument {index + 1} has extent {format_dim(dim)}, not {size}",
                help="give its true layout",
                arg=index,
            )
        by_letter[letter] = dim
    blocks = layout.blocks
    merged = [product([by_letter[a], blocks.get(a, 1)]) for a in letters]
    return list(c.simplify(merged))


def extents_in_layout(
    c: OpContext, made: Sequence[Dim], layout: Layout, letters: str
) -> list[PrimExpr] | None:
    """Return extents, which are in the order of ``letters``, in a layout.

    None if an axis may not be made of whole blocks. Errors: OPS0037 where one certainly is not.
    """
    by_letter = dict(zip(letters, map(as_dim, made), strict=True))
    for letter, size in layout.blocks.items():
        rest = c.analyzer.simplify(FloorMod(by_letter[letter], as_dim(size)))
        if number_of(rest) is None:
            return None
        if number_of(rest):
            c.refuse(
                "OPS0037",
                f"axis {letter!r} of {format_dim(by_letter[letter])}"
                f" does not make blocks of {size}",
                help="pad the axis first, or give a layout without blocks",
            )
        by_letter[letter] = c.analyzer.simplify(FloorDiv(by_letter[letter], as_dim(size)))
    return [as_dim(size) if size else by_letter[letter] for letter, size in layout.parts]


# -- tensor expressions --------------------------------------------------------------------------
def merge_blocks(x: Tensor, text: str, letters: str) -> tuple[Tensor, str]:
    """Return a tensor without blocks, and the layout that it has then."""
    layout = _read_known(text)
    if not layout.blocks:
        return x, text
    own = [size or dim for (_, size), dim in zip(layout.parts, dims(x), strict=True)]
    return topi.layout_transform(topi.assume_shape(x, own), text, letters), letters


def change_layout(x: Tensor, own: str, text: str) -> Tensor:
    """Bring a tensor from a layout into another one."""
    return x if own == text else topi.layout_transform(x, own, text)


# -- arrays --------------------------------------------------------------------------------------
def unpack_array(x: NPArray, text: str, letters: str) -> NPArray:
    """Return an array with its axes in the order of ``letters``, blocks merged."""
    names = [letter for letter, _ in _read_known(text).parts]
    order = [names.index(n) for a in letters for n in (a, a.lower()) if n in names]
    sizes = [
        int(np.prod([x.shape[names.index(n)] for n in (a, a.lower()) if n in names]))
        for a in letters
    ]
    made: NPArray = xp.transpose(x, order).reshape(sizes)
    return made


def pack_array(x: NPArray, letters: str, text: str) -> NPArray:
    """Return an array, whose axes are in the order of ``letters``, in a layout."""
    layout = _read_known(text)
    sizes: list[int] = []
    names: list[str] = []
    for letter, extent in zip(letters, x.shape, strict=True):
        size = layout.blocks.get(letter)
        sizes += [extent] if size is None else [extent // size, size]
        names += [letter] if size is None else [letter, letter.lower()]
    made: NPArray = xp.transpose(xp.reshape(x, sizes), [names.index(n) for n, _ in layout.parts])
    return made
