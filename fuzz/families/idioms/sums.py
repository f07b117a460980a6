"""Sums of products and distances, averages, saturation and conversions."""

from __future__ import annotations

from fuzz.families.idioms.source import (
    NARROW,
    SIGNED,
    UNSIGNED,
    Source,
    as_dtype,
    clip,
    clipped_to,
    wider,
)
from fuzz.families.idioms.values import (
    FLOATS,
    INTEGERS,
    Value,
    bits_of,
    chosen,
    const,
    is_signed,
    larger,
    limits,
    magnitude,
    negative,
    rounded,
    smaller,
)

__all__ = [
    "average",
    "conversion",
    "distance",
    "from_float",
    "narrowed",
    "pair_product",
    "product",
    "quantised",
    "saturated",
    "saturated_in_place",
]


# -- sums of products and distances ------------------------------------------------------------
def product(s: Source) -> Value:
    """Multiply two elements in a wider dtype."""
    c = s.c
    one = c.pick(NARROW if c.chance(0.8) else INTEGERS)
    other = c.pick([one, c.pick(NARROW), c.pick(INTEGERS)])
    to = c.weighted([(5, "int32"), (1, "int64"), (1, "int16"), (1, "uint32"), (1, "uint16")])
    a, b = s.load(one), s.load(other)
    if c.chance(0.1):
        b = a
    how = c.weighted([(6, "each"), (1, "middle"), (1, "zero"), (1, "const"), (1, "narrow")])
    if how == "middle":
        middle = c.pick(["int16", "uint16", "int32"])
        return as_dtype(as_dtype(a, middle) * as_dtype(b, middle), to)
    if how == "zero":
        return (as_dtype(a, to) - c.integer(0, 9)) * (as_dtype(b, to) - c.integer(0, 9))
    if how == "const":
        low, high = limits(one)
        return as_dtype(a, to) * as_dtype(const(c.integer(low, high), one), to)
    if how == "narrow" and one == other:
        return as_dtype(a * b, to)
    return as_dtype(a, to) * as_dtype(b, to)


def pair_product(s: Source) -> Value:
    """Multiply neighbours and add the products: pmaddwd, pmaddubsw, vpdpbusd, vpdpwssd."""
    c = s.c
    one = c.pick(NARROW)
    other = c.pick([one, c.pick(NARROW)])
    count = c.pick([2, 2, 2, 4, 3])
    to = c.weighted([(6, "int32"), (2, "int16"), (1, "int64"), (1, "uint32")])
    made: Value | None = None
    for a, b in zip(s.pair(one, count), s.pair(other, count), strict=True):
        part = s.named(as_dtype(a, to) * as_dtype(b, to))
        made = part if made is None else made + part
    assert made is not None
    if to == "int32" and c.chance(0.4):  # pmaddubsw saturates
        made = clip(s, made, *limits("int16"))
        return as_dtype(made, "int16") if c.chance(0.7) else made
    return made


def distance(s: Source) -> Value:
    """Compute |a - b| in one of many ways."""
    c = s.c
    dtype = c.pick(NARROW if c.chance(0.8) else INTEGERS)
    a, b = s.load(dtype), s.load(dtype)
    how = c.integer(0, 6)
    wide = wider(c, dtype)
    signed = c.pick([d for d in SIGNED if bits_of(d) >= min(64, 2 * bits_of(dtype))])
    if how == 0:
        made = larger(a, b) - smaller(a, b)
    elif how == 1:
        made = chosen(a > b, a - b, b - a, lazy=c.chance(0.3))
    elif how == 2:
        made = magnitude(as_dtype(a, signed) - as_dtype(b, signed))
    elif how == 3:
        x, y = as_dtype(a, wide), as_dtype(b, wide)
        made = chosen(x < y, y - x, x - y)
    elif how == 4:
        made = chosen(a > b, a - b, 0) | chosen(b > a, b - a, 0)
    elif how == 5:
        made = (larger(a, b) - b) + (larger(a, b) - a)
    else:
        x = s.named(as_dtype(a, signed) - as_dtype(b, signed))
        made = chosen(x < 0, negative(x), x)
    if c.chance(0.6):
        made = as_dtype(made, c.pick(INTEGERS))
    return made


# -- averages and saturation -------------------------------------------------------------------
def average(s: Source) -> Value:
    """Take the mean of two or more elements."""
    c = s.c
    dtype = c.pick(NARROW if c.chance(0.8) else INTEGERS)
    a, b = s.load(dtype), s.load(dtype)
    how = c.integer(0, 5)
    if how == 0:
        return (a & b) + ((a ^ b) >> 1)
    if how == 1:
        return (a | b) - ((a ^ b) >> 1)
    wide = wider(c, dtype)
    total = as_dtype(a, wide) + as_dtype(b, wide)
    shift = 1
    if how == 2:
        total, shift = total + as_dtype(s.load(dtype), wide) + as_dtype(s.load(dtype), wide), 2
    if c.chance(0.7):
        total = total + c.pick([1, 1, 1 << (shift - 1), 2])
    made = total >> shift if c.chance(0.7) else total // (1 << shift)
    return as_dtype(made, dtype) if c.chance(0.8) else made


