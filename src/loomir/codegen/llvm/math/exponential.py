"""Emit exponentials and functions that are built from them.

``exp(x) = 2**n * exp(r)``, where ``n`` is the integer nearest to ``x / ln 2`` and
``|r| <= ln(2) / 2``. ``r`` is computed with ln 2 in two parts, ``exp(r)`` by a near-minimax
polynomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.parts import (
    bits_of,
    chains,
    clamp,
    fma,
    format_of,
    horner,
    integers,
    may_scale,
    nearest,
    quick_sum,
    scale,
    scale_whole,
)

__all__ = [
    "EXP2_DOUBLE",
    "EXP2_SINGLE",
    "EXP10_DOUBLE",
    "EXP10_SINGLE",
    "EXPM1_SINGLE",
    "EXP_DOUBLE",
    "EXP_SINGLE",
    "emit_half_exp",
    "emit_one_minus_exp",
    "exp",
    "exp2",
    "exp10",
    "exp_of_sum",
    "expm1_of_twice",
    "sigmoid",
]

_h = float.fromhex


class _Exp(NamedTuple):
    """How to compute n and r, the polynomial in r, and the range in which results are normal."""

    steps: float  # n is the integer nearest to x times this
    high: float  # r is x minus n times this
    low: float
    polynomial: Sequence[float]
    least: float  # its result is 0
    small: float  # results of smaller numbers may be subnormal
    most: float  # results of larger numbers are infinite


_LOG2_E: Final = _h("0x1.71547652b82fep+0")
_LN2: Final = _h("0x1.62e42fefa39efp-1"), _h("0x1.abc9e3b39803fp-56")
_LN2_SINGLE: Final = _h("0x1.62e43p-1"), _h("-0x1.05c61p-29")
_LOG2_10: Final = _h("0x1.a934f0979a371p+1")
_LOG10_2: Final = _h("0x1.34413509f79ffp-2"), _h("-0x1.9dc1da994fd21p-59")
_LOG10_2_SINGLE: Final = _h("0x1.344136p-2"), _h("-0x1.ec10cp-27")

# The polynomial of (exp(r) - 1 - r) / r**2.
EXP_SINGLE: Final = tuple(
    map(_h, ("0x1p-1", "0x1.5554dcp-3", "0x1.55551ap-5", "0x1.120b6ep-7", "0x1.6d110ap-10"))
)
# The same, with an error that is small relative to exp(r) - 1.
EXPM1_SINGLE: Final = tuple(
    map(_h, ("0x1.fffff4p-2", "0x1.555496p-3", "0x1.555e8ep-5", "0x1.12340ep-7", "0x1.66497ep-10"))
)
EXP_DOUBLE: Final = (
    _h("0x1.0000000000001p-1"),
    _h("0x1.5555555555556p-3"),
    _h("0x1.5555555553d63p-5"),
    _h("0x1.11111111109b3p-7"),
    _h("0x1.6c16c1788bd90p-10"),
    _h("0x1.a01a01a7c41d5p-13"),
    _h("0x1.a019b90d2ae7ap-16"),
    _h("0x1.71de0dae63bb3p-19"),
    _h("0x1.289185613a3d6p-22"),
    _h("0x1.af38a9b0ec855p-26"),
)
# The polynomial of (2**r - 1) / r.
EXP2_SINGLE: Final = (
    _h("0x1.62e43p-1"),
    _h("0x1.ebfbep-3"),
    _h("0x1.c6af6cp-5"),
    _h("0x1.3b2a52p-7"),
    _h("0x1.5f08b8p-10"),
    _h("0x1.4413a4p-13"),
)
EXP2_DOUBLE: Final = (
    _h("0x1.62e42fefa39efp-1"),
    _h("0x1.ebfbdff82c58fp-3"),
    _h("0x1.c6b08d704a0c6p-5"),
    _h("0x1.3b2ab6fba4e79p-7"),
    _h("0x1.5d87fe78a3f8cp-10"),
    _h("0x1.430912f86b7d4p-13"),
    _h("0x1.ffcbfc6dad6adp-17"),
    _h("0x1.62c02242bb0bdp-20"),
    _h("0x1.b524ebc089f66p-24"),
    _h("0x1.e4cf10d1896bep-28"),
    _h("0x1.e9ec3d7558475p-32"),
    _h("0x1.c4a2aaa2b01d9p-36"),
)
# The polynomial of (10**r - 1) / r.
EXP10_SINGLE: Final = (
    _h("0x1.26bb1cp+1"),
    _h("0x1.53524cp+1"),
    _h("0x1.046fb4p+1"),
    _h("0x1.2bd702p+0"),
    _h("0x1.1559e8p-1"),
    _h("0x1.a94b32p-3"),
)
EXP10_DOUBLE: Final = (
    _h("0x1.26bb1bbb55516p+1"),
    _h("0x1.53524c73cea69p+1"),
    _h("0x1.0470591de2ca8p+1"),
    _h("0x1.2bd7609fd98c6p+0"),
    _h("0x1.1429ffd1d2e2ap-1"),
    _h("0x1.a7ed70847b420p-3"),
    _h("0x1.16e4dfceb62aep-4"),
    _h("0x1.4116b0676cb7ep-6"),
    _h("0x1.489787263866ap-8"),
    _h("0x1.2ea502e9074bep-10"),
    _h("0x1.fbfbe89083ff2p-13"),
    _h("0x1.85c375b48ae12p-15"),
)

_EXP: Final = {
    FLOAT: _Exp(
        *(_LOG2_E, *_LN2_SINGLE),
        *((1.0, 1.0, *EXP_SINGLE), -104.0, -87.0, _h("0x1.62e42ep+6")),
    ),
    DOUBLE: _Exp(
        *(_LOG2_E, *_LN2),
        *((1.0, 1.0, *EXP_DOUBLE), -746.0, -708.0, _h("0x1.62e42fefa39efp+9")),
    ),
}
_EXP2: Final = {
    FLOAT: _Exp(1.0, 1.0, 0.0, (1.0, *EXP2_SINGLE), -151.0, -125.0, _h("0x1.fffffep+6")),
    DOUBLE: _Exp(1.0, 1.0, 0.0, (1.0, *EXP2_DOUBLE), -1080.0, -1021.0, _h("0x1.fffffffffffffp+9")),
}
_EXP10: Final = {
    FLOAT: _Exp(
        *(_LOG2_10, *_LOG10_2_SINGLE),
        *((1.0, *EXP10_SINGLE), -46.0, -37.5, _h("0x1.344134p+5")),
    ),
    DOUBLE: _Exp(
        *(_LOG2_10, *_LOG10_2),
        *((1.0, *EXP10_DOUBLE), -325.0, -307.0, _h("0x1.34413509f79fep+8")),
    ),
}
_LIFT: Final = 64
"""Binary orders by which results that may be subnormal are raised, and divided by at the end."""


def _reduce_and_count(b: Builder, x: Value, how: _Exp) -> tuple[Value, Value, Value]:
    """Return r, n, and a number with n in its low bits."""
    magic = format_of(x).magic
    moved = fma(b, x, how.steps, magic)
    n = b.fsub(moved, const(x.type, magic))
    rest = fma(b, n, -how.high, x)
    return (fma(b, n, -how.low, rest) if how.low else rest), n, b.bitcast(moved, integers(x))


def _reduce(b: Builder, x: Value, how: _Exp) -> tuple[Value, Value]:
    """Return r, and a number with n in its low bits."""
    r, _, moved = _reduce_and_count(b, x, how)
    return r, moved


def _exponent(b: Builder, moved: Value, x: Value) -> Value:
    """Return n at the exponent's place; the other bits of ``moved`` are shifted out."""
    return b.shl(moved, const(moved.type, format_of(x).fraction))


