"""Emit sine, cosine and tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.argument_reduction import (
    far,
    reduce_angle,
    reduce_far,
    reduce_single,
)
from loomir.codegen.llvm.math.parts import fma, horner
from loomir.codegen.llvm.math.rare_arguments import Scalar, rarely

__all__ = [
    "COS",
    "COS_LITE",
    "COS_SINGLE",
    "SIN",
    "SIN_LITE",
    "SIN_SINGLE",
    "TAN_SINGLE",
    "cos",
    "cos_single",
    "sin",
    "sin_single",
    "tan",
    "tan_single",
]

_h = float.fromhex

SIN_SINGLE: Final = (
    _h("-0x1.555546p-3"),
    _h("0x1.11073ap-7"),
    _h("-0x1.994386p-13"),
)
"""(sin(r) - r) / r**3 in powers of r**2, for |r| up to pi/4; in floats."""
TAN_SINGLE: Final = (
    _h("0x1.555560p-2"),
    _h("0x1.110d8cp-3"),
    _h("0x1.badc20p-5"),
    _h("0x1.5cad1ap-6"),
    _h("0x1.6320c2p-7"),
    _h("0x1.6d8298p-14"),
    _h("0x1.1ee202p-8"),
)
"""(tan(r) - r) / r**3 in powers of r**2, for |r| up to pi/4; in floats."""
COS_SINGLE: Final = (
    _h("0x1.55554ap-5"),
    _h("-0x1.6c0c32p-10"),
    _h("0x1.99eb36p-16"),
)
"""(cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2, for |r| up to pi/4; in floats."""
SIN_LITE: Final = (
    _h("-0x1.555555545dd83p-3"),
    _h("0x1.11110deeb33b2p-7"),
    _h("-0x1.a013a6edc8f34p-13"),
    _h("0x1.6dbdd26f56d2dp-19"),
)
"""(sin(r) - r) / r**3 in powers of r**2, for |r| up to pi/4; good for floats."""
SIN: Final = (
    _h("-0x1.5555555555555p-3"),
    _h("0x1.1111111110bb1p-7"),
    _h("-0x1.a01a019e8357dp-13"),
    _h("0x1.71de37961e4c6p-19"),
    _h("-0x1.ae600a926c89ap-26"),
    _h("0x1.5e0af186af739p-33"),
)
"""The same, good for doubles."""
COS_LITE: Final = (
    _h("0x1.5555555502be6p-5"),
    _h("-0x1.6c16bf5495185p-10"),
    _h("0x1.a015c40ec65ecp-16"),
    _h("-0x1.25242a3a17327p-22"),
)
"""(cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2, for |r| up to pi/4; good for floats."""
COS: Final = (
    _h("0x1.5555555555555p-5"),
    _h("-0x1.6c16c16c16966p-10"),
    _h("0x1.a01a019f4e867p-16"),
    _h("-0x1.27e4fa17a41b4p-22"),
    _h("0x1.1eeb68b109173p-29"),
    _h("-0x1.907d7aebd5e3dp-37"),
)
"""The same, good for doubles."""

_Reduced = tuple[Value, Value, Value]
_Join = Callable[[Builder, Value, Value, Value], Value]
"""Combines sine and cosine of a reduced angle and its number of quarter turns to the result."""


def _pair(b: Builder, r: Value, tail: Value) -> tuple[Value, Value]:
    """Return sine and cosine of ``r + tail``."""
    t = r.type
    z = b.fmul(r, r)
    half = b.fmul(z, const(t, 0.5))
    one = const(t, 1.0)
    cubic = b.fmul(b.fmul(r, z), horner(b, z, SIN))
    sine = b.fadd(r, fma(b, tail, b.fsub(one, half), cubic))
    whole = b.fsub(one, half)
    lost = b.fsub(b.fsub(one, whole), half)
    rest = fma(b, b.fmul(z, z), horner(b, z, COS), b.fmul(b.fneg(r), tail))
    return sine, b.fadd(whole, b.fadd(lost, rest))


def _pair_lite(b: Builder, r: Value) -> tuple[Value, Value]:
    z = b.fmul(r, r)
    sine = fma(b, b.fmul(r, z), horner(b, z, SIN_LITE), r)
    return sine, fma(b, b.fmul(z, z), horner(b, z, COS_LITE), fma(b, z, -0.5, 1.0))


def _pair_single(b: Builder, r: Value) -> tuple[Value, Value]:
    t = r.type
    z = b.fmul(r, r)
    sine = fma(b, b.fmul(r, z), horner(b, z, SIN_SINGLE), r)
    half = b.fmul(z, const(t, 0.5))
    whole = b.fsub(const(t, 1.0), half)
    lost = b.fsub(b.fsub(const(t, 1.0), whole), half)
    return sine, b.fadd(whole, fma(b, b.fmul(z, z), horner(b, z, COS_SINGLE), lost))


# -- combining sine and cosine -----------------------------------------------------------------
def _odd(b: Builder, n: Value) -> Value:
    return b.icmp("ne", b.and_(n, const(n.type, 1)), const(n.type, 0))


def _sine(b: Builder, sine: Value, cosine: Value, n: Value) -> Value:
    t = n.type
    chosen = b.select(_odd(b, n), cosine, sine)
    sign = b.shl(b.and_(n, const(t, 2)), const(t, t.bits - 2))
    return b.bitcast(b.xor(b.bitcast(chosen, t), sign), chosen.type)


def _cosine(b: Builder, sine: Value, cosine: Value, n: Value) -> Value:
    return _sine(b, sine, cosine, b.add(n, const(n.type, 1)))


def _tangent(b: Builder, sine: Value, cosine: Value, n: Value) -> Value:
    odd = _odd(b, n)
    above = b.select(odd, b.fneg(cosine), sine)
    return b.fdiv(above, b.select(odd, sine, cosine))


# -- on doubles, and on floats through doubles -------------------------------------------------
def _emit_for_doubles(b: Builder, name: str, x: Value, join: _Join) -> Value:
    def slow(b: Builder, args: Sequence[Value]) -> Value:
        r, tail, n = reduce_far(b, args[0])
        return join(b, *_pair(b, r, tail), n)

    r, tail, n = reduce_angle(b, x)
    near = join(b, *_pair(b, r, tail), n)
    return rarely(b, name, [x], _keep_zero(b, x, near, join), far, slow)


def _slow_float(join: _Join) -> Scalar:
    def slow(b: Builder, args: Sequence[Value]) -> Value:
        r, _, n = reduce_far(b, b.fpext(args[0], DOUBLE))
        return b.fptrunc(join(b, *_pair_lite(b, r), n), args[0].type)

    return slow


def _emit_for_floats(b: Builder, name: str, x: Value, join: _Join) -> Value:
    r, n = reduce_single(b, x)
    near = join(b, *_pair_single(b, r), n)
    return rarely(b, name, [x], _keep_zero(b, x, near, join), far, _slow_float(join))


def _keep_zero(b: Builder, x: Value, result: Value, join: _Join) -> Value:
    """Restore the sign of zero, which subtracting zero turns has lost."""
    if join is _cosine:
        return result
    return b.select(b.fcmp("oeq", x, const(x.type, 0.0)), x, result)


def sin(b: Builder, x: Value) -> Value:
    """Emit the sine of doubles."""
    return _emit_for_doubles(b, "sin", x, _sine)


def cos(b: Builder, x: Value) -> Value:
    """Emit the cosine of doubles."""
    return _emit_for_doubles(b, "cos", x, _cosine)


def tan(b: Builder, x: Value) -> Value:
    """Emit the tangent of doubles."""
    return _emit_for_doubles(b, "tan", x, _tangent)


def sin_single(b: Builder, x: Value) -> Value:
    """Emit the sine of floats."""
    return _emit_for_floats(b, "sin", x, _sine)


def cos_single(b: Builder, x: Value) -> Value:
    """Emit the cosine of floats."""
    return _emit_for_floats(b, "cos", x, _cosine)


def tan_single(b: Builder, x: Value) -> Value:
    """Emit the tangent of floats: that of the reduced angle, or -1 divided by it."""
    t = x.type
    r, tail, n = reduce_angle(b, x)
    z = b.fmul(r, r)
    low = fma(b, b.fmul(r, z), horner(b, z, TAN_SINGLE), fma(b, z, tail, tail))
    found = b.fadd(r, low)
    odd = _odd(b, n)
    above = b.select(odd, const(t, -1.0), found)
    near = b.fdiv(above, b.select(odd, found, const(t, 1.0)))
    near = _keep_zero(b, x, near, _tangent)
    return rarely(b, "tan", [x], near, far, _slow_float(_tangent))