def saturated(s: Source) -> Value:
    """Add, subtract or multiply in a wider dtype, and hold the result to the range."""
    c = s.c
    dtype = c.pick(NARROW if c.chance(0.85) else INTEGERS[:6])
    wide = wider(c, dtype)
    if is_signed(dtype) or c.chance(0.5):
        wide = c.pick([d for d in SIGNED if bits_of(d) > bits_of(dtype)])
    a, b = as_dtype(s.load(dtype), wide), as_dtype(s.load(dtype), wide)
    made = c.pick([a + b, a - b, a * b, a + b + b])
    if c.chance(0.1):
        made = a + c.integer(*limits("int8" if is_signed(wide) else "uint8"))
    to = c.pick([dtype, dtype, dtype, c.pick(NARROW)])
    return as_dtype(clipped_to(s, s.named(made), to), to)


def saturated_in_place(s: Source) -> Value:
    """Saturate without a wider dtype."""
    c = s.c
    if c.chance(0.75):
        dtype = c.pick(UNSIGNED)
        a, b = s.load(dtype), s.load(dtype)
        if c.chance(0.25):
            b = const(c.integer(1, 250), dtype)
        top = limits(dtype)[1]
        return c.pick([_less, _less_chosen, _more, _more_wrapped, _more_inverse])(a, b, top)
    dtype = c.pick(SIGNED)
    a, b = s.load(dtype), s.load(dtype)
    total = s.named(a + b)
    low, high = limits(dtype)
    over = ((a ^ total) & (b ^ total)) < 0
    return chosen(over, chosen(a < 0, const(low, dtype), high), total)


def _less(a: Value, b: Value, top: int) -> Value:
    return larger(a, b) - b


def _less_chosen(a: Value, b: Value, top: int) -> Value:
    return chosen(a > b, a - b, 0)


def _more(a: Value, b: Value, top: int) -> Value:
    return a + smaller(b, ~a)


def _more_wrapped(a: Value, b: Value, top: int) -> Value:
    return chosen(a + b < a, const(top, a.dtype), a + b)


def _more_inverse(a: Value, b: Value, top: int) -> Value:
    return chosen(a > ~b, const(top, a.dtype), a + b)


def narrowed(s: Source) -> Value:
    """Clamp an integer to the range of a narrower dtype, and convert it."""
    c = s.c
    x = s.load(c.pick(INTEGERS[2:]))
    to = c.pick([d for d in INTEGERS if bits_of(d) < bits_of(x.dtype)])
    if c.chance(0.2):
        x = x >> c.integer(1, bits_of(x.dtype) - 1)
    made = as_dtype(clipped_to(s, x, to), to)
    if bits_of(to) > 8 and c.chance(0.25):
        last = c.pick(["int8", "uint8"])
        made = as_dtype(clipped_to(s, made, last), last)
    return made


def from_float(s: Source) -> Value:
    """Convert a float to an integer, with a range or without."""
    c = s.c
    x = s.load(c.pick(FLOATS if c.chance(0.6) else ["float32"]))
    to = c.pick(INTEGERS if c.chance(0.5) else NARROW)
    if c.chance(0.3):
        x = rounded(x, c.pick(["floor", "ceil", "trunc", "round"]))
    if c.chance(0.2):
        x = x * c.pick([0.5, 2.0, -1.0, 4.0])
    middle = to
    if c.chance(0.6):
        low, high = limits(c.pick([to, to, "int8", "uint8"]))
        shift = c.pick([0.0, 0.0, 0.0, 0.5, -0.5, 1.0])
        ends = c.weighted([(5, "both"), (3, "low"), (2, "high"), (2, "zero")])
        floor = low + shift if ends in ("both", "low") else 0.0 if ends == "zero" else None
        ceiling = high - shift if ends in ("both", "high") else None
        x = clip(s, x, floor, ceiling)
        middle = c.pick([to, to, to, "int32", "int64"])
    elif c.chance(0.3):  # stored as integers
        middle = c.pick(["int32", "int64"])
        return (
            as_dtype(clipped_to(s, s.named(as_dtype(x, middle)), to), to)
            if (bits_of(to) < bits_of(middle))
            else as_dtype(as_dtype(x, middle), to)
        )
    return as_dtype(as_dtype(x, middle), to)


def conversion(s: Source) -> Value:
    """Convert once, twice or three times."""
    c = s.c
    every = [*INTEGERS, *FLOATS, "bool"]
    x = s.load(c.pick(every))
    for _ in range(c.integer(1, 3)):
        x = as_dtype(x, c.pick(every))
    return x


def quantised(s: Source) -> Value:
    """Scale an integer, round it, move it and hold it to bytes."""
    c = s.c
    x = s.load(c.pick(["int32", "int16", "int8", "uint8"]))
    y = as_dtype(x, "float32") * c.pick([0.5, 0.125, 0.0078125, 0.75, 3.0])
    if c.chance(0.7):
        y = rounded(y, c.pick(["round", "floor"]))
    if c.chance(0.5):
        y = y + float(c.integer(-128, 128))
    to = c.pick(NARROW)
    if c.chance(0.5):
        return as_dtype(clip(s, y, *limits(to)), to)
    z = as_dtype(y, "int32") + c.integer(-20, 20)
    return as_dtype(clipped_to(s, z, to), to)