def _exp(b: Builder, x: Value, how: _Exp) -> Value:
    """Emit the power; n is added to the exponent of the polynomial, whose value is about 1.

    Results that may be subnormal stay 2**64 times as large until the last multiplication, which
    rounds them. If the CPU has one instruction for all that, the bits are the same. A result that
    rounds to 0 is multiplied by 0 instead: an underflow takes CPUs as long as ten vectors, and
    masks of attention cause many.
    """
    t, i = x.type, integers(x)
    lost = b.fcmp("olt", x, const(t, how.least))
    if may_scale(b, x):
        # The largest argument is exceeded by 1, so that the result still overflows.
        r, n, _ = _reduce_and_count(b, clamp(b, x, how.least, how.most + 1.0), how)
        near = b.select(lost, const(t, 0.0), horner(b, r, how.polynomial))
        return scale_whole(b, near, n)
    bounded = b.select(lost, const(t, how.least), x)
    r, moved = _reduce(b, bounded, how)
    grown = b.bitcast(horner(b, r, how.polynomial), i)
    small = b.fcmp("olt", x, const(t, how.small))
    up = const(i, _LIFT << format_of(x).fraction)
    lifted = b.add(b.add(grown, _exponent(b, moved, x)), b.select(small, up, const(i, 0)))
    down = b.select(small, const(t, 2.0**-_LIFT), const(t, 1.0))
    down = b.select(lost, const(t, 0.0), down)
    result = b.fmul(b.bitcast(lifted, t), down)
    # Too large, or NaN, from whose bits no valid n comes.
    beyond = b.fcmp("ugt", x, const(t, how.most))
    return b.select(beyond, b.fadd(x, const(t, float("inf"))), result)


def exp(b: Builder, x: Value) -> Value:
    """Emit e to the power x."""
    return _exp(b, x, _EXP[x.type.element])


def exp2(b: Builder, x: Value) -> Value:
    """Emit 2 to the power x."""
    return _exp(b, x, _EXP2[x.type.element])


def exp10(b: Builder, x: Value) -> Value:
    """Emit 10 to the power x."""
    return _exp(b, x, _EXP10[x.type.element])


