"""Element-wise operators of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Infer, Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import scalar, tensor
from loomir.relax.operator.reference import NPArray, elementwise, greater, is_float, lesser
from loomir.relax.operator.rules import common_dtype, need, operand
from loomir.relax.struct_info import PrimStructInfo, TensorStructInfo
from loomir.support.dtype import BOOL
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.tir.builtins.accuracy import ulp_tolerance
from loomir.tir.expr import PrimExpr

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "logical_not",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]


# -- inference -------------------------------------------------------------------------------
def _like_input(kind: str) -> Infer:
    """Infer a result of the input's shape, dtype and device, the dtype being of a kind."""

    def infer(c: OpContext) -> StructInfo:
        info = c.tensor(0)
        need(c, kind, info.dtype)
        return info

    return infer


def _truths(c: OpContext) -> StructInfo:
    """Infer a result of the input's shape and device, that says yes or no."""
    info = c.tensor(0)
    need(c, "number", info.dtype)
    return TensorStructInfo(info.shape, BOOL, info.vdevice, info.ndim)


# -- samples ---------------------------------------------------------------------------------
_WRONG = {
    "float": TensorSample((2,), "int32"),
    "number": TensorSample((2,), "bool"),
    "bits": TensorSample((2,), "float32"),
    "bool": TensorSample((2,), "int32"),
}


def _samples(kind: str, low: float, high: float, ulps: float) -> list[Sample]:
    wide, other = {
        "float": ("float32", "float64"),
        "number": ("float32", "int8"),
        "bits": ("int32", "bool"),
        "bool": ("bool", "bool"),
    }[kind]
    return [
        Sample((TensorSample((2, 3), wide, low, high),), ulps=ulps),
        Sample((TensorSample((), other, low, high),), ulps=ulps),
        Sample((TensorSample((0, 4), wide),), ulps=ulps),
    ]


def _define(
    name: str,
    doc: str,
    compute: Callable[[Any], Any],
    *,
    kind: str = "float",
    bounds: tuple[float, float] = (-2.0, 2.0),
    ulps: float = 0,
    infer: Infer | None = None,
) -> Callable[..., Any]:
    """Define an operator that computes each element of one."""
    return define_op(
        name,
        tensor("x"),
        infer=_like_input(kind) if infer is None else infer,
        doc=doc,
        family="unary",
        lower=getattr(topi, name),
        reference=elementwise(compute),
        samples=_samples(kind, *bounds, ulps),
        mistakes=(
            Mistake((None,), {}, "OPS0003"),
            Mistake((1,), {}, "OPS0004"),
            Mistake((_WRONG[kind],), {}, "OPS0007"),
        ),
        elementwise=True,
    )


# -- functions of floats -----------------------------------------------------------------------
def _precise(compute: Callable[[NPArray], Any]) -> Callable[[NPArray], Any]:
    """Compute float32 in float64, so that the result is the nearest."""

    def compute_precisely(x: NPArray) -> NPArray:
        return np.asarray(compute(x.astype("float64"))).astype(x.dtype)

    return compute_precisely


def _function(
    name: str, doc: str, compute: Callable[[Any], Any], low: float = -2.0, high: float = 2.0
) -> Callable[..., Any]:
    return _define(name, doc, _precise(compute), bounds=(low, high), ulps=ulp_tolerance(name))


def _sigmoid(x: NPArray) -> Any:
    # On each side the exponential that cannot overflow.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


exp = _function("exp", "Raise e to the power of each element.", np.exp)
log = _function(
    "log", "Compute natural logarithms; of negative numbers they are NaN.", np.log, 0.1, 9
)
sqrt = _function(
    "sqrt", "Compute square roots; of negative numbers they are NaN.", np.sqrt, 0.0, 9.0
)
rsqrt = _function("rsqrt", "Compute reciprocal square roots.", lambda x: 1 / np.sqrt(x), 0.1, 9.0)
sin = _function("sin", "Compute sines.", np.sin)
cos = _function("cos", "Compute cosines.", np.cos)
tan = _function("tan", "Compute tangents.", np.tan)
sinh = _function("sinh", "Compute hyperbolic sines.", np.sinh)
cosh = _function("cosh", "Compute hyperbolic cosines.", np.cosh)
tanh = _function("tanh", "Compute hyperbolic tangents.", np.tanh)
asin = _function("asin", "Compute inverse sines; NaN beyond 1 and -1.", np.arcsin, -1.0, 1.0)
acos = _function("acos", "Compute inverse cosines; NaN beyond 1 and -1.", np.arccos, -1.0, 1.0)
atan = _function("atan", "Compute inverse tangents.", np.arctan)
asinh = _function("asinh", "Compute inverse hyperbolic sines.", np.arcsinh)
acosh = _function("acosh", "Compute inverse hyperbolic cosines; NaN below 1.", np.arccosh, 1.0, 9.0)
atanh = _function(
    "atanh", "Compute inverse hyperbolic tangents; NaN beyond 1 and -1.", np.arctanh, -0.9, 0.9
)
erf = _function("erf", "Apply the error function.", np.vectorize(math.erf, otypes=["float64"]))
sigmoid = _function("sigmoid", "Compute 1 / (1 + exp(-x)).", _sigmoid)


