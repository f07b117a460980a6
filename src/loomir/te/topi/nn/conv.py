"""Convolutions and transposed convolutions.

Images have one to three spatial axes. Layouts are words such as ``"NCHW"``; in those of kernels,
``O`` is the output channels and ``I`` the input channels: ``"OIHW"``.
"""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.caller_span import user_span
from loomir.support.dtype import DataType
from loomir.te.reduction import ReduceAxis, reduce_axis, sum
from loomir.te.scalar import all_of
from loomir.te.tensor import Tensor
from loomir.te.topi.layout import PerAxis, Window, default_layout, expand_per_axis, pads_of, places
from loomir.te.topi.loops import greater_size
from loomir.te.topi.pad import pad
from loomir.te.topi.shape import (
    Size,
    bad,
    compute_dtype,
    dims,
    has_equal_sizes,
    make,
    need,
    write_shape,
)
from loomir.tir.expr import ExprLike, PrimExpr, cast, convert
from loomir.tir.rules import refuse

__all__ = ["conv", "conv_transpose"]


def conv(
    x: Tensor,
    weight: Tensor,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str | None = None,
    kernel_layout: str | None = None,
    dtype: str | DataType | None = None,
) -> Tensor:
    """Convolve images with kernels.

    The kernel is not flipped (cross-correlation). Input and output channels fall into
    ``groups``, each of which is convolved separately; as many groups as channels make it depthwise.
    ``padding``: zeros, as in ``max_pool``. ``layout``: channels first where it is left out,
    ``kernel_layout``: then ``"OIHW"``. ``dtype``: of the sums, that of ``x`` where it is left out,
    so that small integers wrap. 16-bit floats are summed in float32, and rounded once.
    Shapes: (N, C, ...) and (O, C / groups, ...) to (N, O, ...), where an extent is
    ``(n + pads - dilation * (kernel - 1) - 1) // stride + 1``.
    Errors: TE0101, TE0103, TE0104.
    """
    parts = _Parts("conv", x, weight, groups, layout, kernel_layout, dtype)
    sizes = [parts.weights[a] for a in parts.kernel_at]
    windows = parts.windows(sizes, stride, dilation, padding)
    channels, out_channels = parts.weights[parts.i], parts.weights[parts.o]
    parts.fit(parts.shape[parts.c], channels if groups == 1 else channels * groups)
    per_group = parts.split(out_channels, "output")
    out = list(parts.shape)
    out[parts.c] = out_channels
    for axis, window in zip(parts.at, windows, strict=True):
        out[axis] = window.steps("conv", out[axis])
    widths: list[tuple[Size, Size]] = [(0, 0)] * x.ndim
    for axis, window in zip(parts.at, windows, strict=True):
        widths[axis] = (window.before, window.after)
    padded = pad(x, widths) if any(w != (0, 0) for w in widths) else x
    rc = reduce_axis((0, convert(channels)), "rc")
    over = [reduce_axis((0, convert(s)), f"k{a}") for a, s in zip(parts.at, sizes, strict=True)]

    def formula(*i: PrimExpr) -> PrimExpr:
        place, kernel = list(i), parts.kernel(i[parts.c], rc, over)
        place[parts.c] = rc if groups == 1 else parts.group(i[parts.c], per_group) * channels + rc
        for axis, window, k in zip(parts.at, windows, over, strict=True):
            place[axis] = i[axis] * window.stride + k * window.dilation
        return sum(parts.product(padded(*place), weight(*kernel)), [rc, *over])

    return parts.finish(make("conv", out, formula))


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str | None = None,
    kernel_layout: str | None = None,
    dtype: str | DataType | None = None,
) -> Tensor:
    """Compute transposed convolutions: scatter elements by the kernel, and sum.

    It is the transpose of ``conv`` with the same parameters. ``padding``: how much is cut at the
    ends; ``output_padding``: how much is added back after the end. ``kernel_layout``: ``"IOHW"``
    where it is left out. The other parameters are those of ``conv``.
    Shapes: (N, C, ...) and (C, O / groups, ...) to (N, O, ...), where an extent is
    ``(n - 1) * stride - pads + dilation * (kernel - 1) + 1 + output_padding``.
    Errors: TE0101, TE0103, TE0104.
    """
    name = "conv_transpose"
    if kernel_layout is None:
        kernel_layout = "IO" + default_layout(x.ndim - 2)[2:]
    parts = _Parts(name, x, weight, groups, layout, kernel_layout, dtype)
    count = len(parts.at)
    sizes = [parts.weights[a] for a in parts.kernel_at]
    windows = parts.windows(sizes, stride, dilation, padding)
    extra = expand_per_axis(name, "the output padding", output_padding, count, 0)
    per_group = parts.weights[parts.o]
    parts.fit(parts.shape[parts.c], parts.weights[parts.i])
    channels = parts.split(parts.shape[parts.c], "input")
    out = list(parts.shape)
    out[parts.c] = per_group * groups
    for axis, window, more in zip(parts.at, windows, extra, strict=True):
        cut = window.before + window.after
        made = (out[axis] - 1) * window.stride + window.reach() + (more - cut)
        if isinstance(made, int) and made < 0:
            bad(name, f"the padding {padding} leaves an extent of {made}", "cut less")
        out[axis] = greater_size(made, 0)
    rc = reduce_axis((0, convert(channels)), "rc")
    over = [reduce_axis((0, convert(s)), f"k{a}") for a, s in zip(parts.at, sizes, strict=True)]

    def formula(*i: PrimExpr) -> PrimExpr:
        place, inside = list(i), list[ExprLike]()
        group = parts.group(i[parts.c], per_group)
        channel = rc if groups == 1 else group * channels + rc
        own = i[parts.c] if groups == 1 else i[parts.c] - group * per_group
        kernel = parts.kernel(own, channel, over)
        place[parts.c] = channel
        for axis, window, k in zip(parts.at, windows, over, strict=True):
            here = i[axis] + window.before - k * window.dilation
            place[axis] = here // window.stride
            inside += [here >= 0, place[axis] < parts.shape[axis]]
            if window.stride > 1:
                inside.append((here % window.stride).equal(0))
        product = parts.product(x(*place), weight(*kernel))
        return sum(product, [rc, *over], where=all_of(*inside))

    return parts.finish(make(name, out, formula))


