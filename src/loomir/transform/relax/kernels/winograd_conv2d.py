"""Winograd convolution: fewer multiplications, on transformed tiles, if the cost model approves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.op.nn.layouts import unpack_array
from loomir.relax.expr import Call, Constant, Var
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.reference import NPArray
from loomir.relax.shape import as_dim
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.te.tensor import Tensor
from loomir.te.topi.nn.winograd import Plane, Winograd, winograd, winograd_image, winograd_result
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.rules import refuse
from loomir.transform.relax.graph_reading import extent_of, make_call, operator_of, tensor_info

__all__ = ["WinogradConv2DOptions", "winograd_conv2d"]

_KERNEL: Final = 3
"""The length of the kernels that are transformed."""
_POINTS: Final[dict[int, tuple[Fraction | int, ...]]] = {
    2: (0, 1, -1),
    4: (0, 1, -1, Fraction(1, 2), -2),
}
"""The interpolation points, for each number of results in a tile: powers of 2, which are exact.
With 2 and -2, errors are larger: 5.6e-5 of the results of a ResNet-50 instead of 3.6e-5."""
_TYPES: Final = ("float32", "float64")
_OPAQUE: Final = 8
"""The ``op_pattern`` of kernels that must not be fused."""
_WORTH: Final = 1 << 17
"""Elements of transformed tiles from which threads pay: about 20 us of work."""


@dataclass(frozen=True, slots=True)
class WinogradConv2DOptions:
    """How to transform convolutions.

    ``tile``: results of a tile along an axis, 2 or 4; by default the faster one. ``always``: even
    if it is not expected to pay. ``target``: the machine for that estimate. ``constant``: only
    constant kernels of float32, and only if it clearly pays.
    """

    tile: int | None = None
    always: bool = False
    target: str | Target = "native"
    constant: bool = False


@register("relax.WinogradConv2D", requires={"relax_normal_form"})
def winograd_conv2d(
    mod: IRModule, options: WinogradConv2DOptions = WinogradConv2DOptions()
) -> IRModule:
    """Compute ``nn.conv2d`` with kernels of 3 x 3 by Winograd's transforms, if that is faster.

    Tiles of images and kernels are transformed, multiplied by one matrix product for each of the 36
    or 16 elements of a tile, and transformed back. Strides and dilation must be 1, without groups;
    images must be float32 or float64 in ``"NCHW"`` or ``"NHWC"``, and all extents except the batch
    must be numbers. Constant kernels are transformed at compile time. Results are rounded
    differently than sums of products, and an infinity or NaN reaches all results of its tile.
    Errors: RLX0331 for a tile of another size.
    """
    if options.tile is not None and options.tile not in _POINTS:
        refuse(
            "RLX0331",
            f"tiles cannot have {options.tile} results",
            help="give 2 or 4, or leave it out",
        )
    machine = Target(options.target)
    rewriter = _Rewriter(mod, options, machine)
    return rewriter.rewrite_module()


class _Conv(NamedTuple):
    """A convolution that can be transformed."""

    batch: PrimExpr
    dtype: DataType
    plane: Plane
    channels: int
    out_channels: int
    channels_last: bool
    kernel_layout: str
    kernel: NPArray | None
    """The kernel's contents, (O, I, H, W), if they are constant."""


@cache
def _way(tile: int) -> Winograd:
    return winograd(tile, _KERNEL, _POINTS[tile])