# -- numbers ---------------------------------------------------------------------------------
def _round_floats(rounded: Callable[[Any], Any]) -> Callable[[NPArray], Any]:
    return lambda x: rounded(x) if is_float(x.dtype) else x


abs = _define(  # noqa: A001 - the name users know
    "abs",
    "Compute absolute values; that of the least integer wraps to itself.",
    np.abs,
    kind="number",
)
negative = _define("negative", "Negate each element; integers wrap.", np.negative, kind="number")
square = _define(
    "square", "Multiply each element by itself; integers wrap.", np.square, kind="number"
)
sign = _define("sign", "Return the sign: -1, 0 or 1; NaN stays.", np.sign, kind="number")
floor = _define("floor", "Round towards minus infinity.", _round_floats(np.floor), kind="number")
ceil = _define("ceil", "Round towards plus infinity.", _round_floats(np.ceil), kind="number")
trunc = _define("trunc", "Round towards zero.", _round_floats(np.trunc), kind="number")
round = _define(  # noqa: A001 - the name users know
    "round",
    "Round to the nearest whole number, halves to even.",
    _round_floats(np.rint),
    kind="number",
)
isnan = _define("isnan", "Test which elements are NaN.", np.isnan, kind="number", infer=_truths)
isinf = _define(
    "isinf", "Test which elements are infinite.", np.isinf, kind="number", infer=_truths
)
isfinite = _define(
    "isfinite",
    "Test which elements are neither infinite nor NaN.",
    np.isfinite,
    kind="number",
    infer=_truths,
)
logical_not = _define("logical_not", "Negate truth values.", np.logical_not, kind="bool")
bitwise_not = _define("bitwise_not", "Invert all bits.", np.invert, kind="bits")


# -- clip --------------------------------------------------------------------------------------
def _infer_clip(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    need(c, "number", info.dtype)
    for i in (1, 2):
        if not isinstance(operand(c, i), PrimStructInfo):
            c.prim(i)
    common_dtype(c, (0, 1, 2))
    return info


def _clip(x: NPArray, low: NPArray, high: NPArray) -> NPArray:
    return lesser(greater(x, low), high)


def _lower_clip(x: Tensor, low: PrimExpr, high: PrimExpr) -> Tensor:
    return topi.minimum(topi.maximum(x, low), high)


clip = define_op(
    "clip",
    tensor("x"),
    scalar("min"),
    scalar("max"),
    infer=_infer_clip,
    doc="Clip elements to a range; if ``min`` is above ``max``, all become ``max``."
    "\n\nThe scalars are plain numbers, or scalars of the dtype of ``x``. NaN stays.",
    family="unary",
    lower=_lower_clip,
    reference=elementwise(_clip),
    samples=(
        Sample((TensorSample((2, 3)), -1.0, 0.5)),
        Sample((TensorSample((), "int8", -100, 100), -3, 100)),
        Sample((TensorSample((4,), "float16"), 1, 0)),
        Sample((TensorSample((0,)), 0.1, 0.2)),
    ),
    mistakes=(
        Mistake((TensorSample((2,), "bool"), 0, 1), {}, "OPS0007"),
        Mistake((TensorSample((2,), "int32"), 0.5, 1), {}, "OPS0006"),
        Mistake((TensorSample((2,)), TensorSample((2,)), 1), {}, "OPS0004"),
        Mistake((TensorSample((2,)), 1), {}, "OPS0001"),
    ),
    elementwise=True,
)
