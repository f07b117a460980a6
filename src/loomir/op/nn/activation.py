"""Activation functions, element-wise or along an axis (softmax)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loomir.op.rules.arguments import as_floats, must_equal, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Infer, Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import Param, integer, number, tensor
from loomir.relax.operator.reference import NPArray, elementwise, greater, is_float, xp
from loomir.relax.operator.rules import common_device, common_dtype, need
from loomir.relax.struct_info import TensorStructInfo
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims

__all__ = [
    "gelu",
    "gelu_tanh",
    "leakyrelu",
    "log_softmax",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softplus",
]

_X = TensorSample((2, 3))


# -- one element at a time -----------------------------------------------------------------------
def _like_input(kind: str) -> Infer:
    def infer(c: OpContext) -> StructInfo:
        info = c.tensor(0)
        need(c, kind, info.dtype)
        return info

    return infer


def _precise(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Compute float32 in float64, so that the result is the nearest."""

    def compute_precisely(x: NPArray, **options: Any) -> NPArray:
        return np.asarray(compute(x.astype("float64"), **options)).astype(x.dtype)

    return compute_precisely


def _define(
    name: str,
    doc: str,
    lower: Callable[..., Tensor],
    compute: Callable[..., Any],
    *options: Param,
    kind: str = "float",
    samples: Sequence[Sample] = (),
    mistakes: Sequence[Mistake] = (),
    ulps: float = 0,
    absolute: float = 0.0,
) -> Callable[..., Any]:
    """Define an operator that computes each element of one."""
    wrong = TensorSample((2,), "int32" if kind == "float" else "bool")
    return define_op(
        f"nn.{name}",
        tensor("data"),
        *options,
        infer=_like_input(kind),
        doc=doc,
        family="activation",
        lower=lower,
        reference=elementwise(compute),
        samples=(
            Sample((TensorSample((2, 5), low=-4, high=4),), ulps=ulps, absolute=absolute),
            Sample((TensorSample((), "float64"),), ulps=ulps, absolute=absolute),
            Sample((TensorSample((0, 4)),), ulps=ulps),
            *samples,
        ),
        mistakes=(
            Mistake((wrong,), {}, "OPS0007"),
            Mistake((1,), {}, "OPS0004"),
            *mistakes,
        ),
        elementwise=True,
        adapt=as_floats(*[option.name for option in options]),
    )


def _relu(x: NPArray) -> Any:
    return greater(x, x.dtype.type(0))


def _relu6(x: NPArray) -> Any:
    high = x.dtype.type(6)
    return xp.where(x > high, high, _relu(x))


def _lower_relu6(data: Tensor) -> Tensor:
    return topi.clip(data, 0, 6)


def _leakyrelu(x: NPArray, alpha: float) -> Any:
    return xp.where(x < 0, x * x.dtype.type(alpha), x)


_erf = np.vectorize(math.erf, otypes=["float64"])
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805


def _gelu(x: NPArray) -> Any:
    return x * 0.5 * (1 + xp.asarray(_erf(x / math.sqrt(2))))


def _gelu_tanh(x: NPArray) -> Any:
    return x * 0.5 * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _selu(x: NPArray) -> Any:
    return _SCALE * xp.where(x > 0, x, _ALPHA * xp.expm1(xp.where(x > 0, 0, x)))


