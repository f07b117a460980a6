"""Loss functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from loomir.op.rules.arguments import integers, must_equal, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import integer, tensor, text
from loomir.relax.operator.reference import NPArray, xp
from loomir.relax.operator.rules import common_device, common_dtype, need
from loomir.relax.struct_info import TensorStructInfo
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims

__all__ = ["cross_entropy_with_logits", "nll_loss"]

T = TensorSample
_NEAR: dict[str, Any] = {"ulps": 4, "absolute": 1e-5}


# -- cross entropy -------------------------------------------------------------------------------
def _infer_entropy(c: OpContext) -> StructInfo:
    a = need_rank(c, 0, least=1)
    dtype = common_dtype(c, (0, 1))
    need(c, "float", dtype)
    b = need_rank(c, 1, a.ndim) if a.ndim >= 0 else need_rank(c, 1, least=1)
    if a.dims is not None and b.dims is not None:
        for axis, (one, other) in enumerate(zip(a.dims, b.dims, strict=True)):
            must_equal(c, one, other, f"the extents of axis {axis}", arg=1)
    shaped = c.make([], dtype)
    return TensorStructInfo(shaped.shape, dtype, common_device(c, (0, 1)))


def _entropy(predictions: NPArray, labels: NPArray) -> NPArray:
    total = xp.sum(xp.asarray(predictions, "float64") * xp.asarray(labels, "float64"))
    count = predictions.shape[0] if predictions.ndim > 1 else 1
    with np.errstate(all="ignore"):
        return xp.asarray(-total / xp.float64(count)).astype(predictions.dtype)


def _lower_entropy(predictions: Tensor, labels: Tensor) -> Tensor:
    return topi.cross_entropy(predictions, topi.assume_shape(labels, dims(predictions)))


cross_entropy_with_logits = define_op(
    "nn.cross_entropy_with_logits",
    tensor("predictions"),
    tensor("labels"),
    infer=_infer_entropy,
    doc="""Compute the cross entropy of log-probabilities and labels, averaged over items.