def emit_one_minus_exp(b: Builder, x: Value, more: Value) -> Value:
    """Emit ``1 - exp(-(x + more))`` for sums from 0 to 80; ``more`` is small relative to x.

    This is ``1 - u * exp(r)`` with u a power of two: ``(1 - u) - u * (exp(r) - 1)``. If u is 1, x
    enters only in the last addition, so that its sum with ``more`` is not rounded twice.
    """
    t, form = x.type, format_of(x)
    how = _EXP[t.element]
    magic = const(t, form.magic + form.bias)  # so that the low bits are the exponent of u
    moved = fma(b, b.fadd(x, more), -how.steps, magic)
    n = b.fsub(moved, magic)
    base = fma(b, n, -how.high, b.fneg(x))
    u = b.bitcast(_exponent(b, b.bitcast(moved, integers(x)), x), t)
    r = b.fsub(base, more)
    # For floats, n times the second part of ln 2 makes no difference.
    less = b.fneg(more) if t.bits == 32 else fma(b, n, -how.low, b.fneg(more))
    square = b.fmul(r, r)
    if t.bits == 32:
        grown = horner(b, r, EXPM1_SINGLE)
    else:
        grown = chains(b, [r, square], EXP_DOUBLE)
    rest = fma(b, square, grown, less)
    return fma(b, b.fneg(u), b.fadd(base, rest), b.fsub(const(t, 1.0), u))


def expm1_of_twice(b: Builder, x: Value) -> Value:
    """Emit exp(2 x) - 1 without cancellation, for x from 0 to 40.

    It uses half of r and twice the power of two, which costs less than doubling x.
    """
    how, form = _EXP[x.type.element], format_of(x)
    magic = const(x.type, form.magic + form.bias + 1)  # so that the low bits are an exponent
    moved = fma(b, x, 2.0 * how.steps, magic)
    n = b.fsub(moved, magic)
    r = fma(b, n, -0.5 * how.low, fma(b, n, -0.5 * how.high, x))
    twice = b.bitcast(_exponent(b, b.bitcast(moved, integers(x)), x), x.type)
    halved = [2.0 ** (k + 1) * c for k, c in enumerate(how.polynomial[2:])]
    less_one = fma(b, b.fmul(r, r), horner(b, r, halved), r)
    return fma(b, twice, less_one, fma(b, twice, 0.5, const(x.type, -1.0)))


def sigmoid(b: Builder, x: Value) -> Value:
    """Emit ``1 / (1 + exp(-x))``; both sides of the division are scaled by 2**-64, for the range.

    exp(-x) is v * (1 + m) with v a power of two. The rounding error of adding 1 is kept in a second
    part of the sum, which corrects the quotient.
    """
    t, i = x.type, integers(x)
    how, form = _EXP[t.element], format_of(x)
    unit = const(t, 2.0**-_LIFT)
    bounded = clamp(b, x, how.least, 40.0)  # above, the result rounds to 1
    magic = const(t, form.magic + form.bias - _LIFT)  # so that the low bits are the exponent of v
    moved = fma(b, bounded, -how.steps, magic)
    n = b.fsub(moved, magic)
    r = fma(b, n, -how.low, fma(b, n, -how.high, b.fneg(bounded)))
    v = b.bitcast(_exponent(b, b.bitcast(moved, i), x), t)
    m = fma(b, b.fmul(r, r), horner(b, r, how.polynomial[2:]), r)
    below = fma(b, v, m, b.fadd(v, unit))
    over = b.fcmp("ogt", v, unit)
    larger, smaller = b.select(over, v, unit), b.select(over, unit, v)
    below_low = fma(b, v, m, b.fsub(smaller, b.fsub(below, larger)))
    q = b.fdiv(const(t, 1.0), below)
    down = b.fneg(q)
    rest = fma(b, down, below_low, fma(b, down, below, const(t, 1.0)))
    return b.fmul(fma(b, q, rest, q), unit)


def emit_half_exp(b: Builder, x: Value) -> Value:
    """Emit half of e to the power x, for ``x >= 0``, without premature overflow."""
    how = _EXP[x.type.element]
    # Above, the result is infinite, but the exponent must stay in the range of `scale`.
    r, n = _reduce_argument(b, clamp(b, x, 0.0, how.most + 10.0), how)
    return scale(b, horner(b, r, how.polynomial), b.sub(n, const(n.type, 1)))


def exp_of_sum(b: Builder, x: Value, low: Value) -> Value:
    """Emit e to the power x + low; low is at most about one unit in the last place of x."""
    how = _EXP[x.type.element]
    bounded = clamp(b, x, how.least, how.most + 1.0)
    low = b.select(b.fcmp("oeq", bounded, x), low, const(x.type, 0.0))
    n, whole = nearest(b, b.fmul(bounded, const(x.type, how.steps)))
    r, rest = quick_sum(b, fma(b, n, -how.high, bounded), fma(b, n, -how.low, low))
    square = b.fmul(r, r)
    grown = b.fadd(r, fma(b, square, horner(b, r, how.polynomial[2:]), rest))
    return scale(b, b.fadd(grown, const(x.type, 1.0)), whole)


def _reduce_argument(b: Builder, x: Value, how: _Exp) -> tuple[Value, Value]:
    """Return r, and n as an integer."""
    r, moved = _reduce(b, x, how)
    form = format_of(x)
    return r, b.sub(moved, const(moved.type, bits_of(form.magic, form.bits)))
