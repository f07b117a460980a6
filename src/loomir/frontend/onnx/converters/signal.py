"""Window functions, Fourier transforms, and mel filter banks."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.fourier import transform, transform_from_half, transform_real
from loomir.frontend.onnx.model import ELEMENTS
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.reference import xp
from loomir.support.array import Array


def _window(*weights: float) -> Converter:
    """Import a window that is a sum of cosines."""

    def convert(node: Node) -> RelaxExpr:
        size = int(node.numbers(0, "size").reshape(-1)[0])
        dtype = ELEMENTS.get(node.get("output_datatype", 1), "float32")
        count = size if node.get("periodic", 1) else size - 1
        turn = 2 * xp.pi * xp.arange(size) / max(count, 1)
        total = xp.sum([w * xp.cos(k * turn) for k, w in enumerate(weights)], axis=0)
        return Constant(Array(xp.asarray(total).astype(dtype)))

    return convert


def _transform(
    node: Node, x: RelaxExpr, length: int, *, inverse: bool, onesided: bool
) -> RelaxExpr:
    """Transform the axis before the last, which holds real and imaginary parts.

    Sums are those of float64: what cancels out is 0 then, as it is in a fast transform.
    """
    kept, dtype = str(node.info_of(x).dtype), "float64"
    if kept != dtype:
        x = node.emit(op.astype(x, dtype))
    dims = node.dims_of(x)
    last = len(dims) - 1
    extent = dims[last - 1]
    if not isinstance(extent, int):
        raise node.refuse("the extent of the axis that it transforms is unknown")
    if extent > length:
        x = node.emit(op.strided_slice(x, [last - 1], [0], [length]))
    elif extent < length:
        pads = [0] * (2 * len(dims))
        pads[2 * (last - 1) + 1] = length - extent
        x = node.emit(op.nn.pad(x, pads))
    parts = dims[last]
    if inverse and onesided:
        raise node.refuse("inverse=1 with onesided=1 is not supported")
    sign, scale = (1, 1.0 / length) if inverse else (-1, 1.0)
    if parts == 2:
        made = transform(node, x, length, dtype, sign=sign, scale=scale)
        if onesided:
            made = node.emit(op.strided_slice(made, [last - 1], [0], [length // 2 + 1]))
    else:
        x = node.emit(op.squeeze(x, [last]))
        made = transform_real(node, x, length, dtype, onesided=onesided, sign=sign, scale=scale)
    return made if kept == dtype else node.emit(op.astype(made, kept))


def _dft(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    rank = len(dims)
    if node.version < 20:
        axis = int(node.get("axis", 1))
    else:
        axis = int(node.numbers(2, "axis").reshape(-1)[0]) if node.has(2) else -2
    axis = node.count_axis(axis, rank)
    length = dims[axis]
    if node.has(1):
        length = int(node.numbers(1, "length").reshape(-1)[0])
    if not isinstance(length, int):
        raise node.refuse("the extent of the axis that it transforms is unknown")
    order = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    x = node.emit(op.permute_dims(node[0], order))
    inverse = bool(node.get("inverse", 0))
    onesided = bool(node.get("onesided", 0))
    if inverse and onesided:
        made = _real_inverse(node, x, length, given=node.has(1))
    else:
        made = _transform(node, x, length, inverse=inverse, onesided=onesided)
    back = [order.index(i) for i in range(rank)]
    return op.permute_dims(made, back)


def _real_inverse(node: Node, x: RelaxExpr, length: int, *, given: bool) -> RelaxExpr:
    """Make real numbers of the first half of a spectrum, of which the rest is the mirror."""
    dims = node.dims_of(x)
    last = len(dims) - 1
    half = dims[last - 1]
    if not isinstance(half, int):
        raise node.refuse("the extent of the axis that it transforms is unknown")
    whole = length if given else 2 * (half - 1)
    dtype = str(node.info_of(x).dtype)
    needed = whole // 2 + 1
    if half > needed:
        x = node.emit(op.strided_slice(x, [last - 1], [0], [needed]))
    elif half < needed:
        pads = [0] * (2 * len(dims))
        pads[2 * (last - 1) + 1] = needed - half
        x = node.emit(op.nn.pad(x, pads))
    made = transform_from_half(node, x, whole, dtype, scale=1.0 / max(whole, 1))
    return node.emit(op.expand_dims(made, [last]))


def _stft(node: Node) -> RelaxExpr:
    samples, *parts = node.dims(0)[1:]
    step = int(node.numbers(1, "step").reshape(-1)[0])
    window = node[2] if node.has(2) else None
    if node.has(3):
        length = int(node.numbers(3, "length").reshape(-1)[0])
    elif window is not None:
        length = int(node.dims(2)[0])
    else:
        raise node.refuse("it has neither window nor frame_length")
    if not isinstance(samples, int):
        raise node.refuse("the length of its signal is unknown")
    frames = (samples - length) // step + 1
    places = step * xp.arange(frames)[:, None] + xp.arange(length)
    x = node[0] if parts else node.emit(op.expand_dims(node[0], [2]))
    cut = node.emit(op.take(x, Constant(Array(places.astype("int32"))), 1))
    if window is not None:
        shaped = node.emit(op.reshape(window, (1, 1, length, 1)))
        cut = node.emit(op.multiply(cut, shaped))
    onesided = bool(node.get("onesided", 1))
    return _transform(node, cut, length, inverse=False, onesided=onesided)


def _mel_weights(node: Node) -> RelaxExpr:
    bins, length, rate = [int(node.numbers(i, "size").reshape(-1)[0]) for i in range(3)]
    low, high = [float(node.numbers(i, "bound").reshape(-1)[0]) for i in (3, 4)]
    dtype = ELEMENTS.get(node.get("output_datatype", 1), "float32")
    rows = length // 2 + 1
    bounds = [2595 * xp.log10(1 + f / 700) for f in (low, high)]
    step = (bounds[1] - bounds[0]) / (bins + 2)
    mels = xp.arange(bins + 2) * step + bounds[0]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype("int64")
    made: Any = xp.zeros((rows, bins))
    for i in range(bins):
        first, middle, last = edges[i : i + 3]
        if middle == first:
            made[middle, i] = 1
        else:
            for j in range(first, middle + 1):
                made[j, i] = (j - first) / (middle - first)
        if last > middle:
            for j in range(middle, last):
                made[j, i] = (last - j) / (last - middle)
    return Constant(Array(made.astype(dtype)))


ROWS: Final[tuple[Row, ...]] = (
    row("BlackmanWindow", _window(0.42, -0.5, 0.08)),
    row("DFT", _dft),
    row("HammingWindow", _window(25 / 46, -21 / 46)),
    row("HannWindow", _window(0.5, -0.5)),
    row("MelWeightMatrix", _mel_weights),
    row("STFT", _stft),
)