class _Rewriter(Rewriter):
    def __init__(self, mod: IRModule, options: WinogradConv2DOptions, machine: Target) -> None:
        super().__init__(mod)
        self.options = options
        self.machine = machine

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Write a convolution as a product of transformed tiles."""
        conv = self._read(call) if operator_of(call) == "nn.conv2d" else None
        tile = None if conv is None else self._tile(conv)
        if conv is None or tile is None:
            return call
        kernel = self._kernel(call.args[1], conv, _way(tile))
        cuts = _cuts(conv, _way(tile))
        if len(cuts) == 1:
            return self._convolve(call.args[0], kernel, conv, _way(tile))
        emit = self.builder.emit
        parts: list[RelaxExpr] = []
        for first, end in cuts:
            images = emit(make_call("strided_slice", call.args[0], [0], [first], [end]))
            part = conv._replace(batch=as_dim(end - first))
            parts.append(emit(self._convolve(images, kernel, part, _way(tile))))
        return make_call("concat", parts, 0)

    def _convolve(self, data: RelaxExpr, kernel: RelaxExpr, conv: _Conv, way: Winograd) -> Call:
        """Write a product of transformed tiles."""
        emit = self.builder.emit
        if not conv.channels_last:
            data = emit(make_call("permute_dims", data, [0, 2, 3, 1]))
        lanes = self.machine.lanes(conv.dtype.bits)
        size = way.size**2 * _images(conv) * conv.plane.count(way.step)

        def image(x: Tensor) -> Tensor:
            return winograd_image(x, way, conv.plane, lanes, _is_parallel(size * conv.channels))

        def result(x: Tensor, batch: Any) -> Tensor:
            threads = _is_parallel(size * conv.out_channels)
            return winograd_result(x, batch, way, conv.plane, lanes, threads)

        product = emit(make_call("matmul", emit(self._transform(image, data)), kernel))
        back = self._transform(result, product, conv.batch)
        if conv.channels_last:
            return back
        return make_call("permute_dims", emit(back), [0, 3, 1, 2])

    def _transform(self, compute: Callable[..., Tensor], *given: Any) -> Call:
        """Call a transform as a kernel that is not fused: its loops are scheduled already."""
        name = f"winograd_{compute.__name__}"
        attrs = {"op_pattern": _OPAQUE}
        return self.builder.call_te(compute, *given, primfunc_name_hint=name, primfunc_attrs=attrs)

    def _kernel(self, weight: RelaxExpr, conv: _Conv, way: Winograd) -> RelaxExpr:
        """Transform a kernel: a matrix (I, O) for each element of a tile."""
        matrix = np.array([[float(c) for c in row] for row in way.kernel])
        both: Any = np.kron(matrix, matrix)
        if conv.kernel is not None:
            kernel: Any = conv.kernel
            flat = kernel.reshape(-1, _KERNEL**2).astype("float64")
            places: Any = (both @ flat.T).astype(kernel.dtype)
            shape = (-1, conv.out_channels, conv.channels)
            transposed: Any = places.reshape(shape).transpose(0, 2, 1)
            return Constant(Array(transposed.copy()))
        emit = self.builder.emit
        order = [conv.kernel_layout.index(letter) for letter in "OIHW"]
        rows = conv.out_channels * conv.channels
        each = emit(
            make_call("reshape", emit(make_call("permute_dims", weight, order)), (rows, _KERNEL**2))
        )
        factor = Constant(Array(both.T.astype(str(conv.dtype))))
        product = emit(make_call("matmul", each, factor))
        planes = (conv.out_channels, conv.channels, way.size**2)
        return emit(
            make_call("permute_dims", emit(make_call("reshape", product, planes)), [2, 1, 0])
        )

    # -- selection -------------------------------------------------------------------------------
    def _read(self, call: Call) -> _Conv | None:
        """Read a convolution; None for one that cannot be transformed."""
        data, weight = (tensor_info(arg) for arg in call.args)
        options = call.attrs
        layout, kernel_layout = options["data_layout"], options["kernel_layout"]
        if data is None or weight is None or layout not in ("NCHW", "NHWC"):
            return None
        plain = (
            str(data.dtype) in _TYPES
            and options["out_dtype"] in (None, data.dtype)
            and options["out_layout"] == layout
            and sorted(kernel_layout) == sorted("OIHW")
            and options["strides"] == options["dilation"] == (1, 1)
            and options["groups"] == 1
            and data.vdevice is None
            and weight.vdevice is None
        )
        if not plain or data.dims is None:
            return None
        image = {letter: extent_of(data, axis) for axis, letter in enumerate(layout)}
        kernel = {letter: extent_of(weight, axis) for axis, letter in enumerate(kernel_layout)}
        channels, out_channels = image["C"], kernel["O"]
        height, width = image["H"], image["W"]
        if not channels or not out_channels or not height or not width:
            return None
        if kernel["H"] != _KERNEL or kernel["W"] != _KERNEL or kernel["I"] != channels:
            return None
        top, left, bottom, right = options["padding"]
        out_height, out_width = (
            height + top + bottom - _KERNEL + 1,
            width + left + right - _KERNEL + 1,
        )
        if out_height < 1 or out_width < 1:
            return None
        plane = Plane(height, width, top, left, out_height, out_width)
        found = self._constant(call.args[1])
        if found is not None:
            found = unpack_array(found, kernel_layout, "OIHW")
        last = layout == "NHWC"
        return _Conv(
            data.dims[0], data.dtype, plane, channels, out_channels, last, kernel_layout, found
        )

    def _constant(self, leaf: RelaxExpr) -> NPArray | None:
        """Return the contents of a constant, which may be bound to a variable."""
        if isinstance(leaf, Var):
            leaf = self.builder.lookup_binding(leaf) or leaf
        return leaf.data.read_once() if isinstance(leaf, Constant) else None

    def _tile(self, conv: _Conv) -> int | None:
        """Choose the tile of a convolution; None if it should stay direct."""
        sizes = _POINTS if self.options.tile is None else (self.options.tile,)
        lanes = self.machine.lanes(conv.dtype.bits)
        costs = {tile: _estimate_transformed(conv, _way(tile), lanes) for tile in sizes}
        best = min(costs, key=lambda tile: costs[tile])
        if self.options.constant and 2 in costs and costs[best] > _LARGE_GAIN * costs[2]:
            best = 2
        if self.options.always:
            return best
        gain = _GAIN
        if self.options.constant:
            gain = _CLEAR_GAIN
            if conv.kernel is None or str(conv.dtype) != "float32":
                return None
        pays = costs[best] < gain * _direct(conv, lanes)
        return best if pays and _fits(conv, _way(best)) else None


# -- cost ----------------------------------------------------------------------------------------
# These numbers were fitted by hand to the sizes of the table in docs/performance.md (Winograd).
_GAIN: Final = 0.9
"""The most that the transformed convolution may take, relative to the direct one."""
_CLEAR_GAIN: Final = 0.75
"""The same if the user did not ask for it: transformed kernels take up to four times the memory."""
_LARGE_GAIN: Final = 0.7
"""The most that tiles of 4 results may take, relative to those of 2, unless the user asks for them:
their errors are two to three times as large; those of 2 are no larger than those of direct sums."""
_BYTES: Final = 8
"""Bytes of tiles that can be moved in the time of one vector multiplication."""
_WEIGHT_BYTES: Final = 5
"""The same for bytes of weights, which come from farther away."""
_MOST_BYTES: Final = 1 << 27
"""The most bytes of a convolution's tiles: an arena of up to twice as many is kept between calls;
beyond, writing to fresh pages costs more than the transforms save."""
_PART_BYTES: Final = 1 << 23
"""Bytes of tiles up to which several images are computed together. One by one, those 8 images took
a half of the time for 4 together; but each time all weights are read."""
_MOST_CUTS: Final = 16
"""The most parts of a batch, since each part is several calls."""
_UNKNOWN: Final = 8
"""The number of images that is assumed for memory if the batch is symbolic."""


def _images(conv: _Conv) -> int:
    """Return the number of images; 1 if it is symbolic."""
    batch = conv.batch
    return batch.value if isinstance(batch, IntImm) else 1


def _direct(conv: _Conv, lanes: int) -> float:
    """Estimate the time of a direct convolution, in vector multiplications."""
    pairs = conv.channels * conv.out_channels * _KERNEL**2
    points = _images(conv) * conv.plane.out_height * conv.plane.out_width
    return pairs * (points / lanes + conv.dtype.bits / 8 / _WEIGHT_BYTES)


def _estimate_transformed(conv: _Conv, way: Winograd, lanes: int) -> float:
    """Estimate the time with transforms: products, and moving tiles and weights."""
    size = conv.dtype.bits / 8
    tiles = _images(conv) * conv.plane.count(way.step)
    pairs = conv.channels * conv.out_channels
    moved = 2 * tiles * (conv.channels + conv.out_channels) * size
    weights = pairs * size / _WEIGHT_BYTES * len(_cuts(conv, way))
    if conv.kernel is None:  # the kernel is transformed in each call
        weights += 4 * pairs * size / _WEIGHT_BYTES
    return way.size**2 * (pairs * tiles / lanes + moved / _BYTES + weights)


def _live_bytes(conv: _Conv, way: Winograd) -> int:
    """Count the bytes of an image that are live at the same time: its tiles, and its transpose."""
    plane = conv.plane
    each = way.size**2 * plane.count(way.step) * (conv.channels + conv.out_channels)
    if not conv.channels_last:
        each += plane.height * plane.width * conv.channels
    return each * conv.dtype.bits // 8


def _count_images_together(conv: _Conv, way: Winograd) -> int:
    """Return how many images are computed together: an equal number in each part, if possible."""
    images, most = _images(conv), max(1, _PART_BYTES // _live_bytes(conv, way))
    if images <= most:
        return images
    even = next(n for n in range(most, 0, -1) if images % n == 0)
    return even if 2 * even > most else most


def _cuts(conv: _Conv, way: Winograd) -> list[tuple[int, int]]:
    """Split a batch into parts; a symbolic one is one part."""
    images, together = _images(conv), _count_images_together(conv, way)
    firsts = range(0, images, max(1, together))
    return [(first, min(first + together, images)) for first in firsts] or [(0, 0)]


def _fits(conv: _Conv, way: Winograd) -> bool:
    """Tell whether the tiles fit into memory that is kept between calls, in few parts."""
    known = isinstance(conv.batch, IntImm)
    images = _count_images_together(conv, way) if known else _UNKNOWN
    return images * _live_bytes(conv, way) <= _MOST_BYTES and len(_cuts(conv, way)) <= _MOST_CUTS


def _is_parallel(elements: int) -> bool:
    """Tell whether so many elements are worth several threads."""
    return elements >= _WORTH
