"""Normalisations: shift and scale elements to mean 0 and variance 1.

16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loomir.op.rules.arguments import (
    as_floats,
    format_dim,
    must_equal,
    need_rank,
    normalize_axes,
    number_of,
)
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, flag, integer, number, tensor
from loomir.relax.operator.reference import NPArray, xp
from loomir.relax.operator.rules import common_device, common_dtype, need
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import FloorMod

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

Axes = tuple[int, ...]
T = TensorSample
_X, _C = T((2, 3, 4)), T((3,))
_NEAR: dict[str, Any] = {"ulps": 4, "absolute": 1e-5}
_HALF: dict[str, Any] = {"ulps": 1, "absolute": 1e-5}


# -- inference -----------------------------------------------------------------------------------
def _floats(c: OpContext, count: int) -> TensorStructInfo:
    """Describe the result, which is like the first of tensors that have one dtype of floats."""
    info = c.tensor(0)
    dtype = common_dtype(c, range(count))
    need(c, "float", dtype)
    return TensorStructInfo(info.shape, dtype, common_device(c, range(count)), info.ndim)


def _fits(c: OpContext, index: int, info: TensorStructInfo, at: Sequence[int]) -> None:
    """Check that an argument has the extents of the data at some axes. Errors: OPS0030, OPS0032."""
    given = need_rank(c, index, len(at))
    if info.dims is None or given.dims is None:
        return
    for axis, dim in zip(at, given.dims, strict=True):
        what = f"the extents of axis {axis} of the data and of argument {index + 1}"
        must_equal(c, info.dims[axis], dim, what, arg=index)


def _epsilon(c: OpContext) -> None:
    if c["epsilon"] < 0:
        c.refuse(
            "OPS0039",
            f"epsilon is {c['epsilon']}",
            help="give 0 or more: it is added to a variance",
        )


def _check_axes(c: OpContext, rank: int) -> Axes:
    """Return the axes to normalise over, which are no channels. Errors: OPS0005, OPS0031."""
    over = normalize_axes(c, c["axes"], rank)
    channel = c.axis(c["channel_axis"], rank)
    if channel in over:
        c.refuse(
            "OPS0031",
            f"axis {channel} is that of channels, and among those to normalise over",
            help="name the other axes: channels are normalised one by one, or in groups",
            arg=0,
        )
    return over


# -- layers --------------------------------------------------------------------------------------
def _infer_layer(count: int) -> Callable[[OpContext], StructInfo]:
    def infer(c: OpContext) -> StructInfo:
        made = _floats(c, count)
        _epsilon(c)
        if made.ndim >= 0:
            over = normalize_axes(c, c["axes"], made.ndim)
            for index in range(1, count):
                _fits(c, index, made, over)
        return made

    return infer


def _scales(data: Tensor, over: Axes, *given: Tensor) -> list[Tensor]:
    """Return the tensors that scale with their axes in the order of the data's."""
    at = [axis % data.ndim for axis in over]
    order = sorted(range(len(at)), key=at.__getitem__)
    made = [topi.assume_shape(t, [dims(data)[a] for a in at]) for t in given]
    return [topi.transpose(t, order) if order != sorted(order) else t for t in made]


def _scale(data: Any, over: Axes, scale: Any, shift: Any) -> NPArray:
    """Multiply and add with NumPy: ``over`` are the axes of ``data`` that the others have."""
    at = [axis % data.ndim for axis in over]
    order = sorted(range(len(at)), key=at.__getitem__)
    sizes = [n if a in at else 1 for a, n in enumerate(data.shape)]
    for factor, combine in ((scale, xp.multiply), (shift, xp.add)):
        if factor is not None:
            wide = xp.transpose(factor.astype("float64"), order).reshape(sizes)
            data = combine(data, wide)
    return xp.asarray(data)


def _normal(wide: Any, over: Axes, epsilon: float) -> Any:
    middle = wide.mean(axis=over, keepdims=True)
    variance = ((wide - middle) ** 2).mean(axis=over, keepdims=True)
    return (wide - middle) / np.sqrt(variance + epsilon)


