"""Scalar functions in tensor expressions; math functions convert integers to float32."""

from __future__ import annotations

from functools import reduce

from loomir.support.caller_span import located
from loomir.support.dtype import DataType
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import And, ExprLike, Or, PrimExpr, Select, cast, convert, match_dtypes
from loomir.tir.expr import const as constant

__all__ = [
    "abs",
    "all_of",
    "any_of",
    "ceil",
    "const",
    "cos",
    "erf",
    "exp",
    "exp2",
    "floor",
    "if_then_else",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "max_value",
    "min_value",
    "power",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sin",
    "sqrt",
    "tanh",
    "trunc",
]


def _float(value: ExprLike) -> PrimExpr:
    made = convert(value)
    return made if made.dtype.is_float else cast(made, DataType("float32"))


def _call(name: str, *args: PrimExpr) -> PrimExpr:
    with located():
        return call_builtin(name, *args)


def const(value: int | float | bool, dtype: str | DataType = "int32") -> PrimExpr:
    """Make a constant of ``dtype``."""
    return constant(value, DataType(str(dtype)))


def if_then_else(condition: ExprLike, then: ExprLike, other: ExprLike) -> PrimExpr:
    """Return one of two values by a condition; the other is not evaluated."""
    return _call("if_then_else", convert(condition), *match_dtypes(then, other))


def select(condition: ExprLike, then: ExprLike, other: ExprLike) -> PrimExpr:
    """Return one of two values by a condition; both are evaluated."""
    with located():
        return Select(convert(condition), *match_dtypes(then, other))


def all_of(*conditions: ExprLike) -> PrimExpr:
    """Return whether all conditions hold, with short-circuit evaluation."""
    with located():
        return reduce(And, map(convert, conditions)) if conditions else const(True, "bool")


def any_of(*conditions: ExprLike) -> PrimExpr:
    """Return whether any condition holds, with short-circuit evaluation."""
    with located():
        return reduce(Or, map(convert, conditions)) if conditions else const(False, "bool")


def power(base: ExprLike, exponent: ExprLike) -> PrimExpr:
    """Return ``base`` to the power ``exponent``, as floats."""
    return _call("pow", *match_dtypes(_float(base), exponent))


def abs(x: ExprLike) -> PrimExpr:  # noqa: A001 - the name of the field
    """Return the absolute value of x."""
    return _call("abs", convert(x))


def min_value(dtype: str | DataType) -> PrimExpr:
    """Return the least finite value of a dtype."""
    kind = DataType(str(dtype))
    return constant(-kind.max_finite if kind.is_float else kind.min_value, kind)


def max_value(dtype: str | DataType) -> PrimExpr:
    """Return the greatest finite value of a dtype."""
    kind = DataType(str(dtype))
    return constant(kind.max_finite if kind.is_float else kind.max_value, kind)


def exp(x: ExprLike) -> PrimExpr:
    """Return e to the power x."""
    return _call("exp", _float(x))


def exp2(x: ExprLike) -> PrimExpr:
    """Return 2 to the power x."""
    return _call("exp2", _float(x))


def log(x: ExprLike) -> PrimExpr:
    """Return the natural logarithm."""
    return _call("log", _float(x))


def log2(x: ExprLike) -> PrimExpr:
    """Return the logarithm to base 2."""
    return _call("log2", _float(x))


def sqrt(x: ExprLike) -> PrimExpr:
    """Return the square root."""
    return _call("sqrt", _float(x))


def rsqrt(x: ExprLike) -> PrimExpr:
    """Return reciprocal of the square root."""
    return _call("rsqrt", _float(x))


def tanh(x: ExprLike) -> PrimExpr:
    """Return the hyperbolic tangent."""
    return _call("tanh", _float(x))


def sigmoid(x: ExprLike) -> PrimExpr:
    """Return 1 / (1 + exp(-x))."""
    return _call("sigmoid", _float(x))


def erf(x: ExprLike) -> PrimExpr:
    """Return the error function."""
    return _call("erf", _float(x))


def sin(x: ExprLike) -> PrimExpr:
    """Return the sine."""
    return _call("sin", _float(x))


def cos(x: ExprLike) -> PrimExpr:
    """Return the cosine."""
    return _call("cos", _float(x))


def floor(x: ExprLike) -> PrimExpr:
    """Round x down to an integer."""
    return _call("floor", _float(x))


def ceil(x: ExprLike) -> PrimExpr:
    """Round x up to an integer."""
    return _call("ceil", _float(x))


def trunc(x: ExprLike) -> PrimExpr:
    """Round x towards zero."""
    return _call("trunc", _float(x))


def round(x: ExprLike) -> PrimExpr:  # noqa: A001 - the name of the field
    """Round x to the nearest integer, halves to even."""
    return _call("round", _float(x))


def isnan(x: ExprLike) -> PrimExpr:
    """Return whether x is NaN."""
    return _call("isnan", _float(x))


def isinf(x: ExprLike) -> PrimExpr:
    """Return whether x is infinite."""
    return _call("isinf", _float(x))


def isfinite(x: ExprLike) -> PrimExpr:
    """Return whether x is neither infinite nor NaN."""
    return _call("isfinite", _float(x))
