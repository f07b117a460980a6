"""Emit powers, and the length of a vector of two floats (``hypot``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.exponential import exp_of_sum
from loomir.codegen.llvm.math.logarithm import parts_of
from loomir.codegen.llvm.math.parts import (
    absolute,
    clamp,
    fma,
    horner,
    integers,
    quick_sum,
    two_product,
)

__all__ = [
    "FIXED_POWERS",
    "LOG_POWER",
    "LOG_POWER_SINGLE",
    "hypot",
    "hypot_lite",
    "pow_",
    "rsqrt",
]

_h = float.fromhex

LOG_POWER_SINGLE: Final = (
    _h("0x1.99999ap-2"),
    _h("0x1.24928ep-2"),
    _h("0x1.c6c0acp-3"),
    _h("0x1.879c50p-3"),
)
"""(log(1 + f) - 2 s - 2/3 s**3) / s**5 in powers of s**2, where ``s = f / (2 + f)``; in floats."""
LOG_POWER: Final = (
    _h("0x1.999999999999ap-2"),
    _h("0x1.2492492492491p-2"),
    _h("0x1.c71c71c71cfddp-3"),
    _h("0x1.745d1745130e9p-3"),
    _h("0x1.3b13b1bc9cb13p-3"),
    _h("0x1.1110dfa20d0b3p-3"),
    _h("0x1.e1f7fde971223p-4"),
    _h("0x1.ac4a41923ad4fp-4"),
    _h("0x1.b8d6987f21bc4p-4"),
)
"""The same, in doubles."""


class _Log(NamedTuple):
    """The constants of the logarithm in two parts; ``unit`` (ln 2) times an exponent is exact."""

    polynomial: Sequence[float]
    two_thirds: tuple[float, float]
    unit: tuple[float, float]


_LOG: Final = {
    FLOAT: _Log(
        LOG_POWER_SINGLE,
        (_h("0x1.555556p-1"), _h("-0x1.555556p-26")),
        (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20")),
    ),
    DOUBLE: _Log(
        LOG_POWER,
        (_h("0x1.5555555555555p-1"), _h("0x1.5555555555555p-55")),
        (_h("0x1.62e42fefa3800p-1"), _h("0x1.ef35793c76730p-45")),
    ),
}


def rsqrt(b: Builder, x: Value) -> Value:
    """Emit the reciprocal of the square root."""
    return b.fdiv(const(x.type, 1.0), b.intrinsic("llvm.sqrt", [x]))


# -- lengths -----------------------------------------------------------------------------------
def hypot(b: Builder, x: Value, y: Value) -> Value:
    """Emit the length of (x, y) for doubles, scaled so that their squares are normal."""
    t = x.type
    x, y = absolute(b, x), absolute(b, y)
    most = b.select(b.fcmp("ogt", x, y), x, y)
    high, low = b.fcmp("ogt", most, const(t, 2.0**500)), b.fcmp("olt", most, const(t, 2.0**-450))
    down = b.select(low, const(t, 2.0**-600), const(t, 1.0))
    up = b.select(low, const(t, 2.0**600), const(t, 1.0))
    down, up = (
        b.select(high, const(t, 2.0**600), down),
        b.select(high, const(t, 2.0**-600), up),
    )
    length = b.fmul(_length(b, b.fmul(x, up), b.fmul(y, up)), down)
    return _infinite_beside(b, x, y, length)


def hypot_lite(b: Builder, x: Value, y: Value) -> Value:
    """Emit the length of (x, y) for floats as doubles, whose squares cannot overflow."""
    return _infinite_beside(b, absolute(b, x), absolute(b, y), _length(b, x, y))


def _length(b: Builder, x: Value, y: Value) -> Value:
    return b.intrinsic("llvm.sqrt", [fma(b, x, x, b.fmul(y, y))])


def _infinite_beside(b: Builder, x: Value, y: Value, length: Value) -> Value:
    """Replace the result by infinity if either side is infinite, even if the other is NaN."""
    top = const(x.type, float("inf"))
    infinite = b.or_(b.fcmp("oeq", x, top), b.fcmp("oeq", y, top))
    return b.select(infinite, top, length)


# -- powers ------------------------------------------------------------------------------------
def pow_(b: Builder, x: Value, y: Value) -> Value:
    """Emit x to the power y as ``exp(y * log(x))``, with the logarithm in two parts."""
    high, low = _log_in_parts(b, absolute(b, x))
    # Beyond 2**66 the result is 0, 1 or infinite in any case; the clamp keeps the product finite.
    bounded = clamp(b, y, -(2.0**66), 2.0**66)
    power, lost = two_product(b, bounded, high)
    result = exp_of_sum(b, power, fma(b, bounded, low, lost))
    return _power_cases(b, x, y, result)


def _root(b: Builder, x: Value) -> Value:
    t = x.type
    top = const(t, float("inf"))
    # The square root of -0 is -0, but the power is 0; that of -inf is NaN, but the power infinity.
    root = b.fadd(b.intrinsic("llvm.sqrt", [x]), const(t, 0.0))
    return b.select(b.fcmp("oeq", x, const(t, float("-inf"))), top, root)


def _cube(b: Builder, x: Value) -> Value:
    high, low = two_product(b, x, x)
    return _product(b, high, x, b.fmul(low, x))


def _fourth(b: Builder, x: Value) -> Value:
    high, low = two_product(b, x, x)
    return _product(b, high, high, b.fmul(low, b.fadd(high, high)))


def _product(b: Builder, x: Value, y: Value, more: Value) -> Value:
    """Emit ``x * y + more`` as if rounded once; infinities and zeros are those of the product."""
    high, low = two_product(b, x, y)
    t, size = x.type, absolute(b, high)
    finite = b.fcmp("olt", size, const(t, float("inf")))
    exact = b.and_(finite, b.fcmp("ogt", size, const(t, 0.0)))
    return b.select(exact, b.fadd(high, b.fadd(low, more)), high)


FIXED_POWERS: Final[dict[float, Callable[[Builder, Value], Value]]] = {
    1.0: lambda b, x: x,
    2.0: lambda b, x: b.fmul(x, x),
    3.0: _cube,
    4.0: _fourth,
    0.5: _root,
    -1.0: lambda b, x: b.fdiv(const(x.type, 1.0), x),
}
"""Exponents of ``SHORT_POWERS``: multiplied out, as accurate as ``pow_``, ten times as fast."""


def _power_cases(b: Builder, x: Value, y: Value, result: Value) -> Value:
    """Turn the power of the magnitude of x into that of x, with all special cases of IEEE 754."""
    t = x.type
    zero, top = const(t, 0.0), const(t, float("inf"))
    size = absolute(b, x)
    up, down = b.fcmp("ogt", y, zero), b.fcmp("olt", y, zero)
    at_zero = b.select(up, zero, b.select(down, top, y))
    at_top = b.select(up, top, b.select(down, zero, y))
    result = b.select(b.fcmp("oeq", size, zero), at_zero, result)
    result = b.select(b.fcmp("oeq", size, top), at_top, result)
    result = b.select(b.fcmp("uno", x, x), x, result)
    return _restore_sign(b, x, y, result)


def _restore_sign(b: Builder, x: Value, y: Value, result: Value) -> Value:
    """Apply the sign of x to the power of its magnitude, with all special cases of IEEE 754."""
    t, i = x.type, integers(x)
    one, zero = const(t, 1.0), const(t, 0.0)
    top = const(t, float("inf"))
    whole = b.fcmp("oeq", b.intrinsic("llvm.trunc", [y]), y)
    half = b.fmul(y, const(t, 0.5))
    odd = b.and_(whole, b.fcmp("one", b.intrinsic("llvm.trunc", [half]), half))
    below = b.and_(b.fcmp("olt", x, zero), b.fcmp("ogt", x, const(t, float("-inf"))))
    finite = b.fcmp("olt", absolute(b, y), top)
    undefined = b.and_(b.and_(below, finite), b.not_(whole))
    result = b.select(undefined, const(t, float("nan")), result)
    negative = b.icmp("slt", b.bitcast(x, i), const(i, 0))
    result = b.select(b.and_(negative, odd), b.fneg(result), result)
    always = b.or_(b.fcmp("oeq", y, zero), b.fcmp("oeq", x, one))
    return b.select(always, one, result)


def _log_in_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return the logarithm of a positive finite number in two parts, with 13 extra bits."""
    how = _LOG[x.type.element]
    t = x.type
    f, e = parts_of(b, x)
    two = const(t, 2.0)
    below = b.fadd(f, two)
    below_low = b.fsub(f, b.fsub(below, two))
    inverse = b.fdiv(const(t, 1.0), below)
    s = b.fmul(f, inverse)
    rest = b.fsub(fma(b, b.fneg(s), below, f), b.fmul(s, below_low))
    s_low = b.fmul(rest, inverse)
    z, z_low = two_product(b, s, s)
    z_low = fma(b, b.fmul(s, two), s_low, z_low)
    # g = 2/3 + z * (the remaining series), then s * z * g, each in two parts.
    tail = b.fmul(z, horner(b, z, how.polynomial))
    g, g_low = quick_sum(b, const(t, how.two_thirds[0]), tail)
    g_low = b.fadd(g_low, const(t, how.two_thirds[1]))
    w, w_low = two_product(b, z, g)
    w_low = fma(b, z, g_low, fma(b, z_low, g, w_low))
    k, k_low = two_product(b, s, w)
    k_low = fma(b, s, w_low, fma(b, s_low, w, k_low))
    inner, inner_low = quick_sum(b, b.fmul(s, two), k)
    inner_low = b.fadd(inner_low, fma(b, s_low, two, k_low))
    outer, outer_low = quick_sum(b, b.fmul(e, const(t, how.unit[0])), inner)
    low = b.fadd(outer_low, fma(b, e, how.unit[1], inner_low))
    return quick_sum(b, outer, low)
