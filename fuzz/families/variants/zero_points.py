"""Products and convolutions of bytes minus zero points: numbers, scalars, one per channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.families.variants.text import Draft, filled

__all__ = ["draw_convolution", "draw_product"]

_WIDE = "int32"


def _factor(c: Choices, load: str, zero: str) -> str:
    """Write a byte less its zero point."""
    if not zero:
        return f"T.int32({load})"
    if zero.lstrip("-").isdigit():
        number = int(zero)
        if c.chance(0.3):
            return f"(T.int32({load}) + {-number})"
        return f"(T.int32({load}) - {number})"
    return c.pick(
        [f"(T.int32({load}) - T.int32({zero}))", f"T.int32(T.int16({load}) - T.int16({zero}))"]
    )


def _zero(
    c: Choices,
    numbers: np.random.Generator,
    arrays: dict[str, Any],
    name: str,
    dtype: str,
    axes: dict[str, int],
) -> tuple[str, Any]:
    """Draw a zero point: its text, and its values, which broadcast over the factor ``[.., ..]``."""
    kind = c.weighted([(2.0, "none"), (3.0, "number"), (3.0, "scalar"), (3.0, "vector")])
    if kind == "none":
        return "", np.int64(0)
    if kind == "number":
        value = c.integer(0, 9) if dtype == "uint8" else c.integer(-9, 9)
        return str(value), np.int64(value)
    if kind == "scalar":
        made = filled(numbers, (1,), dtype)
        arrays[name] = made
        return f"{name}[0]", made.astype(np.int64)[0]
    axis = c.pick(sorted(axes))
    made = filled(numbers, (axes[axis],), dtype)
    arrays[name] = made
    return f"{name}[{axis}]", made.astype(np.int64)


def draw_product(c: Choices, numbers: np.random.Generator) -> Draft:
    """Draw a product of two matrices of bytes, with what may come after it."""
    left, right = c.pick(["int8", "uint8"]), c.pick(["int8", "uint8"])
    m, n, k = (c.integer(1, 37) for _ in range(3))
    k = c.pick([k, 16, 20, 64, 130])
    by_rows = c.chance(0.5)
    a, b = filled(numbers, (m, k), left), filled(numbers, (k, n), right)
    arrays: dict[str, Any] = {"A": a, "B": b.T.copy() if by_rows else b}
    one, other = a.astype(np.int64), b.astype(np.int64)
    text, value = _zero(c, numbers, arrays, "za", left, {"i": m})
    x = _factor(c, "A[i, k]", text)
    one = one - (value[:, None] if np.ndim(value) else value)
    text, value = _zero(c, numbers, arrays, "zb", right, {"j": n})
    y = _factor(c, "B[j, k]" if by_rows else "B[k, j]", text)
    other = other - value
    start = filled(numbers, (m, n), _WIDE)
    wanted = one @ other
    how = c.pick(["loops", "block", "accumulator", "onto", "end"])
    if how == "loops":
        lines = f"""
for i, j in T.grid({m}, {n}):
    C[i, j] = 0
    for k in range({k}):
        C[i, j] += {x} * {y}
"""
    elif how == "onto":
        wanted = wanted + start
        lines = f"""
for i, j, k in T.grid({m}, {n}, {k}):
    C[i, j] += {x} * {y}
"""
    elif how == "block":
        lines = f"""
for x, y, z in T.grid({m}, {n}, {k}):
    with T.block("sum"):
        i, j, k = T.axis.remap("SSR", [x, y, z])
        with T.init():
            C[i, j] = 0
        C[i, j] += {x} * {y}
"""
    else:
        tail = "acc" if how == "accumulator" else "T.max(acc + 5, 0) // 2"
        wanted = wanted if how == "accumulator" else np.maximum(wanted + 5, 0) // 2
        lines = f"""
for i, j in T.grid({m}, {n}):
    acc = T.int32(0)
    for k in range({k}):
        acc += {x} * {y}
    C[i, j] = {tail}
"""
    arrays["C"] = start
    return Draft(lines, arrays, {"C": wanted.astype(_WIDE)})


def draw_convolution(c: Choices, numbers: np.random.Generator) -> Draft:
    """Draw a convolution of images of bytes, channels first or last, maybe with a border."""
    left, right = c.pick(["int8", "uint8"]), c.pick(["int8", "uint8"])
    channels, kernels = c.integer(1, 12), c.integer(1, 20)
    taps, step, border = c.pick([1, 2, 3]), c.pick([1, 1, 2]), c.pick([0, 0, 1])
    high, wide = c.integer(taps, 9), c.integer(taps, 12)
    rows, columns = ((size + 2 * border - taps) // step + 1 for size in (high, wide))
    x = filled(numbers, (channels, high, wide), left)
    w = filled(numbers, (kernels, channels, taps, taps), right)
    arrays: dict[str, Any] = {"X": x, "W": w}
    zero_x, value_x = _scalar(c, numbers, arrays, "zx", left)
    zero_w, value_w = _zero(c, numbers, arrays, "zw", right, {"f": kernels})
    value_w = value_w[:, None, None, None] if np.ndim(value_w) else value_w
    image = np.pad(x.astype(np.int64) - value_x, ((0, 0), (border, border), (border, border)))
    kernel = w.astype(np.int64) - value_w
    wanted = np.zeros((kernels, rows, columns), np.int64)
    for p in range(taps):
        for q in range(taps):
            part = image[:, p : p + step * rows : step, q : q + step * columns : step]
            wanted += np.einsum("chw,fc->fhw", part[:, :rows, :columns], kernel[:, :, p, q])
    at_y, at_x = f"y * {step} + p", f"x * {step} + q"
    pixel = _factor(c, f"X[c, {at_y} - {border}, {at_x} - {border}]", zero_x)
    padded = ""
    if border:
        inside = (
            f"{at_y} >= {border} and {at_y} < {high + border}"
            f" and {at_x} >= {border} and {at_x} < {wide + border}"
        )
        pixel = f"T.if_then_else({inside}, {pixel}, 0)"
        if c.chance(0.5):
            outer, inner = high + 2 * border, wide + 2 * border
            within = (
                f"y >= {border} and y < {high + border} and x >= {border} and x < {wide + border}"
            )
            value = _factor(c, f"X[c, y - {border}, x - {border}]", zero_x)
            padded = f"""
P = T.alloc_buffer(({channels}, {outer}, {inner}), "int32")
for c, y, x in T.grid({channels}, {outer}, {inner}):
    P[c, y, x] = T.if_then_else({within}, {value}, 0)
"""
            pixel = f"P[c, {at_y}, {at_x}]"
    lines = f"""{padded}
for f, y, x in T.grid({kernels}, {rows}, {columns}):
    acc = T.int32(0)
    for c, p, q in T.grid({channels}, {taps}, {taps}):
        acc += {pixel} * {_factor(c, "W[f, c, p, q]", zero_w)}
    O[f, y, x] = acc
"""
    arrays["O"] = np.zeros(wanted.shape, _WIDE)
    return Draft(lines, arrays, {"O": wanted.astype(_WIDE)})


def _scalar(
    c: Choices, numbers: np.random.Generator, arrays: dict[str, Any], name: str, dtype: str
) -> tuple[str, Any]:
    """Draw a zero point that is the same for all elements."""
    if c.chance(0.5):
        value = c.integer(0, 9)
        return str(value), np.int64(value)
    arrays[name] = filled(numbers, (1,), dtype)
    return f"{name}[0]", arrays[name].astype(np.int64)[0]