Predictions are logarithms of probabilities, such as results of ``R.nn.log_softmax``. Without items,
the result is NaN. Shapes: two equal ones of one axis or more to ().""",
    family="loss",
    lower=_lower_entropy,
    reference=_entropy,
    samples=(
        Sample((T((2, 3)), T((2, 3))), **_NEAR),
        Sample((T((4,), "float16"), T((4,), "float16")), **_NEAR),
        Sample((T((2, 3, 2), "float64"), T((2, 3, 2), "float64")), **_NEAR),
        Sample((T((0, 3)), T((0, 3)))),
    ),
    mistakes=(
        Mistake((T((2, 3)), T((2, 4))), {}, "OPS0032"),
        Mistake((T((2, 3)), T((3,))), {}, "OPS0030"),
        Mistake((T(()), T(())), {}, "OPS0030"),
        Mistake((T((2,)), T((2,), "float64")), {}, "OPS0006"),
        Mistake((T((2,), "int32"), T((2,), "int32")), {}, "OPS0007"),
    ),
)


# -- negative log likelihood ---------------------------------------------------------------------
def _infer_nll(c: OpContext) -> StructInfo:
    predictions, targets = need_rank(c, 0, least=1), integers(c, 1)
    given = (0, 2) if c.has(2) else (0,)
    dtype = common_dtype(c, given)
    need(c, "float", dtype)
    weights = need_rank(c, 2, 1) if c.has(2) else None
    if predictions.ndim >= 0:
        need_rank(c, 1, predictions.ndim - 1)
    if predictions.dims is not None:
        axis = min(1, predictions.ndim - 1)
        kept = [d for a, d in enumerate(predictions.dims) if a != axis]
        for place, (one, other) in enumerate(zip(kept, targets.dims or (), strict=False)):
            must_equal(c, one, other, f"extents of predictions and of targets at {place}", arg=1)
        if weights is not None and weights.dims is not None:
            what = "the numbers of classes and of weights"
            must_equal(c, predictions.dims[axis], weights.dims[0], what, arg=2)
    device = common_device(c, (0, 1, *given[1:]))
    if c["reduction"] != "none":
        return TensorStructInfo(c.make([], dtype).shape, dtype, device)
    return TensorStructInfo(targets.shape, dtype, device, targets.ndim)


def _nll(
    predictions: NPArray,
    targets: NPArray,
    weights: NPArray | None = None,
    *,
    reduction: str,
    ignore_index: int,
) -> NPArray:
    axis = min(1, predictions.ndim - 1)
    classes = predictions.shape[axis]
    chosen = xp.asarray(targets.astype(object) != ignore_index, bool)
    if any(not 0 <= t < classes for t in targets[chosen].tolist()):
        raise IndexError(f"a target is not a class of 0 to {classes - 1}")
    places = xp.where(chosen, targets, 0).astype("int64")
    wide = predictions.astype("float64")
    factors = xp.ones(classes) if weights is None else weights.astype("float64")
    if not classes:
        picked = scale = xp.zeros(targets.shape)
    else:
        picked = xp.take_along_axis(wide, xp.expand_dims(places, axis), axis).squeeze(axis)
        scale = factors[places]
    each, scale = xp.where(chosen, -picked * scale, 0.0), xp.where(chosen, scale, 0.0)
    with np.errstate(all="ignore"):
        made = {"none": lambda: each, "sum": each.sum, "mean": lambda: each.sum() / scale.sum()}
        return xp.asarray(made[reduction]()).astype(predictions.dtype)


def _lower_nll(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    *,
    reduction: Any,
    ignore_index: int,
) -> Tensor:
    axis = min(1, predictions.ndim - 1)
    kept = [d for a, d in enumerate(dims(predictions)) if a != axis]
    if weights is not None:
        weights = topi.assume_shape(weights, [dims(predictions)[axis]])
    targets = topi.assume_shape(targets, kept)
    return topi.nll_loss(predictions, targets, weights, reduction, ignore_index)


_P, _Y = T((2, 3)), T((2,), "int64", 0, 2)
nll_loss = define_op(
    "nn.nll_loss",
    tensor("predictions"),
    tensor("targets"),
    tensor("weights", None),
    text("reduction", "mean", ("none", "sum", "mean")),
    integer("ignore_index", -100),
    infer=_infer_nll,
    doc="""Compute the negative log-likelihood of targets, times their weights.

``reduction``: each loss, their sum, or their weighted mean, which is NaN for a total weight of 0.
Targets equal to ``ignore_index`` have no weight; other invalid targets raise (RUN0203). Shapes: (N,
C, …), (N, …) and (C,), or without N and the rest, to (N, …) or ().""",
    family="loss",
    lower=_lower_nll,
    reference=_nll,
    samples=(
        Sample((_P, _Y), **_NEAR),
        Sample((_P, _Y, T((3,), low=0.1)), **_NEAR),
        Sample((_P, _Y, T((3,))), {"reduction": "sum"}, **_NEAR),
        Sample((_P, _Y), {"reduction": "none"}),
        Sample((T((2, 3, 4), "float16"), T((2, 4), "uint8", 0, 2)), {"ignore_index": 1}, ulps=1),
        Sample((_P, T((2,), "int64", values=[-100, 2]), T((3,))), {"reduction": "none"}, ulps=1),
        Sample((T((3,), "float64"), T((), "int32", 0, 2)), {"reduction": "none"}),
        Sample((T((3,)), T((), "int32", 0, 2)), **_NEAR),
        Sample((_P, T((2,), "int32", values=[-100, -100]))),
        Sample((T((0, 3)), T((0,), "int64")), {"reduction": "sum"}),
    ),
    mistakes=(
        Mistake((_P, T((3,), "int64")), {}, "OPS0032"),
        Mistake((_P, T((2, 3), "int64")), {}, "OPS0030"),
        Mistake((_P, T((2,))), {}, "OPS0007"),
        Mistake((_P, _Y, T((2,))), {}, "OPS0032"),
        Mistake((_P, _Y, T((3,), "float64")), {}, "OPS0006"),
        Mistake((_P, _Y), {"reduction": "max"}, "OPS0002"),
        Mistake((T((2, 3), "int32"), _Y), {}, "OPS0007"),
    ),
)
