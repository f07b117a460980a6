"""The exponential family.

``exp(x) = 2**n * exp(r)`` with ``n`` the integer nearest to ``x / ln 2`` and ``|r| <= ln(2) / 2``;
``r`` is found with ln 2 in two parts, and exp(r) is a polynomial close to the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.parts import (
    absolute,
    clamped,
    fma,
    horner,
    nearest,
    power_of_two,
    quick_sum,
    scaled,
)
from loomir.codegen.llvm.types import DOUBLE, FLOAT
from loomir.codegen.llvm.values import Value, const

__all__ = [
    "EXP2_DOUBLE",
    "EXP2_LITE",
    "EXP2_SINGLE",
    "EXP10_DOUBLE",
    "EXP10_SINGLE",
    "EXP_DOUBLE",
    "EXP_LITE",
    "EXP_SINGLE",
    "exp",
    "exp2",
    "exp2_lite",
    "exp10",
    "exp_lite",
    "exp_of_sum",
    "expm1",
    "half_exp",
    "sigmoid",
]

_h = float.fromhex


class _Exp(NamedTuple):
    """How to find n and r, the polynomial of r, and beyond what x the result is 0 or infinity."""

    steps: float  # n is the integer nearest to x times this
    high: float  # r is x less n times this
    low: float
    polynomial: Sequence[float]
    least: float
    most: float


_LOG2_E: Final = _h("0x1.71547652b82fep+0")
_LN2: Final = _h("0x1.62e42fefa39efp-1"), _h("0x1.abc9e3b39803fp-56")
_LN2_SINGLE: Final = _h("0x1.62e43p-1"), _h("-0x1.05c61p-29")
_LOG2_10: Final = _h("0x1.a934f0979a371p+1")
_LOG10_2: Final = _h("0x1.34413509f79ffp-2"), _h("-0x1.9dc1da994fd21p-59")
_LOG10_2_SINGLE: Final = _h("0x1.344136p-2"), _h("-0x1.ec10cp-27")

# Of exp(r) less 1 + r, divided by r**2.
EXP_SINGLE: Final = tuple(
    map(_h, ("0x1p-1", "0x1.5554dcp-3", "0x1.55551ap-5", "0x1.120b6ep-7", "0x1.6d110ap-10"))
)
EXP_LITE: Final = (
    _h("0x1.0000000000000p-1"),
    _h("0x1.55555567532adp-3"),
    _h("0x1.5555555c87148p-5"),
    _h("0x1.1110c632a3088p-7"),
    _h("0x1.6c16858b7acb9p-10"),
    _h("0x1.a15179d80ae96p-13"),
    _h("0x1.a1132015ba37ep-16"),
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
# Of 2**r less 1, divided by r.
EXP2_SINGLE: Final = (
    _h("0x1.62e43p-1"),
    _h("0x1.ebfbep-3"),
    _h("0x1.c6af6cp-5"),
    _h("0x1.3b2a52p-7"),
    _h("0x1.5f08b8p-10"),
    _h("0x1.4413a4p-13"),
)
EXP2_LITE: Final = (
    _h("0x1.62e42fef9cc3cp-1"),
    _h("0x1.ebfbdff82a727p-3"),
    _h("0x1.c6b08da71da60p-5"),
    _h("0x1.3b2ab70ad7014p-7"),
    _h("0x1.5d87757c238f2p-10"),
    _h("0x1.4308c708aee31p-13"),
    _h("0x1.00c0fb54e0f1cp-16"),
    _h("0x1.63b2f07a28632p-20"),
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
# Of 10**r less 1, divided by r.
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
    FLOAT: _Exp(_LOG2_E, *_LN2_SINGLE, EXP_SINGLE, -105.0, 90.0),
    DOUBLE: _Exp(_LOG2_E, *_LN2, EXP_DOUBLE, -750.0, 711.0),
}
_EXP2: Final = {
    FLOAT: _Exp(1.0, 1.0, 0.0, EXP2_SINGLE, -152.0, 129.0),
    DOUBLE: _Exp(1.0, 1.0, 0.0, EXP2_DOUBLE, -1080.0, 1025.0),
}
_EXP10: Final = {
    FLOAT: _Exp(_LOG2_10, *_LOG10_2_SINGLE, EXP10_SINGLE, -46.0, 39.0),
    DOUBLE: _Exp(_LOG2_10, *_LOG10_2, EXP10_DOUBLE, -325.0, 309.0),
}
_LITE: Final = _EXP[DOUBLE]._replace(polynomial=EXP_LITE)
_LITE2: Final = _EXP2[DOUBLE]._replace(polynomial=EXP2_LITE)


def _reduced(b: Builder, x: Value, how: _Exp) -> tuple[Value, Value]:
    n, whole = nearest(b, b.fmul(x, const(x.type, how.steps)))
    rest = fma(b, n, -how.high, x)
    return (fma(b, n, -how.low, rest) if how.low else rest), whole


def _less_one(b: Builder, r: Value, how: _Exp) -> Value:
    """Emit exp(r) - 1 of the reduced argument."""
    return fma(b, b.fmul(r, r), horner(b, r, how.polynomial), r)


def _exp(b: Builder, x: Value, how: _Exp) -> Value:
    r, n = _reduced(b, clamped(b, x, how.least, how.most), how)
    return scaled(b, b.fadd(_less_one(b, r, how), const(x.type, 1.0)), n)


def _power(b: Builder, x: Value, how: _Exp) -> Value:
    r, n = _reduced(b, clamped(b, x, how.least, how.most), how)
    return scaled(b, fma(b, r, horner(b, r, how.polynomial), 1.0), n)


def exp(b: Builder, x: Value) -> Value:
    """Emit e to the power x."""
    return _exp(b, x, _EXP[x.type.element])


def exp_lite(b: Builder, x: Value) -> Value:
    """Emit e to the power x on doubles, good to 35 bits."""
    return _exp(b, x, _LITE)


def exp2(b: Builder, x: Value) -> Value:
    """Emit 2 to the power x."""
    return _power(b, x, _EXP2[x.type.element])


def exp2_lite(b: Builder, x: Value) -> Value:
    """Emit 2 to the power x on doubles, good to 35 bits."""
    return _power(b, x, _LITE2)


def exp10(b: Builder, x: Value) -> Value:
    """Emit 10 to the power x."""
    return _power(b, x, _EXP10[x.type.element])


def expm1(b: Builder, x: Value) -> Value:
    """Emit exp(x) - 1 without cancellation, for ``|x| <= 80``."""
    how = _EXP[x.type.element]
    r, n = _reduced(b, x, how)
    unit = power_of_two(b, n, x.type)
    return fma(b, unit, _less_one(b, r, how), b.fsub(unit, const(x.type, 1.0)))


def sigmoid(b: Builder, x: Value) -> Value:
    """Emit ``1 / (1 + exp(-x))``; with ``exp(-|x|)``, which cannot overflow."""
    one = const(x.type, 1.0)
    small = exp(b, b.fneg(absolute(b, x)))
    above = b.select(b.fcmp("olt", x, const(x.type, 0.0)), small, one)
    return b.fdiv(above, b.fadd(one, small))


def half_exp(b: Builder, x: Value) -> Value:
    """Emit half of e to the power x, for doubles ``x >= 0``; only what is too large overflows."""
    how = _EXP[DOUBLE]
    # From 720 on it is infinite, and the exponent still one that `scaled` takes.
    r, n = _reduced(b, clamped(b, x, 0.0, 720.0), how)
    return scaled(b, b.fadd(_less_one(b, r, how), const(x.type, 1.0)), b.sub(n, const(n.type, 1)))


def exp_of_sum(b: Builder, x: Value, low: Value) -> Value:
    """Emit e to the power x + low of doubles; low is at most about a unit of x's last place."""
    how = _EXP[DOUBLE]
    held = clamped(b, x, how.least, how.most)
    low = b.select(b.fcmp("oeq", held, x), low, const(x.type, 0.0))
    n, whole = nearest(b, b.fmul(held, const(x.type, how.steps)))
    r, rest = quick_sum(b, fma(b, n, -how.high, held), fma(b, n, -how.low, low))
    grown = b.fadd(r, fma(b, b.fmul(r, r), horner(b, r, how.polynomial), rest))
    return scaled(b, b.fadd(grown, const(x.type, 1.0)), whole)
