"""Convolutions and transposed convolutions.

16-bit floats are summed in float32, and rounded once; integers wrap in the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as places
from typing import Any

import numpy as np

from loomir.op.nn.layouts import (
    change_layout,
    extents,
    extents_in_layout,
    merge_blocks,
    pack_array,
    read_named_layout,
    unpack_array,
)
from loomir.op.nn.windows import numbers, read_padding, steps, with_axes
from loomir.op.rules.arguments import find_shared_device, format_dim, must_equal, number_of
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, integer, kind_dtype, tensor, text
from loomir.relax.operator.reference import NPArray, compute_dtype, convert_array, xp
from loomir.relax.operator.rules import common_dtype, need
from loomir.relax.shape import Dim, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import Add, FloorMod, Mul, PrimExpr, Sub

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
T = TensorSample


# -- inference -----------------------------------------------------------------------------------
def _groups(c: OpContext, channels: Dim, what: str) -> None:
    """Check that channels divide into groups. Errors: OPS0063."""
    rest = number_of(c.analyzer.simplify(FloorMod(as_dim(channels), as_dim(c["groups"]))))
    if rest:
        c.refuse(
            "OPS0063",
            f"{format_dim(channels)} {what} channels do not make {c['groups']} groups",
            help="give a number of groups that divides the channels",
            arg=1,
        )


def _infer(count: int, transposed: bool) -> Callable[[OpContext], StructInfo]:
    images = "NC" + _SPATIAL[count]
    kernels = ("IO" if transposed else "OI") + _SPATIAL[count]

    def infer(c: OpContext) -> StructInfo:
        data, weight = c.tensor(0), c.tensor(1)
        layouts = [
            read_named_layout(c, name, letters)
            for name, letters in (
                ("data_layout", images),
                ("kernel_layout", kernels),
                ("out_layout", images),
            )
        ]
        dtype = common_dtype(c, (0, 1))
        need(c, "number", dtype)
        if c["out_dtype"] is not None:
            dtype = c["out_dtype"]
            need(c, "number", dtype)
        if c["groups"] < 1:
            c.refuse("OPS0039", f"groups is {c['groups']}", help="give 1 or more")
        per_axis = [numbers(c, name, count) for name in ("strides", "dilation")]
        if transposed:
            per_axis.append(numbers(c, "output_padding", count, least=0))
        windows = list(zip(read_padding(c, count), *per_axis, strict=True))
        image = extents(c, 0, data, layouts[0], images)
        kernel = extents(c, 1, weight, layouts[1], kernels)
        device, rank = find_shared_device([data, weight]), len(layouts[2].parts)
        if image is None or kernel is None:
            return TensorStructInfo(None, dtype, device, rank)
        rule = _infer_transposed_extents if transposed else _window_extents
        made = extents_in_layout(c, rule(c, image, kernel, windows), layouts[2], images)
        shaped = c.make(made, dtype, ndim=rank)
        return TensorStructInfo(shaped.shape, dtype, device, rank)

    return infer


def _window_extents(
    c: OpContext, image: Sequence[PrimExpr], kernel: Sequence[PrimExpr], windows: Sequence[Any]
) -> list[PrimExpr]:
    """Return the extents of a convolution, where the kernel's are (O, I, …)."""
    taken = c.analyzer.simplify(Mul(kernel[1], as_dim(c["groups"])))
    must_equal(c, image[1], taken, "the channels of the data, and those that the kernel takes,")
    _groups(c, kernel[0], "output")
    slid = [
        steps(c, extent, size, stride, gap, pads)
        for extent, size, (pads, stride, gap) in zip(image[2:], kernel[2:], windows, strict=True)
    ]
    return [image[0], kernel[0], *slid]


def _infer_transposed_extents(
    c: OpContext, image: Sequence[PrimExpr], kernel: Sequence[PrimExpr], windows: Sequence[Any]
) -> list[PrimExpr]:
    """Return the extents of a transposed convolution, where the kernel's are (I, O, …)."""
    must_equal(c, image[1], kernel[0], "the channels of the data, and those that the kernel takes,")
    _groups(c, kernel[0], "input")
    made = [image[0], c.analyzer.simplify(Mul(kernel[1], as_dim(c["groups"])))]
    for extent, size, (pads, stride, gap, more) in zip(image[2:], kernel[2:], windows, strict=True):
        last = Mul(Sub(extent, as_dim(1)), as_dim(stride))
        reach = Mul(Sub(size, as_dim(1)), as_dim(gap))
        whole = c.analyzer.simplify(Add(Add(last, reach), as_dim(1 + more - sum(pads))))
        c.require_order(
            "OPS0062",
            0,
            whole,
            "padding cuts more than there is, and leaves an extent of {1}",
            help="cut less: padding of a transposed convolution shortens its result",
            arg=0,
        )
        if more >= max(stride, gap):
            c.refuse(
                "OPS0039",
                f"output_padding is {more}, with a stride of {stride} and a dilation of {gap}",
                help="give less than the stride or the dilation",
            )
        made.append(whole)
    return made