def _silu(x: NPArray) -> Any:
    small = xp.exp(-xp.abs(x))
    return x * xp.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _softplus(x: NPArray, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return xp.where(scaled > threshold, x, xp.logaddexp(scaled, 0.0) / beta)


relu = _define(
    "relu", "Take the greater of each element and 0; NaN stays.", topi.relu, _relu, kind="number"
)
relu6 = _define(
    "relu6", "Clip elements to the range 0 to 6; NaN stays.", _lower_relu6, _relu6, kind="number"
)
leakyrelu = _define(
    "leakyrelu",
    "Multiply negative elements by ``alpha``.",
    topi.leaky_relu,
    _leakyrelu,
    number("alpha", 0.01),
    samples=(Sample((_X, 0.3)), Sample((TensorSample((3,), "float16"),), {"alpha": 2})),
    mistakes=(Mistake((_X, "a"), {}, "OPS0002"),),
)
gelu = _define(
    "gelu",
    "Compute x times the normal distribution's probability below x; at minus infinity it is NaN.",
    topi.gelu,
    _precise(_gelu),
    ulps=2,
    absolute=1e-6,
)
gelu_tanh = _define(
    "gelu_tanh",
    "Approximate gelu by a hyperbolic tangent; at minus infinity it is NaN.",
    topi.gelu_tanh,
    _precise(_gelu_tanh),
    ulps=2,
    absolute=1e-6,
)
selu = _define(
    "selu",
    "Compute the scaled elu of self-normalising networks.",
    topi.selu,
    _precise(_selu),
    ulps=6,
)
silu = _define(
    "silu",
    "Compute x / (1 + exp(-x)); at minus infinity it is NaN.",
    topi.silu,
    _precise(_silu),
    ulps=3,
)


def _infer_softplus(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    need(c, "float", info.dtype)
    if not c["beta"] > 0:
        c.refuse(
            "OPS0039",
            f"beta is {c['beta']}, not above 0",
            help="give a number above 0, as 1 is, which is the default",
        )
    return info


softplus = define_op(
    "nn.softplus",
    tensor("data"),
    number("beta", 1.0),
    number("threshold", 20.0),
    infer=_infer_softplus,
    doc="Compute log(1 + exp(beta * x)) / beta; x itself if beta * x exceeds ``threshold``.",
    family="activation",
    lower=topi.softplus,
    reference=elementwise(_precise(_softplus)),
    samples=(
        Sample((TensorSample((2, 5), low=-4, high=4),), ulps=4),
        Sample((TensorSample((3,), "float16"), 2, 1.5), ulps=4),
        Sample((TensorSample((), "float64"), 0.5), ulps=4),
        Sample((TensorSample((0, 4)),), ulps=4),
    ),
    mistakes=(
        Mistake((_X, 0), {}, "OPS0039"),
        Mistake((TensorSample((2,), "int32"),), {}, "OPS0007"),
    ),
    elementwise=True,
    adapt=as_floats("beta", "threshold"),
)


# -- slopes of channels --------------------------------------------------------------------------
def _infer_prelu(c: OpContext) -> StructInfo:
    info, alpha = need_rank(c, 0, least=1), need_rank(c, 1, 1)
    dtype = common_dtype(c, (0, 1))
    need(c, "float", dtype)
    if info.ndim >= 0:
        axis = c.axis(c["axis"], info.ndim)
        if info.dims is not None and alpha.dims is not None:
            what = f"the extents of axis {axis} and of the slopes"
            must_equal(c, info.dims[axis], alpha.dims[0], what, arg=1)
    return TensorStructInfo(info.shape, dtype, common_device(c, (0, 1)), info.ndim)


def _scale_negative(x: NPArray, slope: NPArray) -> Any:
    return xp.where(x < 0, x * slope, x)


def _prelu(data: NPArray, alpha: NPArray, axis: int) -> NPArray:
    at = [1] * data.ndim
    at[axis] = -1
    return elementwise(_scale_negative)(data, xp.reshape(alpha, at))


def _lower_prelu(data: Tensor, alpha: Tensor, axis: int) -> Tensor:
    return topi.prelu(data, topi.assume_shape(alpha, [dims(data)[axis]]), axis)


prelu = define_op(
    "nn.prelu",
    tensor("data"),
    tensor("alpha"),
    integer("axis", 1),
    infer=_infer_prelu,
    doc="Multiply negative elements by the slope of their channel."
    "\n\nShapes: that of ``data``, whose extent at ``axis`` is that of ``alpha``.",
    family="activation",
    lower=_lower_prelu,
    reference=_prelu,
    samples=(
        Sample((TensorSample((2, 3, 4)), TensorSample((3,)))),
        Sample((TensorSample((2, 3), "float16"), TensorSample((2,), "float16"), 0)),
        Sample((TensorSample((5,), "float64"), TensorSample((5,), "float64"), -1)),
        Sample((TensorSample((0, 3)), TensorSample((3,)))),
    ),
    mistakes=(
        Mistake((_X, TensorSample((2,))), {}, "OPS0032"),
        Mistake((_X, TensorSample((3,)), 2), {}, "OPS0005"),
        Mistake((_X, TensorSample((3,), "float64")), {}, "OPS0006"),
        Mistake((_X, _X), {}, "OPS0030"),
        Mistake(
            (TensorSample((2, 3), "int32"), TensorSample((3,), "int32")),
            {},
            "OPS0007",
        ),
    ),
)


# -- exponentials along an axis ------------------------------------------------------------------
def _infer_softmax(c: OpContext) -> StructInfo:
    info = need_rank(c, 0, least=1)
    need(c, "float", info.dtype)
    if info.ndim >= 0:
        c.axis(c["axis"], info.ndim)
    return info


def _normalise_along(compute: Callable[[Any, int], Any]) -> Callable[..., NPArray]:
    def reference(data: NPArray, axis: int) -> NPArray:
        assert is_float(data.dtype)
        wide = data.astype("float64")
        with np.errstate(all="ignore"):
            shifted = wide - xp.max(wide, axis=axis, keepdims=True, initial=-np.inf)
            return xp.asarray(compute(shifted, axis)).astype(data.dtype)

    return reference


def _softmax(shifted: Any, axis: int) -> Any:
    power = xp.exp(shifted)
    return power / power.sum(axis=axis, keepdims=True)


def _log_softmax(shifted: Any, axis: int) -> Any:
    return shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))


_ODD = [
    [np.inf, 1.0, 2.0],
    [-np.inf, 1.0, 2.0],
    [-np.inf, -np.inf, -np.inf],
    [np.nan, 1.0, 2.0],
    [3e38, -3e38, 3e38],
]


def _define_along(name: str, doc: str, compute: Callable[[Any, int], Any]) -> Callable[..., Any]:
    near: dict[str, Any] = {"ulps": 8, "absolute": 1e-6}
    return define_op(
        f"nn.{name}",
        tensor("data"),
        integer("axis", -1),
        infer=_infer_softmax,
        doc=f"{doc}\n\nNo exponential overflows. Along an axis with plus infinity or NaN, or only"
        " minus infinity, all results are NaN.\nShapes: that of ``data``.",
        family="activation",
        lower=getattr(topi, name),
        reference=_normalise_along(compute),
        samples=(
            Sample((_X,), **near),
            Sample((TensorSample((2, 3, 2), "float16", -9, 9), 1), **near),
            Sample((TensorSample((3,), "bfloat16"),), **near),
            Sample((TensorSample((2, 3), "float64"), 0), **near),
            Sample((TensorSample((5, 3), values=_ODD),), **near),
            Sample((TensorSample((2, 0)),)),
            Sample((TensorSample((0, 2)),)),
        ),
        mistakes=(
            Mistake((_X, 2), {}, "OPS0005"),
            Mistake((TensorSample(()),), {}, "OPS0030"),
            Mistake((TensorSample((2,), "int32"),), {}, "OPS0007"),
        ),
    )


softmax = _define_along("softmax", "Compute the softmax along an axis.", _softmax)
log_softmax = _define_along(
    "log_softmax",
    "Compute the logarithm of the softmax along an axis, accurate for small values.",
    _log_softmax,
)
