"""Arithmetic idioms that code generators recognise and turn into single instructions.

Each function draws one form of one idiom over elements from a ``Source``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fuzz.families.idioms.bits import (
    assembled,
    bit_test,
    counted,
    high_product,
    quotient,
    rotation,
    signed_size,
    swapped,
)
from fuzz.families.idioms.source import Source, as_dtype, clip
from fuzz.families.idioms.sums import (
    average,
    conversion,
    distance,
    from_float,
    narrowed,
    pair_product,
    product,
    quantised,
    saturated,
    saturated_in_place,
)
from fuzz.families.idioms.values import (
    FLOATS,
    INTEGERS,
    Value,
    chosen,
    combine_truths,
    const,
    equal,
    fma,
    infinity,
    is_float,
    larger,
    negated,
    negative,
    rounded,
    smaller,
    square_root,
)

__all__ = ["KINDS", "condition"]


# -- choices -----------------------------------------------------------------------------------
def chain(s: Source) -> Value:
    """Choose among several values."""
    c = s.c
    dtype = c.pick([*INTEGERS, *FLOATS])
    made = s.load(dtype)
    for _ in range(c.integer(1, 4)):
        made = s.named(chosen(condition(s), s.load(dtype), made, lazy=c.chance(0.25)))
    return made


def condition(s: Source) -> Value:
    """Draw a truth value."""
    c = s.c
    dtype = c.pick([*INTEGERS, *FLOATS])
    x = s.load(dtype)
    y = s.load(dtype) if c.chance(0.6) else const(c.integer(0, 20), dtype)
    made = c.pick([x < y, x <= y, x > y, x >= y, equal(x, y), equal(x, y, not_so=True)])
    if c.chance(0.2):
        made = negated(made)
    if c.chance(0.3):
        made = combine_truths(c.pick(["and", "or"]), made, condition(s))
    return made


def compared(s: Source) -> Value:
    """Return a truth value as it is, as a number, or as a mask."""
    c = s.c
    made = condition(s)
    if c.chance(0.25):
        return made
    to = c.pick(INTEGERS)
    number = as_dtype(made, to)
    return const(0, to) - number if c.chance(0.3) else number


def bounded(s: Source) -> Value:
    """Take the least or greatest of several, or clip."""
    c = s.c
    dtype = c.pick([*INTEGERS, *FLOATS])
    if c.chance(0.4):
        low, high = sorted([c.integer(0, 100), c.integer(0, 100)])
        return clip(s, s.load(dtype), c.pick([low, low, None]), high)
    made = s.load(dtype)
    for _ in range(c.integer(1, 3)):
        other = s.load(dtype)
        how = c.integer(0, 3)
        if how == 0:
            made = smaller(made, other)
        elif how == 1:
            made = larger(made, other)
        else:
            asked = c.pick([made < other, made > other, made <= other, other < made])
            made = chosen(asked, made, other, lazy=c.chance(0.3))
        made = s.named(made)
    return made


def looked_up(s: Source) -> Value:
    """Read a table."""
    c = s.c
    size = c.pick([16, 16, 256, 32, 64, 4])
    index = s.load(c.pick(["uint8", "uint8", "uint16", "int32"]))
    if c.chance(0.3) and index.dtype == "uint8":
        index = index >> 4
        size = max(size, 16)
    if not (index.dtype == "uint8" and size == 256):
        index = index & (size - 1)
    if c.chance(0.7):
        index = as_dtype(index, c.pick(["int32", "int64"]))
    return s.look_up(c.pick([*INTEGERS, *FLOATS]) if c.chance(0.5) else "uint8", index, size)


# -- floats ------------------------------------------------------------------------------------
def float_arithmetic(s: Source) -> Value:
    """Compute with floats, each operation rounded by itself."""
    c = s.c
    dtype = c.pick(FLOATS)
    x, y = s.load(dtype), s.load(dtype)
    how = c.integer(0, 8)
    if how == 0:
        return x * y + s.load(dtype)
    if how == 1:
        return const(1, dtype) / square_root(x)
    if how == 2:
        return x / c.pick([3.0, 4.0, 7.0, 0.5])
    if how == 3:
        return negative(x * y) - s.load(dtype)
    if how == 4:
        return rounded(x, c.pick(["floor", "ceil", "trunc", "round"])) - x
    if how == 5:
        return fma(s.short(dtype), s.short(dtype), s.short(dtype))
    if how == 6:
        return chosen(equal(x, x, not_so=True), const(0, dtype), x)
    if how == 7:
        return chosen(x < infinity(dtype), x, infinity(dtype, minus=True))
    return larger(x, c.pick([0.0, 0.5])) * y


def mixed_floats(s: Source) -> Value:
    """Compute in a longer float, and round to a shorter one."""
    c = s.c
    one, other = c.pick(FLOATS), c.pick(FLOATS)
    wide = c.pick(["float32", "float64"])
    made = c.pick([Value.__add__, Value.__mul__, Value.__sub__])(
        as_dtype(s.load(one), wide), as_dtype(s.load(other), wide)
    )
    return as_dtype(made, c.pick(FLOATS))


def plain(s: Source) -> Value:
    """Take an element as it is."""
    return s.load(s.c.pick([*INTEGERS, *FLOATS, "bool"]))


def combined(s: Source) -> Value:
    """Put one idiom on another."""
    c = s.c
    a, b = c.weighted(KINDS)(s), c.weighted(KINDS)(s)
    if a.dtype == "bool" or b.dtype == "bool":
        return a
    if is_float(a.dtype) or is_float(b.dtype):
        to = a.dtype if is_float(a.dtype) else b.dtype
        return as_dtype(a, to) + as_dtype(b, to)
    to = c.pick([a.dtype, b.dtype, "int32"])
    x, y = as_dtype(s.named(a), to), as_dtype(s.named(b), to)
    return c.pick([x + y, x - y, x ^ y, larger(x, y), x * y])


KINDS: Final[list[tuple[float, Callable[[Source], Value]]]] = [
    (3, product),
    (3, pair_product),
    (3, distance),
    (2, average),
    (3, saturated),
    (2, saturated_in_place),
    (2.5, narrowed),
    (3, from_float),
    (2, conversion),
    (1.5, quantised),
    (1.5, rotation),
    (1.5, counted),
    (1, swapped),
    (1, assembled),
    (1.5, bit_test),
    (2.5, high_product),
    (1.5, signed_size),
    (1.5, quotient),
    (1.5, chain),
    (1, compared),
    (1.5, bounded),
    (1, looked_up),
    (1.5, float_arithmetic),
    (1, mixed_floats),
    (1, plain),
    (0.7, combined),
]
"""Idioms by weight."""
