"""Idioms on bits and bytes of words, high halves of products, signs and quotients."""

from __future__ import annotations

from fuzz.families.idioms.source import (
    NARROW,
    SIGNED,
    UNSIGNED,
    Source,
    as_dtype,
    clipped_to,
    wider,
)
from fuzz.families.idioms.values import (
    FLOATS,
    INTEGERS,
    Value,
    bits_of,
    chosen,
    clz,
    combine_truths,
    const,
    equal,
    is_float,
    is_signed,
    larger,
    limits,
    magnitude,
    negative,
    popcount,
    truncated_quotient,
)

__all__ = [
    "assembled",
    "bit_test",
    "counted",
    "high_product",
    "quotient",
    "rotation",
    "signed_size",
    "swapped",
]


# -- bits --------------------------------------------------------------------------------------
def rotation(s: Source) -> Value:
    """Turn bits around, or shift two words as one."""
    c = s.c
    dtype = c.pick(UNSIGNED if c.chance(0.85) else SIGNED)
    width = bits_of(dtype)
    x = s.load(dtype)
    y = x if c.chance(0.7) else s.load(dtype)
    if c.chance(0.6):
        by = c.integer(0, width - 1) if c.chance(0.2) else c.pick([1, width // 2, width - 1, 3])
        high, low = x << by, y >> (width - by if by else 0)
    else:
        by_value = s.load(dtype)
        by_value = by_value & (width - 1) if c.chance(0.6) else by_value
        other = const(width, dtype) - by_value if c.chance(0.6) else const(0, dtype) - by_value
        high, low = x << by_value, y >> other
    if c.chance(0.3):
        high, low = low, high
    return c.pick([high | low, high | low, high + low, high ^ low])


def counted(s: Source) -> Value:
    """Count bits: of a word, above, below, or by hand."""
    c = s.c
    dtype = c.pick(INTEGERS if c.chance(0.5) else UNSIGNED)
    x = s.load(dtype)
    how = c.integer(0, 8)
    if how == 0:
        return popcount(x)
    if how == 1:
        return clz(x)
    if how == 2:
        return popcount((x & (const(0, dtype) - x)) - 1)
    if how == 3:
        return popcount(x & (x - 1)) if c.chance(0.5) else as_dtype(x & (x - 1), dtype)
    if how == 4:
        return as_dtype(
            combine_truths("and", equal(x & (x - 1), 0), equal(x, 0, not_so=True)), "uint8"
        )
    if how == 5:
        return popcount(x ^ s.load(dtype))
    if how == 6:
        return const(bits_of(dtype) - 1, "int32") - clz(x)
    if how == 7:
        return popcount(x) & 1
    return _by_hand(s, s.load(c.pick(UNSIGNED)))


def _by_hand(s: Source, x: Value) -> Value:
    dtype, width = x.dtype, bits_of(x.dtype)

    def repeated(byte: int) -> int:
        return int.from_bytes(bytes([byte]) * (width // 8), "little")

    x = s.named(x - ((x >> 1) & repeated(0x55)))
    x = s.named((x & repeated(0x33)) + ((x >> 2) & repeated(0x33)))
    x = s.named((x + (x >> 4)) & repeated(0x0F))
    if s.c.chance(0.5):
        return (x * repeated(1)) >> (width - 8)
    by = 8
    while by < width:
        x, by = s.named(x + (x >> by)), 2 * by
    return x & const(0x7F, dtype)


def swapped(s: Source) -> Value:
    """Reverse the order of bytes, or of bits."""
    c = s.c
    dtype = c.pick(UNSIGNED if c.chance(0.8) else SIGNED)
    x, width = s.load(dtype), bits_of(dtype)
    if width == 8 or c.chance(0.25):
        return _reverse_bits(s, s.load(c.pick(UNSIGNED)))
    made: Value | None = None
    for at in range(width // 8):
        to = width // 8 - 1 - at
        if c.chance(0.05):
            to = at
        part = ((x >> (8 * at)) & 0xFF) << (8 * to) if at or to else x & 0xFF
        made = part if made is None else made | part
    assert made is not None
    return made


def _reverse_bits(s: Source, x: Value) -> Value:
    width = bits_of(x.dtype)
    by = 1
    while by < width:
        mask = sum(((1 << by) - 1) << at for at in range(0, width, 2 * by))
        x = s.named(((x >> by) & mask) | ((x & mask) << by))
        by *= 2
    return x


def assembled(s: Source) -> Value:
    """Make a word of neighbouring bytes or halves."""
    c = s.c
    dtype = c.pick(["uint16", "uint32", "uint64", "int16", "int32", "int64"])
    part = c.pick(["uint8", "uint8", "uint16", "int8"])
    width = bits_of(part)
    count = bits_of(dtype) // width
    if count < 2:
        part, width, count = "uint8", 8, bits_of(dtype) // 8
    pieces = s.pair(part, count)
    if c.chance(0.4):
        pieces.reverse()
    made: Value | None = None
    for at, piece in enumerate(pieces):
        wide = as_dtype(piece, dtype)
        wide = wide << (at * width) if at else wide
        made = wide if made is None else made | wide if c.chance(0.8) else made + wide
    assert made is not None
    return made


def bit_test(s: Source) -> Value:
    """Look at single bits, or blend by masks."""
    c = s.c
    dtype = c.pick(INTEGERS)
    x, y = s.load(dtype), s.load(dtype)
    width = bits_of(dtype)
    at = c.integer(0, width - 1)
    bit = 1 << at if at < width - 1 or not is_signed(dtype) else -(1 << at)
    how = c.integer(0, 6)
    if how == 0:
        return (x >> at) & 1
    if how == 1:
        return chosen(equal(x & bit, 0, not_so=c.chance(0.5)), x, y)
    if how == 2:
        return (x & bit) | (y & ~const(bit, dtype))
    if how == 3:
        mask = s.load(dtype)
        return (x & mask) | (y & ~mask)
    if how == 4:
        return ((x ^ y) & s.load(dtype)) ^ y
    if how == 5:
        mask = const(0, dtype) - as_dtype(x > y, dtype)
        return (x & mask) | (y & ~mask)
    return as_dtype(equal((x >> (y & (width - 1))) & 1, 0, not_so=True), c.pick(INTEGERS))


# -- high halves, signs, quotients -------------------------------------------------------------
def high_product(s: Source) -> Value:
    """Take upper bits of a product: pmulhw, pmulhuw, pmulhrsw."""
    c = s.c
    dtype = c.pick(["int16", "int16", "uint16", "int8", "uint8", "int32", "uint32"])
    other = dtype if c.chance(0.85) else c.pick(NARROW)
    wide = wider(c, dtype, other)
    if bits_of(wide) < 2 * bits_of(dtype) and c.chance(0.9):
        wide = ("int" if is_signed(dtype) or is_signed(other) else "uint") + str(
            2 * max(bits_of(dtype), bits_of(other))
        )
    if c.chance(0.25):
        wide = "int64"
    b = s.load(other)
    if c.chance(0.2):
        b = const(c.integer(*limits(other)), other)
    x = as_dtype(s.load(dtype), wide) * as_dtype(b, wide)
    width = bits_of(dtype)
    by = c.pick([width, width - 1, width - 1, width - 2, width // 2])
    if c.chance(0.3):
        by = c.integer(2, bits_of(wide) - 2)
    how = c.weighted([(4, "none"), (4, "half"), (2, "steps"), (1, "other")])
    if how == "half":
        x = x + (1 << (by - 1))
    elif how == "steps":
        x, by = (x >> (by - 1)) + 1, 1
    elif how == "other":
        x = x + c.integer(1, 1 << by)
    x = x >> by
    if c.chance(0.2):
        return as_dtype(clipped_to(s, s.named(x), dtype), dtype)
    if c.chance(0.2):
        dtype = c.pick(INTEGERS)
    return as_dtype(x, dtype) if c.chance(0.85) else x


def signed_size(s: Source) -> Value:
    """Take magnitudes and signs."""
    c = s.c
    dtype = c.pick(SIGNED if c.chance(0.75) else FLOATS)
    x = s.load(dtype)
    how = c.integer(0, 6)
    zero, top = const(0, dtype), bits_of(dtype) - 1
    if how == 0:
        return magnitude(x)
    if how == 1:
        return chosen(x < 0, negative(x), x)
    if how == 2:
        return larger(x, negative(x))
    if how == 3 and not is_float(dtype):
        return (x ^ (x >> top)) - (x >> top)
    if how == 4:
        return chosen(x > 0, const(1, dtype), chosen(x < 0, const(-1, dtype), zero))
    if how == 5:
        to = c.pick(["int8", "int32", "int16"])
        return as_dtype(x > 0, to) - as_dtype(x < 0, to)
    y = s.load(dtype)  # psignb and its like
    return chosen(y > 0, x, chosen(y < 0, negative(x), zero))


def quotient(s: Source) -> Value:
    """Divide by a number."""
    c = s.c
    dtype = c.pick(INTEGERS)
    x = s.load(dtype)
    low, high = limits(dtype)
    by = c.weighted(
        [
            (5, c.integer(2, 16)),
            (2, 1 << c.integer(0, bits_of(dtype) - 2)),
            (1, c.integer(2, high)),
            (1, high),
            (1, c.pick([100, 127, 125, 10])),
        ]
    )
    if is_signed(dtype) and c.chance(0.25):
        by = c.pick([-2, -3, -7, -10, -16, low])
    how = c.integer(0, 5)
    if how == 0:
        return x // by
    if how == 1:
        return x % by
    if how == 2:
        return truncated_quotient(x, by)
    if how == 3:
        return s.named(x // by) * 3 + x % by
    if how == 4:
        return as_dtype(equal(x % by, c.integer(0, 1), not_so=c.chance(0.5)), c.pick(INTEGERS))
    wide = wider(c, dtype)
    a, b = as_dtype(x, wide), as_dtype(s.load(dtype), wide)
    if dtype in UNSIGNED and c.chance(0.5):  # (a * b) / 255, rounded
        return as_dtype((a * b + c.pick([127, 128, 0])) // 255, dtype)
    by = min(by, limits(wide)[1])  # int64 holds less than uint64
    return as_dtype((a + b) // by if wide != dtype else a // by, dtype)
