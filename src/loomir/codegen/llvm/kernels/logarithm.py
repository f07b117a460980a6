"""The logarithms and what is made of them.

``x = 2**e * (1 + f)`` with ``1 + f`` between the square roots of 1/2 and of 2. With
``s = f / (2 + f)``, ``log(1 + f) = 2 s + s**3 G(s**2)``, summed so that the large part ``f`` comes
last and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.kernels.parts import (
    absolute,
    bits_of,
    fma,
    format_of,
    horner,
    integers,
    two_sum,
)
from loomir.codegen.llvm.types import DOUBLE, FLOAT
from loomir.codegen.llvm.values import Value, const

__all__ = [
    "LOG_DOUBLE",
    "LOG_LITE",
    "LOG_SINGLE",
    "log",
    "log1p",
    "log1p_lite",
    "log2",
    "log2_lite",
    "log10",
    "log10_lite",
    "log_lite",
    "log_of_sum",
    "parts_of",
]

_h = float.fromhex

# (log(1 + f) - 2 s) / s**3 in powers of s**2
LOG_SINGLE: Final = tuple(
    map(_h, ("0x1.555556p-1", "0x1.9999ecp-2", "0x1.245c3ep-2", "0x1.ddd00cp-3"))
)
LOG_LITE: Final = (
    _h("0x1.5555555564ed7p-1"),
    _h("0x1.999998cad0ef1p-2"),
    _h("0x1.2493240725728p-2"),
    _h("0x1.c67ac8fe30812p-3"),
    _h("0x1.8c8d5c6b0f530p-3"),
)
LOG_DOUBLE: Final = (
    _h("0x1.5555555555558p-1"),
    _h("0x1.99999999952ccp-2"),
    _h("0x1.2492492df3ba9p-2"),
    _h("0x1.c71c62e26208bp-3"),
    _h("0x1.7462b58e46ebep-3"),
    _h("0x1.39fe42e9740a7p-3"),
    _h("0x1.2b59b713616c9p-3"),
)
_POLYNOMIALS: Final = {FLOAT: LOG_SINGLE, DOUBLE: LOG_DOUBLE}

# ln 2 in two parts; the first times any exponent is exact.
_LN2: Final = {
    FLOAT: (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20")),
    DOUBLE: (_h("0x1.62e42feep-1"), _h("0x1.a39ef35793c76p-33")),
}
_LOG2_E: Final = _h("0x1.71547652b82fep+0"), _h("0x1.777d0ffda0d24p-56")
_LOG10_E: Final = _h("0x1.bcb7b1526e50ep-2"), _h("0x1.95355baaafad3p-57")
_LOG10_2: Final = _h("0x1.34413509f4p-2"), _h("0x1.cff7988f8959bp-41")
_SQRT_HALF: Final = 0.7071067811865476


def parts_of(b: Builder, x: Value) -> tuple[Value, Value]:
    """Give f and e of a positive finite x, e as a float."""
    form = format_of(x)
    t, i = x.type, integers(x)
    subnormal = b.fcmp("olt", x, const(t, 2.0 ** (1 - form.bias)))
    lift = form.fraction + 2
    bits = b.bitcast(b.select(subnormal, b.fmul(x, const(t, 2.0**lift)), x), i)
    root = bits_of(_SQRT_HALF, form.bits)
    moved = b.sub(bits, const(i, root))
    # Biased, so that a logical shift will do: vectors of doubles have no other on many CPUs.
    exponent = b.lshr(b.add(moved, const(i, form.bias << form.fraction)), const(i, form.fraction))
    fraction = b.and_(moved, const(i, (1 << form.fraction) - 1))
    f = b.fsub(b.bitcast(b.add(fraction, const(i, root)), t), const(t, 1.0))
    # A small integer below the leading bit of 2**fraction is that much more than it.
    base = 2.0**form.fraction
    number = b.bitcast(b.or_(exponent, const(i, bits_of(base, form.bits))), t)
    offset = b.select(subnormal, const(t, base + form.bias + lift), const(t, base + form.bias))
    return f, b.fsub(number, offset)


def _tail(b: Builder, f: Value, polynomial: Sequence[float]) -> tuple[Value, Value]:
    """Give h = f**2 / 2 and c so that log(1 + f) = f - (h - c)."""
    t = f.type
    s = b.fdiv(f, b.fadd(f, const(t, 2.0)))
    z = b.fmul(s, s)
    half = b.fmul(b.fmul(f, f), const(t, 0.5))
    return half, b.fmul(s, fma(b, z, horner(b, z, polynomial), half))


def _special(b: Builder, x: Value, result: Value) -> Value:
    """Give what the logarithm is at 0, at infinity, below 0 and of NaN."""
    t = x.type
    top = b.fcmp("oeq", x, const(t, float("inf")))
    result = b.select(b.fcmp("oeq", x, const(t, 0.0)), const(t, float("-inf")), result)
    result = b.select(b.fcmp("ult", x, const(t, 0.0)), const(t, float("nan")), result)
    return b.select(top, x, result)


def _log(b: Builder, x: Value, polynomial: Sequence[float]) -> Value:
    f, e = parts_of(b, x)
    half, rest = _tail(b, f, polynomial)
    high, low = _LN2[x.type.element]
    inner = b.fsub(b.fsub(half, fma(b, e, low, rest)), f)
    return _special(b, x, b.fsub(b.fmul(e, const(x.type, high)), inner))


def log(b: Builder, x: Value) -> Value:
    """Emit the natural logarithm."""
    return _log(b, x, _POLYNOMIALS[x.type.element])


def log_lite(b: Builder, x: Value) -> Value:
    """Emit the natural logarithm of doubles, good to 35 bits."""
    return _log(b, x, LOG_LITE)


def _log2(b: Builder, x: Value, polynomial: Sequence[float]) -> Value:
    f, e = parts_of(b, x)
    half, rest = _tail(b, f, polynomial)
    # log(1 + f) in two parts; the product with the constant is found to twice the precision.
    total = b.fsub(f, b.fsub(half, rest))
    error = b.fsub(b.fsub(f, total), b.fsub(half, rest))
    high, low = _LOG2_E
    product = b.fmul(total, const(x.type, high))
    below = fma(b, total, high, b.fneg(product))
    below = fma(b, total, low, fma(b, error, high, below))
    return _special(b, x, b.fadd(e, b.fadd(product, below)))


def log2(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 2 of doubles."""
    return _log2(b, x, LOG_DOUBLE)