# -- lowering ------------------------------------------------------------------------------------
def _lower(count: int, transposed: bool) -> Callable[..., Tensor]:
    images = "NC" + _SPATIAL[count]
    kernels = ("IO" if transposed else "OI") + _SPATIAL[count]

    def lower(
        data: Tensor,
        weight: Tensor,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_layout: str,
        out_dtype: DataType | None,
        **more: Any,
    ) -> Tensor:
        image, own = merge_blocks(data, data_layout, images)
        kernel, kernel_own = merge_blocks(weight, kernel_layout, kernels)
        whole = dims(kernel)
        divided = kernel_own.index("I" if transposed else "O")
        # Groups of channels are whole: else the last would reach beyond the end.
        if groups > 1:
            whole[divided] = whole[divided] // groups * groups
        kernel = topi.assume_shape(kernel, whole)
        taken = whole[kernel_own.index("I")]
        known = dims(image)
        known[own.index("C")] = taken if transposed else taken * groups
        image = topi.assume_shape(image, known)
        compute = topi.conv_transpose if transposed else topi.conv
        made = compute(
            image,
            kernel,
            stride=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            layout=own,
            kernel_layout=kernel_own,
            dtype=out_dtype,
            **more,
        )
        return change_layout(made, own, out_layout)

    return lower


# -- references ----------------------------------------------------------------------------------
def _reference(count: int, transposed: bool) -> Callable[..., NPArray]:
    images = "NC" + _SPATIAL[count]
    kernels = ("IO" if transposed else "OI") + _SPATIAL[count]

    def reference(
        data: NPArray,
        weight: NPArray,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_layout: str,
        out_dtype: DataType | None,
        output_padding: Any = (0, 0, 0),
    ) -> NPArray:
        own = dtype_of_numpy(data.dtype)
        assert own is not None
        wanted = out_dtype or own
        inner = dtype_of_numpy(compute_dtype(numpy_of(wanted)))
        assert inner is not None
        image = convert_array(unpack_array(data, data_layout, images), inner)
        kernel = convert_array(unpack_array(weight, kernel_layout, kernels), inner)
        pads = list(zip(padding[:count], padding[count:], strict=True))
        with np.errstate(all="ignore"):
            if transposed:
                made = _transpose(image, kernel, strides, pads, dilation, groups, output_padding)
            else:
                made = _convolve(image, kernel, strides, pads, dilation, groups)
        return convert_array(pack_array(made, images, out_layout), wanted)

    return reference


def _convolve(x: Any, kernel: Any, strides: Any, pads: Any, gaps: Any, groups: int) -> NPArray:
    """Add up what each element of the kernel makes of the images, shifted to it."""
    x = xp.pad(x, ((0, 0), (0, 0), *pads))
    sizes = kernel.shape[2:]
    out = [
        (n - g * (k - 1) - 1) // s + 1
        for n, k, s, g in zip(x.shape[2:], sizes, strides, gaps, strict=True)
    ]
    made = xp.zeros((x.shape[0], kernel.shape[0], *out), x.dtype)
    per, taken = kernel.shape[0] // groups, kernel.shape[1]
    for at in places(*map(range, sizes)):
        cut = tuple(
            slice(k * g, k * g + s * (m - 1) + 1, s)
            for k, g, s, m in zip(at, gaps, strides, out, strict=True)
        )
        for group in range(groups):
            mine = slice(group * per, (group + 1) * per)
            part = x[(slice(None), slice(group * taken, (group + 1) * taken), *cut)]
            factor = kernel[(mine, slice(None), *at)]
            made[:, mine] += xp.einsum("nc...,oc->no...", part, factor)
    return made