def _layer_norm(
    data: NPArray,
    gamma: NPArray,
    beta: NPArray,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> NPArray:
    made = _normal(data.astype("float64"), axes, epsilon)
    given = (gamma if scale else None, beta if center else None)
    return _scale(made, axes, *given).astype(data.dtype)


def _lower_layer_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Tensor:
    fitted = _scales(data, axes, gamma, beta)
    given = (fitted[0] if scale else None, fitted[1] if center else None)
    return topi.layer_norm(data, *given, axis=axes, epsilon=epsilon)


_L = T((4,))
_WIDE = T((2, 4), "float64"), T((4,), "float64"), T((4,), "float64")
_SHORT = T((2, 3, 4), "float16"), T((3, 4), "float16"), T((3, 4), "float16")
layer_norm = define_op(
    "nn.layer_norm",
    tensor("data"),
    tensor("gamma"),
    tensor("beta"),
    axes("axes"),
    number("epsilon", 1e-5),
    flag("center", True),
    flag("scale", True),
    infer=_infer_layer(3),
    doc="""Shift and scale elements over axes to mean 0 and variance 1, then by weights.

It is ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``; without ``center`` nothing is added,
without ``scale`` nothing is multiplied.
Shapes: that of ``data``; the others have its extents at ``axes``, in that order.""",
    family="normalization",
    adapt=as_floats("epsilon", "momentum"),
    lower=_lower_layer_norm,
    reference=_layer_norm,
    samples=(
        Sample((_X, _L, _L, -1), **_NEAR),
        Sample((*_SHORT, (1, 2)), **_HALF),
        Sample((_X, T((4, 3)), T((4, 3)), (-1, 1), 0.1), **_NEAR),
        Sample((*_WIDE, [1]), {"center": False}, **_NEAR),
        Sample((*_WIDE, 1), {"scale": False}, **_NEAR),
        Sample((T((0, 4)), _L, _L, -1), **_NEAR),
    ),
    mistakes=(
        Mistake((_X, _C, _C, -1), {}, "OPS0032"),
        Mistake((_X, _X, _L, -1), {}, "OPS0030"),
        Mistake((_X, _L, _L, 3), {}, "OPS0005"),
        Mistake((_X, _L, _L, (2, -1)), {}, "OPS0031"),
        Mistake((_X, _L, T((4,), "float16"), -1), {}, "OPS0006"),
        Mistake((T((4,), "int32"), T((4,), "int32"), T((4,), "int32"), -1), {}, "OPS0007"),
        Mistake((_X, _L, _L, -1, -1e-5), {}, "OPS0039"),
        Mistake((_X, _L, _L), {}, "OPS0001"),
    ),
)


def _rms_norm(data: NPArray, weight: NPArray, axes: Axes, epsilon: float) -> NPArray:
    wide = data.astype("float64")
    made = wide / np.sqrt((wide**2).mean(axis=axes, keepdims=True) + epsilon)
    return _scale(made, axes, weight, None).astype(data.dtype)


def _lower_rms_norm(data: Tensor, weight: Tensor, axes: Axes, epsilon: float) -> Tensor:
    return topi.rms_norm(data, *_scales(data, axes, weight), axis=axes, epsilon=epsilon)


rms_norm = define_op(
    "nn.rms_norm",
    tensor("data"),
    tensor("weight"),
    axes("axes", (-1,)),
    number("epsilon", 1e-5),
    infer=_infer_layer(2),
    doc="""Scale elements to a mean square of 1 over axes, then by ``weight``.

It is ``x / sqrt(mean(x * x) + epsilon) * weight``.
Shapes: that of ``data``; ``weight`` has its extents at ``axes``, in that order.""",
    family="normalization",
    adapt=as_floats("epsilon", "momentum"),
    lower=_lower_rms_norm,
    reference=_rms_norm,
    samples=(
        Sample((_X, _L), **_NEAR),
        Sample((T((2, 4), "bfloat16"), T((4,), "bfloat16"), [-1]), **_HALF),
        Sample((_X, T((4, 3)), (2, 1), 0.5), **_NEAR),
        Sample((T((2, 4), "float64"), T((4,), "float64")), **_NEAR),
    ),
    mistakes=(
        Mistake((_X, _C), {}, "OPS0032"),
        Mistake((_X, _L, 3), {}, "OPS0005"),
        Mistake((_X, T((4,), "float64")), {}, "OPS0006"),
    ),
)


# -- batches -------------------------------------------------------------------------------------
def _infer_batch(c: OpContext) -> StructInfo:
    need_rank(c, 0, least=1)
    made = _floats(c, 5)
    _epsilon(c)
    if made.ndim >= 0:
        axis = c.axis(c["axis"], made.ndim)
        for index in range(1, 5):
            _fits(c, index, made, [axis])
    moved: list[StructInfo] = []
    for index in (3, 4):
        info = need_rank(c, index, 1)
        moved.append(TensorStructInfo(info.shape, made.dtype, made.vdevice, 1))
    return TupleStructInfo((made, *moved))


def _batch_norm(
    data: NPArray,
    gamma: NPArray,
    beta: NPArray,
    moving_mean: NPArray,
    moving_var: NPArray,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> tuple[NPArray, ...]:
    given = (gamma if scale else None, beta if center else None)
    wide = data.astype("float64")
    means, variances = (xp.asarray(m, "float64") for m in (moving_mean, moving_var))
    at = [1] * data.ndim
    at[axis] = -1
    if not training:
        made = (wide - means.reshape(at)) / xp.sqrt(variances.reshape(at) + epsilon)
        return _scale(made, (axis,), *given).astype(data.dtype), moving_mean, moving_var
    over = tuple(a for a in range(data.ndim) if a != axis % data.ndim)
    own = wide.mean(axis=over), wide.var(axis=over)
    moved = [
        ((1 - momentum) * before + momentum * now).astype(data.dtype)
        for before, now in zip((means, variances), own, strict=True)
    ]
    made = _scale(_normal(wide, over, epsilon), (axis,), *given)
    return made.astype(data.dtype), *moved


def _lower_batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> list[Tensor]:
    gamma, beta, *running = _scales(data, (axis,), gamma, beta, moving_mean, moving_var)
    mean, variance = running
    given = (gamma if scale else None, beta if center else None, mean, variance, axis, epsilon)
    if training:
        return topi.batch_norm_training(data, *given, momentum)
    return [topi.batch_norm(data, *given), topi.identity(moving_mean), topi.identity(moving_var)]


_V = T((3,), low=0.1)
_STATS = (_C, _C, _C, _V)
_H = T((3,), "float16")
_D = T((5,), "float64"), T((5,), "float64"), T((5,), "float64"), T((5,), "float64", 0.1)
batch_norm = define_op(
    "nn.batch_norm",
    tensor("data"),
    tensor("gamma"),
    tensor("beta"),
    tensor("moving_mean"),
    tensor("moving_var"),
    integer("axis"),
    number("epsilon", 1e-5),
    flag("center", True),
    flag("scale", True),
    number("momentum", 0.1),
    flag("training", True),
    infer=_infer_batch,
    doc="""Shift and scale channels to mean 0 and variance 1, then by ``gamma`` and ``beta``.

``training``: by their own statistics, and the moving ones become ``(1 - momentum)`` of themselves
and ``momentum`` of those; variances divide by the number of elements. Otherwise by the moving ones,
which stay. Without ``center`` nothing is added, without ``scale`` nothing is multiplied.
Shapes: a tuple of the result, the means and the variances; all but ``data`` have one element per
channel, which ``axis`` counts.""",
    family="normalization",
    adapt=as_floats("epsilon", "momentum"),
    lower=_lower_batch_norm,
    reference=_batch_norm,
    samples=(
        Sample((_X, *_STATS, 1), **_NEAR),
        Sample((_X, *_STATS, 1), {"training": False}, **_NEAR),
        Sample((T((2, 2, 3), "float16"), _H, _H, _H, T((3,), "float16", 0.1), -1), **_HALF),
        Sample((T((2, 5), "float64"), *_D, 1, 1e-3, False, True, 0.5), **_NEAR),
        Sample((T((2, 5), "float64"), *_D, 1), {"scale": False, "training": False}, **_NEAR),
    ),
    mistakes=(
        Mistake((_X, _C, _C, _L, _C, 1), {}, "OPS0032"),
        Mistake((_X, _C, _C, _C, _X, 1), {}, "OPS0030"),
        Mistake((_X, *_STATS, 3), {}, "OPS0005"),
        Mistake((_X, _C, _C, _C, T((3,), "float64"), 1), {}, "OPS0006"),
        Mistake((_X, *_STATS), {}, "OPS0001"),
    ),
)


# -- instances and groups ------------------------------------------------------------------------
def _infer_instance(c: OpContext) -> TensorStructInfo:
    need_rank(c, 0, least=1)
    made = _floats(c, 3)
    _epsilon(c)
    if made.ndim >= 0:
        _check_axes(c, made.ndim)
        for index in (1, 2):
            _fits(c, index, made, [c.axis(c["channel_axis"], made.ndim)])
    return made


def _infer_group(c: OpContext) -> StructInfo:
    made = _infer_instance(c)
    groups: int = c["num_groups"]
    axis: int = c["channel_axis"]
    if groups < 1:
        c.refuse("OPS0039", f"num_groups is {groups}", help="give 1 or more")
    if made.dims is not None:
        channels = made.dims[axis]
        if number_of(c.analyzer.simplify(FloorMod(channels, as_dim(groups)))):
            c.refuse(
                "OPS0063",
                f"{format_dim(channels)} channels do not make {groups} groups",
                help="give a number of groups that divides the channels",
                arg=0,
            )
    return made


def _instance_norm(
    data: NPArray,
    gamma: NPArray,
    beta: NPArray,
    channel_axis: int,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> NPArray:
    made = _normal(data.astype("float64"), axes, epsilon)
    given = (gamma if scale else None, beta if center else None)
    return _scale(made, (channel_axis,), *given).astype(data.dtype)


def _lower_instance_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    channel_axis: int,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Tensor:
    fitted = _scales(data, (channel_axis,), gamma, beta)
    given = (fitted[0] if scale else None, fitted[1] if center else None)
    return topi.instance_norm(data, *given, epsilon, channel_axis, axes)


def _group_norm(
    data: NPArray,
    gamma: NPArray,
    beta: NPArray,
    num_groups: int,
    channel_axis: int,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> NPArray:
    channel = channel_axis % data.ndim
    wide = xp.moveaxis(data.astype("float64"), channel, 0)
    parts = wide.reshape(num_groups, wide.shape[0] // num_groups, *wide.shape[1:])
    places = [axis % data.ndim for axis in axes]
    over = (1, *(a + 1 if a > channel else a + 2 for a in places))
    made = xp.moveaxis(xp.reshape(_normal(parts, over, epsilon), wide.shape), 0, channel)
    given = (gamma if scale else None, beta if center else None)
    return _scale(made, (channel_axis,), *given).astype(data.dtype)


def _lower_group_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    channel_axis: int,
    axes: Axes,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Tensor:
    fitted = _scales(data, (channel_axis,), gamma, beta)
    given = (fitted[0] if scale else None, fitted[1] if center else None)
    return topi.group_norm(data, num_groups, *given, epsilon, channel_axis, axes)


_SCALING = """It is ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``; without ``center``
nothing is added, without ``scale`` nothing is multiplied.
Shapes: that of ``data``; the others have one element per channel, which ``channel_axis`` counts."""
_TAIL = (number("epsilon", 1e-5), flag("center", True), flag("scale", True))
_I = T((2, 4, 3, 2))
instance_norm = define_op(
    "nn.instance_norm",
    tensor("data"),
    tensor("gamma"),
    tensor("beta"),
    integer("channel_axis"),
    axes("axes"),
    *_TAIL,
    infer=_infer_instance,
    doc="Shift and scale each channel of each item to mean 0 and variance 1 over ``axes``.\n\n"
    + _SCALING,
    family="normalization",
    adapt=as_floats("epsilon", "momentum"),
    lower=_lower_instance_norm,
    reference=_instance_norm,
    samples=(
        Sample((_I, _L, _L, 1, (2, 3)), **_NEAR),
        Sample((T((2, 3, 4), "float16"), *[T((4,), "float16")] * 2, -1, [1]), **_HALF),
        Sample((_X, _C, _C, 1, -1, 0.1, False), **_NEAR),
        Sample((_X, _C, _C, 1, -1), {"scale": False}, **_NEAR),
    ),
    mistakes=(
        Mistake((_I, _C, _C, 1, (2, 3)), {}, "OPS0032"),
        Mistake((_I, _L, _L, 1, (1, 2)), {}, "OPS0031"),
        Mistake((_I, _L, _L, 4, (2, 3)), {}, "OPS0005"),
        Mistake((_I, _I, _L, 1, (2, 3)), {}, "OPS0030"),
    ),
)
group_norm = define_op(
    "nn.group_norm",
    tensor("data"),
    tensor("gamma"),
    tensor("beta"),
    integer("num_groups"),
    integer("channel_axis"),
    axes("axes"),
    *_TAIL,
    infer=_infer_group,
    doc="Shift and scale groups of channels of each item to mean 0 and variance 1.\n\n"
    "Means and variances are over a group's channels and ``axes``. " + _SCALING,
    family="normalization",
    adapt=as_floats("epsilon", "momentum"),
    lower=_lower_group_norm,
    reference=_group_norm,
    samples=(
        Sample((_I, _L, _L, 2, 1, (2, 3)), **_NEAR),
        Sample((T((2, 3, 4), "float16"), *[T((4,), "float16")] * 2, 2, -1, [1]), **_HALF),
        Sample((_I, _L, _L, 4, 1, 3, 0.1), {"center": False}, **_NEAR),
        Sample((T((6, 2), "float64"), *[T((6,), "float64")] * 2, 3, 0, ()), **_NEAR),
    ),
    mistakes=(
        Mistake((_I, _L, _L, 3, 1, (2, 3)), {}, "OPS0063"),
        Mistake((_I, _L, _L, 0, 1, (2, 3)), {}, "OPS0039"),
        Mistake((_I, _C, _L, 2, 1, (2, 3)), {}, "OPS0032"),
        Mistake((_I, _L, _L, 2, 1, (1, 3)), {}, "OPS0031"),
    ),
)
