"""The table of TIR's math functions, with the function that emits each.

``MATH`` has a row for each name; ``emit_math`` emits one for values of a dtype. 16-bit floats are
computed in float32 and rounded; functions on the bits of floats are exact in every format. Nothing
here calls the C library. ``tir.builtins.accuracy`` bounds the errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT, I32, integer
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math import (
    error,
    exponential,
    hyperbolic,
    inverse,
    logarithm,
    power,
    remainder,
    trigonometry,
)
from loomir.codegen.llvm.math.bits import copysign_bits, ldexp, nextafter_bits
from loomir.codegen.llvm.math.floats import cast, narrow, register_type, widen
from loomir.codegen.llvm.math.parts import absolute
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType

__all__ = ["MATH", "MathKernel", "emit_math"]

Unary = Callable[[Builder, Value], Value]
Emit = Callable[[Builder, Sequence[Value]], Value]


class MathKernel(NamedTuple):
    """The emitters of one math function, for floats and for doubles."""

    name: str
    arity: int
    single: Emit
    double: Emit


MATH: Final[dict[str, MathKernel]] = {}
"""Functions that round, by their names in TIR; those on bits (``_SPECIAL``) are exact."""


def _wide(emit: Callable[..., Value]) -> Emit:
    """Turn a kernel for doubles into one for floats, which computes in double."""

    def narrow(b: Builder, args: Sequence[Value]) -> Value:
        t = args[0].type
        wide = [b.fpext(a, DOUBLE.with_lanes(t.lanes)) for a in args]
        return b.fptrunc(emit(b, *wide), t)

    return narrow


def _plain(emit: Callable[..., Value]) -> Emit:
    return lambda b, args: emit(b, *args)


def _intrinsic(name: str) -> Emit:
    return lambda b, args: b.intrinsic(name, args)


def _row(name: str, single: Emit, double: Callable[..., Value], *, arity: int = 1) -> None:
    MATH[name] = MathKernel(name, arity, single, _plain(double))


def _add_for_both(name: str, emit: Callable[..., Value], *, arity: int = 1) -> None:
    _row(name, _plain(emit), emit, arity=arity)


# name, the kernel for floats, the kernel for doubles
_add_for_both("exp", exponential.exp)
_add_for_both("exp2", exponential.exp2)
_add_for_both("exp10", exponential.exp10)
_add_for_both("sigmoid", exponential.sigmoid)
_add_for_both("log", logarithm.log)
_add_for_both("log2", logarithm.log2)
_add_for_both("log10", logarithm.log10)
_add_for_both("log1p", logarithm.log1p)
_add_for_both("tanh", hyperbolic.tanh)
_add_for_both("sinh", hyperbolic.sinh)
_add_for_both("cosh", hyperbolic.cosh)
_add_for_both("asinh", hyperbolic.asinh)
_add_for_both("acosh", hyperbolic.acosh)
_add_for_both("atanh", hyperbolic.atanh)
_row("sin", _plain(trigonometry.sin_single), trigonometry.sin)
_row("cos", _plain(trigonometry.cos_single), trigonometry.cos)
_row("tan", _plain(trigonometry.tan_single), trigonometry.tan)
_add_for_both("asin", inverse.asin)
_add_for_both("acos", inverse.acos)
_add_for_both("atan", inverse.atan)
_add_for_both("atan2", inverse.atan2, arity=2)
_add_for_both("erf", error.erf)
_add_for_both("pow", power.pow_, arity=2)
_row("hypot", _wide(power.hypot_lite), power.hypot, arity=2)
_add_for_both("rsqrt", power.rsqrt)
_add_for_both("fmod", remainder.fmod, arity=2)
for _name, _code in {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    # To nearest, ties to even: the rounding mode of the process.
    "round": "nearbyint",
    "nearbyint": "nearbyint",
}.items():
    MATH[_name] = MathKernel(_name, 1, *[_intrinsic(f"llvm.{_code}")] * 2)

# On the bits, for any width.
_INFINITY: Final = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000}
_INFINITY64: Final = 0x7FF0000000000000


def emit_math(b: Builder, name: str, args: Sequence[Value], dtype: DataType) -> Value:
    """Emit the function ``name`` on values of a float dtype, with a result of the same dtype.

    For ``ldexp`` the second argument is ``i32``; the result of ``isnan``, ``isinf`` and
    ``isfinite`` is ``i1``. The builder may be in another block afterwards.
    Errors: InternalError for an unknown name, or values that are not of the dtype.
    """
    wanted = register_type(dtype)
    powers = name == "ldexp"
    if not dtype.is_float or any(a.type is not wanted for a in (args[:1] if powers else args)):
        raise InternalError(f"{name} takes {dtype}, not {', '.join(a.typed for a in args)}")
    special = _SPECIAL.get(name)
    if special is not None:
        arity, emit = special
        if len(args) != arity:
            raise InternalError(f"{name} takes {arity} arguments, not {len(args)}")
        return emit(b, args, dtype)
    kernel = MATH.get(name)
    if kernel is None or len(args) != kernel.arity:
        raise InternalError(f"no math function {name!r} of {len(args)} arguments")
    fixed = _find_fixed_power(args[1]) if name == "pow" else None
    if fixed is not None:
        return narrow(b, fixed(b, widen(b, args[0], dtype)), dtype)
    wide = [widen(b, a, dtype) for a in args]
    chosen = kernel.single if wide[0].type.element is FLOAT else kernel.double
    return narrow(b, chosen(b, wide), dtype)


def _find_fixed_power(exponent: Value) -> Callable[[Builder, Value], Value] | None:
    if not exponent.type.is_float:  # a bfloat16 is passed as its bits
        return None
    texts = {const(exponent.type, by).text: emit for by, emit in power.FIXED_POWERS.items()}
    return texts.get(exponent.text)


def _as_bits(b: Builder, x: Value) -> Value:
    return b.bitcast(x, integer(x.type.bits).with_lanes(x.type.lanes))


def _emit_nextafter(b: Builder, args: Sequence[Value], dtype: DataType) -> Value:
    x, y = (_as_bits(b, a) for a in args)
    infinity = _INFINITY.get(str(dtype.element), _INFINITY64)
    return b.bitcast(nextafter_bits(b, x, y, infinity), register_type(dtype))


def _emit_copysign(b: Builder, args: Sequence[Value], dtype: DataType) -> Value:
    x, y = (_as_bits(b, a) for a in args)
    return b.bitcast(copysign_bits(b, x, y), register_type(dtype))


def _emit_abs(b: Builder, args: Sequence[Value], dtype: DataType) -> Value:
    bits = _as_bits(b, args[0])
    t = bits.type
    return b.bitcast(b.and_(bits, const(t, (1 << (t.bits - 1)) - 1)), register_type(dtype))


def _emit_ldexp(b: Builder, args: Sequence[Value], dtype: DataType) -> Value:
    x, e = args
    if e.type is not I32.with_lanes(dtype.lanes):
        raise InternalError(f"ldexp takes i32, not {e.typed}")
    if dtype.bits == 16:
        # Through double, so that a subnormal float is not rounded twice.
        wide = DataType("float64").with_lanes(dtype.lanes)
        return cast(b, ldexp(b, cast(b, x, dtype, wide), e), wide, dtype)
    return ldexp(b, x, e)


def _classify(b: Builder, args: Sequence[Value], dtype: DataType, *, test: str) -> Value:
    x = widen(b, args[0], dtype)
    if test == "isnan":
        return b.fcmp("uno", x, x)
    predicate = "oeq" if test == "isinf" else "olt"
    return b.fcmp(predicate, absolute(b, x), const(x.type, float("inf")))


_SPECIAL: Final[dict[str, tuple[int, Callable[[Builder, Sequence[Value], DataType], Value]]]] = {
    "nextafter": (2, _emit_nextafter),
    "copysign": (2, _emit_copysign),
    "abs": (1, _emit_abs),
    "ldexp": (2, _emit_ldexp),
    **{n: (1, functools.partial(_classify, test=n)) for n in ("isnan", "isinf", "isfinite")},
}
