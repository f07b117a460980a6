"""Padding at the ends of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from loomir.te.scalar import all_of, if_then_else, select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import greater_size
from loomir.te.topi.shape import Size, bad, dims, make
from loomir.tir.expr import Max, Min, PrimExpr, const, convert

__all__ = ["pad"]

PadMode: TypeAlias = Literal["constant", "edge", "reflect", "symmetric", "wrap"]
_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(
    x: Tensor,
    pad_width: Sequence[tuple[Size, Size]],
    mode: PadMode = "constant",
    value: float = 0,
) -> Tensor:
    """Add elements before and after each axis; ``pad_width`` has a pair of numbers for each.

    ``mode``: ``"constant"`` adds ``value``, ``"edge"`` the last element, ``"reflect"`` mirrors
    without and ``"symmetric"`` with the last element, as often as is needed, ``"wrap"`` repeats.
    Shapes: each extent and its pair together. Errors: TE0104, also where a mode other than constant
    pads an empty axis.
    """
    shape = dims(x)
    if mode not in _MODES:
        bad("pad", f"the mode is {mode!r}", f"give one of {', '.join(_MODES)}")
    if len(pad_width) != x.ndim or any(len(p) != 2 for p in pad_width):
        bad("pad", f"pad_width is {list(pad_width)}", f"give {x.ndim} pairs (before, after)")
    for extent, pair in zip(shape, pad_width, strict=True):
        if any(isinstance(p, int) and p < 0 for p in pair):
            bad("pad", f"a width is negative in {pair}", "take a slice to make an axis shorter")
        if isinstance(extent, int) and extent == 0 and mode != "constant" and pair != (0, 0):
            bad("pad", f"{mode} has nothing to repeat on an empty axis", 'use mode="constant"')
    made = [b + n + a for n, (b, a) in zip(shape, pad_width, strict=True)]
    touched = [
        not (isinstance(b, int) and isinstance(a, int) and a == b == 0) for b, a in pad_width
    ]

    def element(*out: PrimExpr) -> PrimExpr:
        own = [i - b if t else i for i, (b, _), t in zip(out, pad_width, touched, strict=True)]
        if mode != "constant":
            at = [
                _mirror(i, n, pair, mode) if t else i
                for i, n, pair, t in zip(own, shape, pad_width, touched, strict=True)
            ]
            return x(*at)
        inside = [
            c
            for i, n, (b, a) in zip(own, shape, pad_width, strict=True)
            for c, side in ((i >= 0, b), (i < n, a))
            if not (isinstance(side, int) and side == 0)
        ]
        return if_then_else(all_of(*inside), x(*own), const(value, x.dtype)) if inside else x(*own)

    return make("pad", made, element)


def _mirror(i: PrimExpr, extent: Size, pair: tuple[Size, Size], mode: PadMode) -> PrimExpr:
    """Return the element that stands at ``i``, which may lie outside."""
    if mode == "edge":
        return Max(Min(i, _like(extent - 1, i)), _like(0, i))
    if mode == "wrap":
        return i % extent
    reflect = mode == "reflect"
    # Where the axis begins and ends again when it is mirrored without end.
    ends = extent - 1 if reflect else extent
    most = max(pair) if all(isinstance(p, int) for p in pair) else None
    if isinstance(ends, int) and isinstance(most, int) and most <= ends:
        before = i * -1 if reflect else i * -1 - 1
        back = (2 * ends if reflect else 2 * ends - 1) - i
        return select(i < 0, before, select(i >= extent, back, i))
    period = greater_size(ends * 2, 1)
    place = i % period
    return select(place < extent, place, (ends * 2 if reflect else ends * 2 - 1) - place)


def _like(value: Size, other: PrimExpr) -> PrimExpr:
    return convert(value).astype(other.dtype)
