"""Padded reads: conditions around loads, with clamped indices where both values are evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.families.variants.text import Draft, filled

__all__ = ["draw"]


def _inside(c: Choices, at: str, size: int) -> list[str]:
    """Write in one of several ways that an index is within an extent."""
    low = c.pick([f"{at} >= 0", f"0 <= {at}", f"{at} > -1"])
    high = c.pick([f"{at} < {size}", f"{at} <= {size - 1}", f"{size} > {at}"])
    return [low, high]


def _outside(c: Choices, at: str, size: int) -> list[str]:
    return [c.pick([f"{at} < 0", f"0 > {at}"]), c.pick([f"{at} >= {size}", f"{at} > {size - 1}"])]


def _clamped(c: Choices, at: str, size: int) -> str:
    """Keep an index within an extent."""
    return c.pick(
        [
            f"T.max(T.min({at}, {size - 1}), 0)",
            f"T.min(T.max({at}, 0), {size - 1})",
            f"T.min(T.max(0, {at}), {size - 1})",
        ]
    )


def draw(c: Choices, numbers: np.random.Generator) -> Draft:
    """Draw windows of an image with padding: a depthwise or full convolution, or pooling."""
    kind = c.pick(["weights", "channels", "max", "sum"])
    dtype = c.pick(["float32", "float32", "float64", "int32"])
    taps, step, border = c.pick([1, 2, 3, 5]), c.pick([1, 1, 2]), c.pick([0, 1, 1, 2])
    high, wide = c.integer(taps, 12), max(taps, c.pick([1, 7, 16, 19, 33]))
    channels = c.integer(1, 6)
    many = c.integer(1, 9) if kind == "channels" else channels
    rows, columns = ((size + 2 * border - taps) // step + 1 for size in (high, wide))
    x = filled(numbers, (channels, high, wide), dtype)
    limits: Any = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    least = limits.min if kind == "max" else 0
    edges = ((0, 0), (border, border), (border, border))
    image = np.pad(x, edges, constant_values=least)
    shape = (many, channels, taps, taps) if kind == "channels" else (channels, taps, taps)
    w = filled(numbers, shape, dtype)
    wanted: Any = np.full((many, rows, columns), least, dtype)
    for p in range(taps):
        for q in range(taps):
            part = image[:, p : p + step * rows : step, q : q + step * columns : step]
            part = part[:, :rows, :columns]
            if kind == "max":
                wanted = np.maximum(wanted, part)
            elif kind == "sum":
                wanted = wanted + part
            elif kind == "weights":
                wanted = wanted + part * w[:, p, q, None, None]
            else:
                wanted = wanted + np.einsum("chw,fc->fhw", part, w[:, :, p, q])
    moved = [f"{axis} * {step} + {tap} - {border}" for axis, tap in (("y", "p"), ("x", "q"))]
    sizes = (high, wide)
    named = c.chance(0.4)
    head = [f"iy = {moved[0]}", f"ix = {moved[1]}"] if named else []
    at = ["iy", "ix"] if named else moved
    channel = "c" if kind == "channels" else "f"
    nothing = f'T.min_value("{dtype}")' if kind == "max" else f"T.{dtype}(0)"
    form = c.pick(["if_then_else", "Select", "Select"])
    indices = at
    if form == "Select" or c.chance(0.3):
        indices = [_clamped(c, i, size) for i, size in zip(at, sizes, strict=True)]
    read = f"X[{channel}, {', '.join(indices)}]"
    if c.chance(0.25):
        test = " or ".join(t for i, n in zip(at, sizes, strict=True) for t in _outside(c, i, n))
        value = f"T.{form}({test}, {nothing}, {read})"
    else:
        test = " and ".join(t for i, n in zip(at, sizes, strict=True) for t in _inside(c, i, n))
        value = f"T.{form}({test}, {read}, {nothing})"
    update = {
        "max": f"acc = T.max(acc, {value})",
        "sum": f"acc = acc + {value}",
        "weights": f"acc += {value} * W[f, p, q]",
        "channels": f"acc += {value} * W[f, c, p, q]",
    }[kind]
    grid = f"p, q in T.grid({taps}, {taps})"
    if kind == "channels":
        grid = f"c, p, q in T.grid({channels}, {taps}, {taps})"
    body = "\n        ".join([*head, update])
    lines = f"""
for f, y, x in T.grid({many}, {rows}, {columns}):
    acc = {nothing}
    for {grid}:
        {body}
    O[f, y, x] = acc
"""
    return Draft(
        lines, {"X": x, "W": w, "O": np.zeros(wanted.shape, dtype)}, {"O": wanted.astype(dtype)}
    )