def _transpose(
    x: Any, kernel: Any, strides: Any, pads: Any, gaps: Any, groups: int, more: Any
) -> NPArray:
    """Add what each element of the kernel makes of the images to where it goes."""
    sizes, per, taken = kernel.shape[2:], kernel.shape[1], kernel.shape[0] // groups
    whole = [
        max((n - 1) * s + g * (k - 1) + 1, 0) + m
        for n, k, s, g, m in zip(x.shape[2:], sizes, strides, gaps, more)
    ]
    made = xp.zeros((x.shape[0], per * groups, *whole), x.dtype)
    for at in places(*map(range, sizes)):
        cut = tuple(
            slice(k * g, k * g + s * (n - 1) + 1, s)
            for k, g, s, n in zip(at, gaps, strides, x.shape[2:], strict=True)
        )
        for group in range(groups):
            mine = slice(group * taken, (group + 1) * taken)
            part = xp.einsum("nc...,co->no...", x[:, mine], kernel[(mine, slice(None), *at)])
            made[(slice(None), slice(group * per, (group + 1) * per), *cut)] += part
    ends = tuple(slice(b, n - a) for (b, a), n in zip(pads, whole, strict=True))
    result: NPArray = made[(slice(None), slice(None), *ends)]
    return result


# -- definitions ---------------------------------------------------------------------------------
_DOC = """{summary}

Kernels are not flipped (cross-correlation). Channels fall into ``groups``, each of which is
convolved by itself. ``padding``: one number, one for each axis, or those before the axes and then
those after. Layouts may have blocks, as in ``"NCHW4c"``; ``out_layout`` is by default that of the
data, and ``out_dtype``, the dtype of sums, that of the tensors. Shapes: {shapes}"""
_SHAPES = """(N, C, …) and (O, C / groups, …) to (N, O, …), where an extent is
``(n + pads - dilation * (kernel - 1) - 1) // stride + 1``."""
_TRANSPOSED_SHAPES = """(N, C, …) and (C, O / groups, …) to (N, O, …), where an extent is
``(n - 1) * stride - pads + dilation * (kernel - 1) + 1 + output_padding``."""


def _define(
    count: int, samples: Sequence[Sample], mistakes: Sequence[Mistake], transposed: bool = False
) -> Callable[..., Any]:
    spatial = _SPATIAL[count]
    more: list[Any] = [axes("output_padding", (0,) * count)] if transposed else []
    options: dict[str, Any] = {"strides": 1, "padding": 0, "dilation": 1}
    if transposed:
        options["output_padding"] = 0
    return define_op(
        f"nn.conv{count}d" + ("_transpose" if transposed else ""),
        tensor("data"),
        tensor("weight"),
        axes("strides", (1,) * count),
        axes("padding", (0,) * (2 * count)),
        *more,
        axes("dilation", (1,) * count),
        integer("groups", 1),
        text("data_layout", "NC" + spatial),
        text("kernel_layout", ("IO" if transposed else "OI") + spatial),
        text("out_layout", None),
        kind_dtype("out_dtype", None),
        infer=_infer(count, transposed),
        doc=_DOC.format(
            summary="Compute transposed convolutions: scatter elements by the kernel, and sum."
            if transposed
            else "Convolve images with kernels.",
            shapes=_TRANSPOSED_SHAPES if transposed else _SHAPES,
        ),
        family="convolution",
        lower=_lower(count, transposed),
        reference=_reference(count, transposed),
        samples=samples,
        mistakes=mistakes,
        adapt=with_axes(count, **options, out_layout=("data_layout", "NC" + spatial)),
    )


_NEAR = 2e-5
"""What sums of a few products differ by, in whichever order they are added up."""
_X, _K = T((2, 3, 6, 5)), T((4, 3, 3, 3))


def _near(*args: Any, ulps: float = 0, **attrs: Any) -> Sample:
    return Sample(args, attrs, ulps, _NEAR)


