"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.windows import choose_padding, read_per_axis
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr

_CONVOLUTIONS: Final = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSES: Final = {
    1: op.nn.conv1d_transpose,
    2: op.nn.conv2d_transpose,
    3: op.nn.conv3d_transpose,
}


def _kernel(node: Node) -> tuple[list[Any], list[int]]:
    """Return the extents of the image and of the kernel."""
    image = node.dims(0)[2:]
    kernel = node.dims(1)[2:]
    if len(image) not in _CONVOLUTIONS:
        raise node.refuse(f"convolution over {len(image)} spatial axes is not supported")
    if not all(isinstance(k, int) for k in kernel):
        raise node.refuse("the shape of its weight is unknown")
    return image, kernel


def _conv(node: Node) -> RelaxExpr:
    made = node.emit(convolve(node, node[0], node[1]))
    return with_bias(node, made)


def convolve(node: Node, data: RelaxExpr, weight: RelaxExpr, out: str | None = None) -> RelaxExpr:
    """Convolve as the attributes of a node say."""
    image, kernel = _kernel(node)
    axes = len(image)
    strides, dilations = [read_per_axis(node, name, axes) for name in ("strides", "dilations")]
    return _CONVOLUTIONS[axes](
        data,
        weight,
        strides=strides,
        padding=choose_padding(node, image, kernel, strides, dilations),
        dilation=dilations,
        groups=int(node.get("group", 1)),
        out_dtype=out,
    )


def with_bias(node: Node, made: RelaxExpr) -> RelaxExpr:
    """Add the third input to the channels of an image."""
    if not node.has(2):
        return made
    axes = node.rank(0) - 2
    channels = node.dims(2)[0]
    return op.add(made, node.emit(op.reshape(node[2], (1, channels, *[1] * axes))))


def _conv_transpose(node: Node) -> RelaxExpr:
    image, kernel = _kernel(node)
    axes = len(image)
    strides, dilations = [read_per_axis(node, name, axes) for name in ("strides", "dilations")]
    more = [int(v) for v in node.get("output_padding", [0] * axes)]
    pads = _read_transposed_pads(node, image, kernel, strides, dilations, more)
    # What is put after may be more than what the operator takes: it is added at the end.
    made = node.emit(
        _TRANSPOSES[axes](
            node[0],
            node[1],
            strides=strides,
            padding=[max(p, 0) for p in pads],
            output_padding=[0] * axes,
            dilation=dilations,
            groups=int(node.get("group", 1)),
        )
    )
    grown = [more[i] + max(-pads[axes + i], 0) for i in range(axes)]
    if any(grown):
        widths = [0, 0, 0, 0, *[v for g in grown for v in (0, g)]]
        made = _with_tail(node, made, pads, grown, widths)
    return with_bias(node, made)


def _with_tail(
    node: Node, made: RelaxExpr, pads: list[int], grown: list[int], widths: list[int]
) -> RelaxExpr:
    """Restore what was cut off at the end, as far as there is, then pad with zeros."""
    axes = len(grown)
    cut = [min(g, max(pads[axes + i], 0)) for i, g in enumerate(grown)]
    if any(cut):
        strides, dilations = [read_per_axis(node, name, axes) for name in ("strides", "dilations")]
        ends = [max(pads[axes + i], 0) - cut[i] for i in range(axes)]
        made = node.emit(
            _TRANSPOSES[axes](
                node[0],
                node[1],
                strides=strides,
                padding=[*[max(p, 0) for p in pads[:axes]], *ends],
                output_padding=[0] * axes,
                dilation=dilations,
                groups=int(node.get("group", 1)),
            )
        )
    left = [0, 0, 0, 0, *[v for g, c in zip(grown, cut) for v in (0, g - c)]]
    return node.emit(op.nn.pad(made, left)) if any(left) else made


def _read_transposed_pads(
    node: Node,
    image: list[Any],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    more: list[int],
) -> list[int]:
    axes = len(image)
    wanted = node.get("output_shape")
    auto = node.get("auto_pad", "NOTSET")
    if wanted is None and auto in ("NOTSET", "VALID", ""):
        return choose_padding(node, image, kernel, strides, dilations)
    before: list[int] = []
    after: list[int] = []
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations)):
        extent = image[i]
        if not isinstance(extent, int):
            raise node.refuse("output_shape and auto_pad need known extents")
        target = extent * s if wanted is None else int(wanted[-axes:][i])
        total = s * (extent - 1) + more[i] + (k - 1) * d + 1 - target
        if total < 0:  # all that is made is too little: zeros follow it
            before.append(0)
            after.append(total)
            continue
        less = total // 2
        first = total - less if auto == "SAME_LOWER" else less
        before.append(first)
        after.append(total - first)
    return before + after


ROWS: Final[tuple[Row, ...]] = (
    row("Conv", _conv, note="images of more than three axes"),
    row("ConvTranspose", _conv_transpose, note="images of more than three axes"),
)
