"""Element-wise operators of one operand.

16-bit floats are computed in float32 and rounded once. NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from math import sqrt as root
from typing import TypeAlias

from loomir.support.dtype import DataType
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import (
    as_axis,
    dims,
    has_equal_sizes,
    make,
    need,
    refuse_shapes,
    widen,
)
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import LT, Max, Min, Not, PrimExpr, const
from loomir.tir.expr import cast as converted

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "elu",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu",
    "gelu_tanh",
    "hardsigmoid",
    "hardswish",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "leaky_relu",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "mish",
    "negative",
    "prelu",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

Scalar: TypeAlias = Callable[[PrimExpr], PrimExpr]
Operator: TypeAlias = Callable[[Tensor], Tensor]


def _operator(name: str, kind: str, scalar: Scalar, summary: str) -> Operator:
    """Make an operator of a function of scalars."""

    def operator(x: Tensor) -> Tensor:
        need(name, kind, x)
        return make(name, dims(x), lambda *i: scalar(x(*i)))

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"{summary}\n\nShapes: that of ``x``."
    return operator


def _wide(scalar: Scalar) -> Scalar:
    """Compute in float32 what has 16 bits."""
    return lambda v: converted(scalar(widen(v)), v.dtype)


def _builtin(name: str) -> Scalar:
    return lambda v: call_builtin(name, v)


def _float(name: str, summary: str) -> Operator:
    return _operator(name, "float", _wide(_builtin(name)), summary)


def _make_operator(name: str, scalar: Scalar, summary: str, kind: str = "float") -> Operator:
    return _operator(name, kind, _wide(scalar), summary)


def _test(name: str, otherwise: bool, summary: str) -> Operator:
    def scalar(v: PrimExpr) -> PrimExpr:
        return call_builtin(name, v) if v.dtype.is_float else const(otherwise, "bool")

    return _operator(name, "number", scalar, summary)


def _make_rounding(name: str, summary: str) -> Operator:
    """Make an operator that rounds; integers are whole already."""

    def scalar(v: PrimExpr) -> PrimExpr:
        return call_builtin(name, v) if v.dtype.is_float else v

    return _operator(name, "number", scalar, summary)


# -- functions of floats ---------------------------------------------------------------------
exp = _float("exp", "Raise e to the power of each element.")
exp2 = _float("exp2", "Raise 2 to the power of each element.")
log = _float("log", "Compute natural logarithms.")
log2 = _float("log2", "Compute logarithms to base 2.")
log10 = _float("log10", "Compute logarithms to base 10.")
log1p = _float("log1p", "Compute natural logarithms of 1 + x, exact near 0.")
sqrt = _float("sqrt", "Compute square roots.")
rsqrt = _float("rsqrt", "Compute reciprocal square roots.")
sin = _float("sin", "Compute sines.")
cos = _float("cos", "Compute cosines.")
tan = _float("tan", "Compute tangents.")
sinh = _float("sinh", "Compute hyperbolic sines.")
cosh = _float("cosh", "Compute hyperbolic cosines.")
tanh = _float("tanh", "Compute hyperbolic tangents.")
asin = _float("asin", "Compute inverse sines.")
acos = _float("acos", "Compute inverse cosines.")
atan = _float("atan", "Compute inverse tangents.")
asinh = _float("asinh", "Compute inverse hyperbolic sines.")
acosh = _float("acosh", "Compute inverse hyperbolic cosines.")
atanh = _float("atanh", "Compute inverse hyperbolic tangents.")
erf = _float("erf", "Apply the error function.")
sigmoid = _float("sigmoid", "Compute 1 / (1 + exp(-x)).")


def _expm1(v: PrimExpr) -> PrimExpr:
    # Near 0 the rounding of exp(x) is undone by that of its logarithm (Kahan).
    up = call_builtin("exp", v)
    less = up - 1.0
    exact = less * v / call_builtin("log", up)
    ordinary = select((up > 0.0), select(up.equal(1.0), v, exact), less)
    return select(call_builtin("isinf", up), up, ordinary)


expm1 = _make_operator("expm1", _expm1, "Compute exp(x) - 1, exact near 0.")
reciprocal = _make_operator("reciprocal", lambda v: 1.0 / v, "Divide 1 by each element.")

# -- numbers ---------------------------------------------------------------------------------
abs = _operator(  # noqa: A001 - the name of the field
    "abs",
    "number",
    lambda v: v if v.dtype.is_uint else call_builtin("abs", v),
    "Compute absolute values.",
)
negative = _operator(
    "negative",
    "number",
    lambda v: v * const(-1, v.dtype) if v.dtype.is_float else const(0, v.dtype) - v,
    "Negate elements; integers wrap.",
)
square = _operator("square", "number", lambda v: v * v, "Multiply each element by itself.")
floor = _make_rounding("floor", "Round towards minus infinity.")
ceil = _make_rounding("ceil", "Round towards plus infinity.")
trunc = _make_rounding("trunc", "Round towards zero.")
round = _make_rounding("round", "Round to the nearest whole number, halves to even.")  # noqa: A001
isnan = _test("isnan", False, "Test which elements are NaN.")
isinf = _test("isinf", False, "Test which elements are infinite.")
isfinite = _test("isfinite", True, "Test which elements are neither infinite nor NaN.")


def _sign(v: PrimExpr) -> PrimExpr:
    zero, one = const(0, v.dtype), const(1, v.dtype)
    if v.dtype.is_uint:
        return select(v > zero, one, zero)
    other = select(v < zero, const(-1, v.dtype), zero)
    if v.dtype.is_float:
        other = select(call_builtin("isnan", v), v, other)
    return select(v > zero, one, other)


sign = _operator("sign", "number", _sign, "Return the sign: -1, 0 or 1.")
logical_not = _operator("logical_not", "bool", Not, "Negate truth values.")


def _bitwise_not(v: PrimExpr) -> PrimExpr:
    return Not(v) if v.dtype.is_bool else call_builtin("bitwise_not", v)


bitwise_not = _operator("bitwise_not", "bits", _bitwise_not, "Invert all bits.")
identity = _operator("identity", "any", lambda v: v, "Copy a tensor.")


def cast(x: Tensor, dtype: str | DataType) -> Tensor:
    """Convert elements to ``dtype``: floats are truncated to integers, and saturate.

    Shapes: that of ``x``.
    """
    wanted = DataType(str(dtype))
    return make("cast", dims(x), lambda *i: converted(x(*i), wanted))


def clip(x: Tensor, low: float | int | None = None, high: float | int | None = None) -> Tensor:
    """Clip elements to a range; if ``low`` is above ``high``, all become ``high``.

    Shapes: that of ``x``. Errors: TE0103 for truths.
    """
    need("clip", "number", x)

    def scalar(v: PrimExpr) -> PrimExpr:
        v = v if low is None else Max(v, const(low, v.dtype))
        return v if high is None else Min(v, const(high, v.dtype))

    return make("clip", dims(x), lambda *i: scalar(x(*i)))


# -- activations -----------------------------------------------------------------------------
def _clamp(v: PrimExpr, low: float, high: float) -> PrimExpr:
    return Min(Max(v, const(low, v.dtype)), const(high, v.dtype))


def _log1p_exp(v: PrimExpr) -> PrimExpr:
    """Compute log(1 + exp(v)) where neither overflows."""
    small = call_builtin("exp", call_builtin("abs", v) * -1.0)
    return Max(v, const(0, v.dtype)) + call_builtin("log1p", small)


def _expm1_of_negative(v: PrimExpr) -> PrimExpr:
    return _expm1(Min(v, const(0, v.dtype)))


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946

relu = _operator(
    "relu", "number", lambda v: Max(v, const(0, v.dtype)), "Take the greater of x and 0."
)
gelu = _make_operator(
    "gelu",
    lambda v: v * 0.5 * (call_builtin("erf", v * (1 / root(2))) + 1.0),
    "Compute x times the normal distribution's probability below x.",
)
gelu_tanh = _make_operator(
    "gelu_tanh",
    lambda v: v * 0.5 * (call_builtin("tanh", (v + v * v * v * 0.044715) * root(2 / pi)) + 1.0),
    "Approximate gelu by a hyperbolic tangent.",
)
silu = _make_operator("silu", lambda v: v * call_builtin("sigmoid", v), "Compute x * sigmoid(x).")
softsign = _make_operator(
    "softsign", lambda v: v / (call_builtin("abs", v) + 1.0), "Compute x / (1 + abs(x))."
)
mish = _make_operator(
    "mish", lambda v: v * call_builtin("tanh", _log1p_exp(v)), "Compute x * tanh(softplus(x))."
)
hardsigmoid = _make_operator(
    "hardsigmoid",
    lambda v: _clamp(v / 6.0 + 0.5, 0.0, 1.0),
    "Compute x / 6 + 1/2, brought between 0 and 1.",
)
hardswish = _make_operator(
    "hardswish", lambda v: v * _clamp(v / 6.0 + 0.5, 0.0, 1.0), "Compute x * hardsigmoid(x)."
)
selu = _make_operator(
    "selu",
    lambda v: select(v > 0.0, v, _expm1_of_negative(v) * _SELU_ALPHA) * _SELU_SCALE,
    "Compute the scaled elu of self-normalising networks.",
)


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """Multiply negative elements by ``alpha``.

    Shapes: that of ``x``.
    """
    return _make_operator(
        "leaky_relu", lambda v: select(LT(v, const(0, v.dtype)), v * alpha, v), ""
    )(x)


def prelu(x: Tensor, alpha: Tensor, axis: int = 1) -> Tensor:
    """Multiply negative elements by the slope of their channel, which ``alpha`` has.

    Shapes: that of ``x``; ``alpha`` has its extent at ``axis``. Errors: TE0101 to TE0103.
    """
    need("prelu", "float", x, alpha)
    channel = as_axis("prelu", axis, x.ndim)
    if alpha.ndim != 1 or not has_equal_sizes(dims(alpha)[0], dims(x)[channel]):
        refuse_shapes("prelu", dims(x), dims(alpha))

    def element(*i: PrimExpr) -> PrimExpr:
        value, slope = widen(x(*i)), widen(alpha(i[channel]))
        return converted(select(LT(value, const(0, value.dtype)), value * slope, value), x.dtype)

    made: Tensor = make("prelu", dims(x), element)
    return made


def softplus(x: Tensor, beta: float = 1.0, threshold: float | None = None) -> Tensor:
    """Compute log(1 + exp(beta * x)) / beta; x itself where beta * x is above ``threshold``.

    Shapes: that of ``x``.
    """

    def scalar(v: PrimExpr) -> PrimExpr:
        scaled = v if beta == 1 else v * beta
        made = _log1p_exp(scaled)
        made = made if beta == 1 else made / beta
        return made if threshold is None else select(scaled > threshold, v, made)

    return _make_operator("softplus", scalar, "")(x)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Replace negative elements by ``alpha * (exp(x) - 1)``.

    Shapes: that of ``x``.
    """
    return _make_operator("elu", lambda v: select(v > 0.0, v, _expm1_of_negative(v) * alpha), "")(x)
