"""Operators that pad, flatten or rearrange images, and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loomir.op.rules.arguments import as_floats, dims_of, format_dim, need_rank, number_of, product
from loomir.relax.expr import Call, Tuple
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import integer, ints, number, tensor, text
from loomir.relax.operator.reference import NPArray, xp
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import greater_size
from loomir.te.topi.shape import dims, make
from loomir.tir.expr import Add, FloorDiv, FloorMod, Mul, PrimExpr

__all__ = ["batch_flatten", "dropout", "pad", "pixel_shuffle"]

T = TensorSample
_X = T((2, 3))


# -- padding -------------------------------------------------------------------------------------
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _holds(dtype: DataType, value: float) -> bool:
    """Tell whether a dtype has a number, rounded where it is one of floats."""
    if dtype.is_void:
        return True
    if dtype.is_float:
        return not math.isfinite(value) or abs(value) <= dtype.max_finite
    if not math.isfinite(value) or value != int(value):
        return False
    return value in (0, 1) if dtype.is_bool else dtype.min_value <= value <= dtype.max_value


def _infer_pad(c: OpContext) -> StructInfo:
    info, widths, mode = c.tensor(0), c["pad_width"], c["pad_mode"]
    if len(widths) % 2 or (info.ndim >= 0 and len(widths) != 2 * info.ndim):
        wanted = "an even number" if info.ndim < 0 else str(2 * info.ndim)
        c.refuse(
            "OPS0061",
            f"pad_width has {with_count(len(widths), 'number')}, not {wanted}",
            help="give two for each axis: what is added before it, then after it",
        )
    if any(w < 0 for w in widths):
        c.refuse(
            "OPS0039",
            f"pad_width is {widths}",
            help="give numbers of 0 or more; R.strided_slice makes an axis shorter",
        )
    if mode == "constant" and not _holds(info.dtype, c["pad_value"]):
        c.refuse(
            "OPS0039",
            f"pad_value is {c['pad_value']}, which {info.dtype} does not have",
            help="give a number of the dtype of the tensor",
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    if info.dims is None:
        return c.make(None, info.dtype, info, ndim=len(pairs))
    for axis, (extent, pair) in enumerate(zip(info.dims, pairs, strict=True)):
        if mode != "constant" and number_of(extent) == 0 and pair != (0, 0):
            c.refuse(
                "OPS0064",
                f"axis {axis} has no element to repeat",
                help='give a tensor with elements there, or pad_mode="constant"',
                arg=0,
            )
    made = [Add(d, as_dim(b + a)) for d, (b, a) in zip(info.dims, pairs, strict=True)]
    return c.make(c.simplify(made), info.dtype, info)


def _pad(data: NPArray, pad_width: Any, pad_mode: str, pad_value: float) -> NPArray:
    pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
    if not pairs:
        return data
    options: dict[str, Any] = {}
    if pad_mode == "constant":
        options["constant_values"] = xp.asarray(pad_value).astype(data.dtype)
    made: NPArray = xp.pad(data, pairs, mode=_MODES[pad_mode], **options)
    return made


def _lower_pad(data: Tensor, pad_width: Any, pad_mode: Any, pad_value: float) -> Tensor:
    pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
    if pad_mode != "constant":
        # An axis of no elements has nothing to repeat.
        some = [
            n if pair == (0, 0) else greater_size(n, 1)
            for n, pair in zip(dims(data), pairs, strict=True)
        ]
        data = topi.assume_shape(data, some)
    value = pad_value if data.dtype.is_float else int(pad_value)
    mode: Any = _MODES[pad_mode]
    return topi.pad(data, pairs, mode, value)


pad = define_op(
    "nn.pad",
    tensor("data"),
    ints("pad_width"),
    text("pad_mode", "constant", tuple(_MODES)),
    number("pad_value", 0.0),
    infer=_infer_pad,
    doc="""Add elements before and after each axis; ``pad_width`` has two numbers for each.