conv2d = _define(
    2,
    (
        _near(_X, _K),
        _near(_X, _K, strides=(2, 1), padding=(1, 0), dilation=[1, 2]),
        _near(_X, T((6, 1, 2, 3)), padding=(1, 0, 2, 1), groups=3),
        _near(
            T((1, 6, 5, 4), "float16"),
            T((3, 3, 2, 4), "float16"),
            padding=1,
            data_layout="NHWC",
            kernel_layout="HWIO",
            groups=2,
            ulps=1,
        ),
        Sample(
            (T((1, 2, 4, 4), "int8", -128, 127), T((2, 2, 2, 2), "int8", -128, 127)),
            {"out_dtype": "int32", "strides": (2,)},
        ),
        Sample((T((1, 2, 3, 3), "uint8", 0, 255), T((1, 2, 2, 2), "uint8", 0, 255))),
        _near(
            T((1, 1, 4, 4, 4)),
            T((2, 1, 3, 3, 4, 2)),
            data_layout="NCHW4c",
            kernel_layout="OIHW4i2o",
            out_layout="NHWC",
        ),
        _near(_X, _K, out_layout="NCHW2c"),
        _near(T((0, 3, 4, 4)), _K),
    ),
    (
        Mistake((_X, T((4, 2, 3, 3))), {}, "OPS0032"),
        Mistake((_X, T((4, 3, 7, 3))), {}, "OPS0062"),
        Mistake((_X, T((4, 1, 3, 3))), {"groups": 3}, "OPS0063"),
        Mistake((_X, T((4, 3, 3, 3), "float64")), {}, "OPS0006"),
        Mistake((_X, T((4, 3, 3))), {}, "OPS0030"),
        Mistake((_X, _K), {"data_layout": "NCH"}, "OPS0060"),
        Mistake((_X, _K), {"data_layout": "NCHW4h"}, "OPS0030"),
        Mistake((_X, _K), {"out_layout": "NCHW3c"}, "OPS0037"),
        Mistake((_X, _K), {"strides": (1, 1, 1)}, "OPS0061"),
        Mistake((_X, _K), {"padding": -1}, "OPS0039"),
        Mistake((_X, _K), {"groups": 0}, "OPS0039"),
        Mistake((_X, 1), {}, "OPS0004"),
    ),
)
conv1d = _define(
    1,
    (
        _near(T((2, 3, 6)), T((4, 3, 3))),
        _near(T((2, 4, 7)), T((4, 2, 2)), 2, (1, 0), 2, 2),
        _near(
            T((1, 6, 2), "float64"), T((3, 2, 2), "float64"), data_layout="NWC", kernel_layout="WIO"
        ),
    ),
    (
        Mistake((T((2, 3, 6)), T((4, 2, 3))), {}, "OPS0032"),
        Mistake((T((2, 3, 6)), T((4, 3, 3))), {"dilation": 3}, "OPS0062"),
        Mistake((T((2, 3, 6)), T((4, 3, 3))), {"data_layout": "NCHW"}, "OPS0060"),
    ),
)
conv3d = _define(
    3,
    (
        _near(T((1, 2, 3, 4, 3)), T((2, 2, 2, 3, 2)), padding=(0, 1, 0), strides=(1, 2, 1)),
        _near(T((1, 3, 3, 2, 2)), T((2, 1, 1, 2, 2)), data_layout="NDHWC", groups=2),
    ),
    (Mistake((T((1, 2, 3, 4, 3)), T((2, 1, 2, 3, 2))), {}, "OPS0032"),),
)

_Y, _L = T((2, 3, 4, 3)), T((3, 2, 3, 2))
_MISTAKES = (
    Mistake((_Y, T((2, 2, 3, 2))), {}, "OPS0032"),
    Mistake((_Y, _L), {"padding": 9}, "OPS0062"),
    Mistake((_Y, _L), {"groups": 2}, "OPS0063"),
    Mistake((_Y, _L), {"output_padding": 1}, "OPS0039"),
    Mistake((_Y, _L), {"kernel_layout": "OI"}, "OPS0060"),
)
conv2d_transpose = _define(
    2,
    (
        _near(_Y, _L),
        _near(_Y, _L, (2, 1), (1, 0, 1, 1), (1, 0), (1, 2)),
        _near(T((1, 4, 3, 2)), T((4, 2, 2, 3)), strides=2, groups=2),
        _near(
            T((1, 3, 2, 2), "float16"),
            T((2, 2, 2, 3), "float16"),
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_layout="NCHW",
            ulps=1,
        ),
        Sample((T((1, 2, 2, 2), "int8", -99, 99), T((2, 1, 2, 2), "int8", -99, 99))),
    ),
    _MISTAKES,
    transposed=True,
)
conv1d_transpose = _define(
    1,
    (_near(T((2, 3, 4)), T((3, 2, 3)), 2, 1, 1),),
    (Mistake((T((2, 3, 4)), T((2, 2, 3))), {}, "OPS0032"),),
    transposed=True,
)
conv3d_transpose = _define(
    3,
    (_near(T((1, 2, 2, 3, 2)), T((2, 2, 2, 2, 3)), strides=(1, 2, 1)),),
    (Mistake((T((1, 2, 3, 4, 3)), T((3, 1, 2, 3, 2))), {}, "OPS0032"),),
    transposed=True,
)