class _Parts:
    """The parts of a convolution: the positions of its axes, and its numbers of channels."""

    def __init__(
        self,
        name: str,
        x: Tensor,
        weight: Tensor,
        groups: int,
        layout: str | None,
        kernel_layout: str | None,
        dtype: str | DataType | None,
    ) -> None:
        self.name, self.groups = name, groups
        need(name, "number", x, weight)
        count = x.ndim - 2
        if not 1 <= count <= 3 or weight.ndim != x.ndim:
            bad(
                name,
                f"the image has shape {write_shape(dims(x))}, "
                f"the kernel {write_shape(dims(weight))}",
                "give both 3 to 5 axes: of the image a batch and channels, of the kernel output "
                "and input channels, then spatial axes",
            )
        if groups < 1:
            bad(name, f"there are {groups} groups", "give 1 or more")
        images = default_layout(count)
        kernels = "OI" + images[2:]
        _, self.c, *self.at = places(name, images if layout is None else layout, images)
        kernel_layout = kernels if kernel_layout is None else kernel_layout
        self.o, self.i, *self.kernel_at = places(name, kernel_layout, kernels)
        self.shape, self.weights = dims(x), dims(weight)
        self.dtype = x.dtype if dtype is None else DataType(str(dtype))
        self.inner = compute_dtype(self.dtype)

    def windows(
        self, sizes: Sequence[Size], stride: PerAxis, dilation: PerAxis, padding: PerAxis
    ) -> list[Window]:
        """Return the window of each spatial axis."""
        count = len(self.at)
        strides = expand_per_axis(self.name, "the stride", stride, count)
        gaps = expand_per_axis(self.name, "the dilation", dilation, count)
        pads = pads_of(self.name, padding, count)
        return [Window(*w) for w in zip(sizes, strides, gaps, pads, strict=True)]

    def group(self, channel: PrimExpr, per_group: Size) -> PrimExpr:
        """Return the group of an output channel."""
        # Without channels nothing is computed, but 0 is no divisor either.
        return channel // (1 if isinstance(per_group, int) and per_group == 0 else per_group)

    def fit(self, channels: Size, wanted: Size) -> None:
        """Require that the image has the channels that the kernel takes."""
        if not has_equal_sizes(channels, wanted):
            refuse(
                "TE0101",
                f"{self.name}: the image has {channels} channels, the kernel is for {wanted}",
                help="give a kernel whose input channels, in all groups, are those of the image",
                span=user_span(),
            )

    def split(self, channels: Size, what: str) -> Size:
        """Return the channels of each group."""
        if isinstance(channels, int) and channels % self.groups:
            bad(
                self.name,
                f"{channels} {what} channels do not make {self.groups} groups",
                "give a number of groups that divides the channels",
            )
        return channels if self.groups == 1 else channels // self.groups

    def kernel(
        self, output: PrimExpr, channel: PrimExpr, over: Sequence[ReduceAxis]
    ) -> list[PrimExpr]:
        """Return the indices of an element of the kernel."""
        made = [output] * (2 + len(over))
        made[self.i] = channel
        for axis, k in zip(self.kernel_at, over, strict=True):
            made[axis] = k
        return made

    def product(self, value: PrimExpr, factor: PrimExpr) -> PrimExpr:
        """Multiply in the dtype of the sums."""
        return cast(value, self.inner) * cast(factor, self.inner)

    def finish(self, total: Tensor) -> Tensor:
        """Round the sums once."""
        if self.inner is self.dtype:
            return total
        return make(self.name, dims(total), lambda *i: cast(total(*i), self.dtype))