``pad_mode``: ``"constant"`` adds ``pad_value``, ``"reflect"`` mirrors without the last element,
repeatedly if needed, ``"replicate"`` repeats the last element, ``"circular"`` repeats all elements.
Shapes: each extent plus its two numbers.""",
    family="shaping",
    lower=_lower_pad,
    reference=_pad,
    samples=(
        Sample((_X, (1, 0, 2, 1))),
        Sample((T((3,), "int8"), (1, 1), "constant", -7)),
        Sample((T((2,), "bool"), (0, 1)), {"pad_value": 1}),
        Sample((T((2, 3), "float16"), [0, 0, 2, 2], "reflect")),
        Sample((T((2,)), (3, 4), "reflect")),
        Sample((_X, (2, 1, 0, 3), "replicate")),
        Sample((_X, (0, 0, 2, 4), "circular")),
        Sample((T((0, 2)), (1, 0, 0, 0)), {"pad_value": float("-inf")}),
        Sample((T(()), ())),
    ),
    mistakes=(
        Mistake((_X, (1, 1)), {}, "OPS0061"),
        Mistake((_X, (1, 1, -1, 0)), {}, "OPS0039"),
        Mistake((_X, (1, 1, 0, 0), "edge"), {}, "OPS0002"),
        Mistake((T((0, 2)), (1, 0, 0, 0), "reflect"), {}, "OPS0064"),
        Mistake((T((2,), "int8"), (1, 0), "constant", 200), {}, "OPS0039"),
        Mistake((T((2,), "int8"), (1, 0), "constant", 0.5), {}, "OPS0039"),
        Mistake((T((2,), "int8"), (1, 0), "constant", "-inf"), {}, "OPS0039"),
    ),
    adapt=as_floats("pad_value"),
)


# -- channels as places --------------------------------------------------------------------------
def _infer_shuffle(c: OpContext) -> StructInfo:
    info, factor = need_rank(c, 0, least=3), c["upscale_factor"]
    if factor < 1:
        c.refuse("OPS0039", f"upscale_factor is {factor}", help="give 1 or more")
    if info.dims is None:
        return c.make(None, info.dtype, info, ndim=info.ndim)
    *front, channels, height, width = info.dims
    block, each = as_dim(factor * factor), as_dim(factor)
    if number_of(c.analyzer.simplify(FloorMod(channels, block))):
        c.refuse(
            "OPS0063",
            f"{format_dim(channels)} channels do not make groups of {factor * factor}",
            help="give channels that the square of upscale_factor divides",
            arg=0,
        )
    made = [*front, FloorDiv(channels, block), Mul(height, each), Mul(width, each)]
    return c.make(c.simplify(made), info.dtype, info)


def _pixel_shuffle(data: NPArray, upscale_factor: int) -> NPArray:
    *front, channels, height, width = data.shape
    r, rank = upscale_factor, data.ndim
    parts = xp.reshape(data, (*front, channels // r**2, r, r, height, width))
    at = rank - 3
    order = [*range(at), at, at + 3, at + 1, at + 4, at + 2]
    made: NPArray = xp.transpose(parts, order).reshape(
        *front, channels // r**2, height * r, width * r
    )
    return made


def _lower_shuffle(data: Tensor, upscale_factor: int) -> Tensor:
    r, shape = upscale_factor, dims(data)
    *front, channels, height, width = shape
    made = channels // (r * r)
    # Groups of channels are whole: else what is left over would be lost.
    data = topi.assume_shape(data, [*front, made * (r * r), height, width])

    def element(*i: PrimExpr) -> PrimExpr:
        *outer, c, h, w = i
        return data(*outer, c * (r * r) + (h % r) * r + w % r, h // r, w // r)

    result: Tensor = make("pixel_shuffle", [*front, made, height * r, width * r], element)
    return result


pixel_shuffle = define_op(
    "nn.pixel_shuffle",
    tensor("data"),
    integer("upscale_factor"),
    infer=_infer_shuffle,
    doc="""Upscale images: each group of channels becomes a block of elements.

Shapes: (…, C * r * r, H, W) to (…, C, H * r, W * r), where r is ``upscale_factor``.""",
    family="shaping",
    lower=_lower_shuffle,
    reference=_pixel_shuffle,
    samples=(
        Sample((T((2, 8, 3, 2)), 2)),
        Sample((T((9, 1, 2), "int8"), 3)),
        Sample((T((0, 1, 2, 2)), 1)),
    ),
    mistakes=(
        Mistake((T((1, 6, 2, 2)), 2), {}, "OPS0063"),
        Mistake((T((1, 4, 2, 2)), 0), {}, "OPS0039"),
        Mistake((T((4, 2)), 2), {}, "OPS0030"),
    ),
)


# -- flat batches --------------------------------------------------------------------------------
def _infer_flat(c: OpContext) -> StructInfo:
    info = need_rank(c, 0, least=1)
    if info.dims is None:
        return c.make(None, info.dtype, info, ndim=2)
    made = c.simplify([info.dims[0], product(info.dims[1:])])
    return c.make(made, info.dtype, info)


def _batch_flatten(data: NPArray) -> NPArray:
    made: NPArray = xp.reshape(data, (data.shape[0], math.prod(data.shape[1:])))
    return made


def _lower_flat(data: Tensor, out: StructInfo) -> Tensor:
    return topi.reshape(data, dims_of(out))


batch_flatten = define_op(
    "nn.batch_flatten",
    tensor("data"),
    infer=_infer_flat,
    doc="Flatten each item to one axis, in row-major order."
    "\n\nShapes: (N, …) to (N, the number of elements of an item).",
    family="shaping",
    lower=_lower_flat,
    reference=_batch_flatten,
    samples=(
        Sample((T((2, 3, 4)),)),
        Sample((T((3,), "int8"),)),
        Sample((T((0, 2, 1)),)),
    ),
    mistakes=(Mistake((T(()),), {}, "OPS0030"), Mistake((1,), {}, "OPS0004")),
)


# -- dropout -------------------------------------------------------------------------------------
def _infer_dropout(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    if not 0 <= c["rate"] <= 1:
        c.refuse(
            "OPS0039",
            f"rate is {c['rate']}",
            help="give a number from 0 to 1",
        )
    return TupleStructInfo(
        (info, TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim))
    )


def _dropout(data: NPArray, rate: float) -> tuple[NPArray, NPArray]:
    return data, np.ones_like(data)


def _legalize_dropout(b: BlockBuilder, call: Call) -> RelaxExpr:
    (data,) = call.args
    info = b.struct_info_of(data)
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype.is_void:
        return call
    return Tuple((data, b.emit(b.call_te(topi.ones_like, data, primfunc_name_hint="mask"))))


dropout = define_op(
    "nn.dropout",
    tensor("data"),
    number("rate", 0.5),
    infer=_infer_dropout,
    doc="""Return a tensor as it is, and a mask of ones, since this is inference.

Shapes: a tuple of two, both that of ``data``.""",
    family="shaping",
    legalize=_legalize_dropout,
    reference=_dropout,
    samples=(
        Sample((_X,)),
        Sample((T((), "float16"), 0.1)),
        Sample((T((0, 2)), 1)),
    ),
    mistakes=(Mistake((_X, 1.5), {}, "OPS0039"), Mistake((1,), {}, "OPS0004")),
    adapt=as_floats("rate"),
)