def log2_lite(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 2 of doubles, good to 35 bits."""
    return _log2(b, x, LOG_LITE)


def _log10(b: Builder, x: Value, polynomial: Sequence[float]) -> Value:
    f, e = parts_of(b, x)
    half, rest = _tail(b, f, polynomial)
    total = b.fsub(f, b.fsub(half, rest))
    error = b.fsub(b.fsub(f, total), b.fsub(half, rest))
    high, low = _LOG10_E
    product = b.fmul(total, const(x.type, high))
    below = fma(b, total, high, b.fneg(product))
    below = fma(b, total, low, fma(b, error, high, below))
    below = fma(b, e, _LOG10_2[1], below)
    # The product of e is exact; it and the other product are far apart or nearly cancel.
    return _special(b, x, b.fadd(b.fmul(e, const(x.type, _LOG10_2[0])), b.fadd(product, below)))


def log10(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 10 of doubles."""
    return _log10(b, x, LOG_DOUBLE)


def log10_lite(b: Builder, x: Value) -> Value:
    """Emit the logarithm to base 10 of doubles, good to 35 bits."""
    return _log10(b, x, LOG_LITE)


def log_of_sum(b: Builder, x: Value, low: Value, more: Value | None = None) -> Value:
    """Emit log(x + low) of doubles, where low is at most about a unit of x in the last place.

    ``more`` is added to the exponent of 2 in x.
    """
    f, e = parts_of(b, x)
    if more is not None:
        e = b.fadd(e, more)
    half, rest = _tail(b, f, LOG_DOUBLE)
    rest = b.fadd(rest, b.fdiv(low, x))
    high, below = _LN2[DOUBLE]
    inner = b.fsub(b.fsub(half, fma(b, e, below, rest)), f)
    return _special(b, x, b.fsub(b.fmul(e, const(x.type, high)), inner))


def log1p(b: Builder, x: Value) -> Value:
    """Emit log(1 + x) of doubles."""
    found = log_of_sum(b, *two_sum(b, const(x.type, 1.0), x))
    return b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, found)


def log1p_lite(b: Builder, x: Value) -> Value:
    """Emit log(1 + x) of a float held as a double."""
    t = x.type
    near = fma(b, b.fmul(x, x), const(t, -0.5), x)
    tiny = b.fcmp("olt", absolute(b, x), const(t, 2.0**-16))
    return b.select(tiny, near, log_lite(b, b.fadd(x, const(t, 1.0))))
