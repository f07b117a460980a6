"""Convolutions, transposed convolutions, and their gradients."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr

_CONVOLUTIONS: Final = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSES: Final = {
    1: op.nn.conv1d_transpose,
    2: op.nn.conv2d_transpose,
    3: op.nn.conv3d_transpose,
}


def _add_batch(node: Node, x: RelaxExpr, rank: int) -> RelaxExpr:
    """Return images with an axis of a batch, which one image may lack."""
    dims = node.dims_of(x)
    return x if len(dims) == rank else node.emit(op.reshape(x, (1, *dims)))


def _with_bias(node: Node, made: RelaxExpr, bias: Any, axes: int) -> RelaxExpr:
    if bias is None:
        return made
    (channels,) = node.dims_of(bias)
    return op.add(made, node.emit(op.reshape(bias, (1, channels, *[1] * axes))))


def _drop_batch(node: Node, made: RelaxExpr) -> RelaxExpr:
    shape = node.shape
    bound = node.emit(made)
    return bound if len(node.dims_of(bound)) == len(shape) else op.reshape(bound, tuple(shape))


def _compute_same_padding(node: Node, kernel: list[int], dilation: list[int]) -> list[int]:
    totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
    before = [t // 2 for t in totals]
    return [*before, *[t - b for t, b in zip(totals, before)]]


def _kernel(node: Node, weight: RelaxExpr) -> list[int]:
    kernel = node.dims_of(weight)[2:]
    if len(kernel) not in _CONVOLUTIONS:
        raise node.refuse(f"convolution over {len(kernel)} spatial axes is not supported")
    if not all(isinstance(k, int) for k in kernel):
        raise node.refuse("the shape of its weight is unknown")
    return kernel


@register("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default",
          "aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")  # fmt: skip
def _conv(node: Node) -> RelaxExpr:
    weight = node.tensor(1)
    kernel = _kernel(node, weight)
    axes = len(kernel)
    strides, dilation = node.ints("stride", axes), node.ints("dilation", axes)
    if isinstance(node["padding"], str):
        same = node["padding"] == "same"
        padding = _compute_same_padding(node, kernel, dilation) if same else [0] * (2 * axes)
    else:
        padding = node.ints("padding", axes) * 2
    data = _add_batch(node, node.tensor(0), axes + 2)
    made = node.emit(
        _CONVOLUTIONS[axes](
            data, weight, strides=strides, padding=padding, dilation=dilation,
            groups=int(node["groups"]),
        )
    )  # fmt: skip
    return _drop_batch(node, _with_bias(node, made, node[2], axes))


@register("aten.convolution.default", "aten._convolution.default")
def _convolution(node: Node) -> RelaxExpr:
    weight = node.tensor(1)
    kernel = _kernel(node, weight)
    axes = len(kernel)
    strides, padding, dilation = [
        node.ints(name, axes) for name in ("stride", "padding", "dilation")
    ]
    groups = int(node["groups"])
    data = _add_batch(node, node.tensor(0), axes + 2)
    if node["transposed"]:
        more = node.ints("output_padding", axes)
        made = _transpose_convolution(
            node, data, weight, (strides, padding, dilation, more), groups
        )
    else:
        made = node.emit(
            _CONVOLUTIONS[axes](
                data, weight, strides=strides, padding=padding * 2, dilation=dilation,
                groups=groups,
            )
        )  # fmt: skip
    return _drop_batch(node, _with_bias(node, made, node[2], axes))


@register("aten.conv_transpose1d.default", "aten.conv_transpose2d.input",
          "aten.conv_transpose3d.input")  # fmt: skip
def _conv_transpose(node: Node) -> RelaxExpr:
    weight = node.tensor(1)
    axes = len(_kernel(node, weight))
    strides, padding, dilation, more = [
        node.ints(name, axes) for name in ("stride", "padding", "dilation", "output_padding")
    ]
    data = _add_batch(node, node.tensor(0), axes + 2)
    made = _transpose_convolution(
        node, data, weight, (strides, padding, dilation, more), int(node["groups"])
    )
    return _drop_batch(node, _with_bias(node, made, node[2], axes))


def _transpose_convolution(
    node: Node,
    data: RelaxExpr,
    weight: RelaxExpr,
    window: tuple[list[int], list[int], list[int], list[int]],
    groups: int,
) -> RelaxExpr:
    """Transpose a convolution; what is put after the image may be more than its stride."""
    strides, padding, dilation, more = window
    axes = len(strides)
    # Padding cuts off from both ends, and what is put after takes back what was cut off there.
    after = [p - m for p, m in zip(padding, more)]
    made = node.emit(
        _TRANSPOSES[axes](
            data, weight, strides=strides, padding=[*padding, *[max(a, 0) for a in after]],
            output_padding=[0] * axes, dilation=dilation, groups=groups,
        )
    )  # fmt: skip
    if all(a >= 0 for a in after):
        return made
    widths = [0, 0, 0, 0, *[v for a in after for v in (0, max(-a, 0))]]
    return node.emit(op.nn.pad(made, widths))


# -- gradients -----------------------------------------------------------------------------------
@register("aten.convolution_backward.default")
def _convolution_backward(node: Node) -> list[Any]:
    grad, data, weight = node.tensor(0), node.tensor(1), node.tensor(2)
    kernel = _kernel(node, weight)
    axes = len(kernel)
    strides, padding, dilation = [
        node.ints(name, axes) for name in ("stride", "padding", "dilation")
    ]
    groups = int(node["groups"])
    mask: list[bool] = node["output_mask"]
    made: list[Any] = [None, None, None]
    window = (strides, padding, dilation)
    image, shape = node.dims_of(data)[2:], node.dims_of(weight)
    if node["transposed"]:
        # The transpose of a transposed convolution is the convolution: image and gradient swap.
        if mask[0]:
            found = node.emit(
                _CONVOLUTIONS[axes](
                    grad, weight, strides=strides, padding=padding * 2, dilation=dilation,
                    groups=groups,
                )
            )  # fmt: skip
            made[0] = _cut_off(node, found, image)
        if mask[1]:
            made[1] = _gradient_of_weight(node, data, grad, shape, window, groups)
    else:
        if mask[0]:
            made[0] = _gradient_of_data(node, grad, weight, image, window, groups)
        if mask[1]:
            made[1] = _gradient_of_weight(node, grad, data, shape, window, groups)
    if mask[2]:
        made[2] = node.emit(op.sum(grad, [0, *range(2, 2 + axes)]))
    return made


_Window = tuple[list[int], list[int], list[int]]


def _gradient_of_data(
    node: Node, grad: RelaxExpr, weight: RelaxExpr, image: list[Any], window: _Window, groups: int
) -> RelaxExpr:
    strides, padding, dilation = window
    kernel = node.dims_of(weight)[2:]
    made_dims = node.dims_of(grad)[2:]
    more: list[int] = []
    for i, extent in enumerate(image):
        least = (made_dims[i] - 1) * strides[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1
        missing = node.simplify(extent - least)
        # Fewer elements are missing than a stride has: so many are put after, and some cut off.
        more.append(missing if isinstance(missing, int) else strides[i] - 1)
    made = _transpose_convolution(node, grad, weight, (strides, padding, dilation, more), groups)
    return _cut_off(node, made, image)


def _cut_off(node: Node, made: RelaxExpr, image: list[Any]) -> RelaxExpr:
    """Leave out elements after the end of an image."""
    found = node.dims_of(made)[2:]
    cut = [i for i, extent in enumerate(image) if not node.is_equal(found[i], extent)]
    if not cut:
        return made
    over = [i + 2 for i in cut]
    return node.emit(op.strided_slice(made, over, [0] * len(cut), [image[i] for i in cut]))


def _gradient_of_weight(
    node: Node, grad: RelaxExpr, data: RelaxExpr, shape: list[Any], window: _Window, groups: int
) -> RelaxExpr:
    """Convolve images with gradients: the batch is what is summed over."""
    strides, padding, dilation = window
    kernel = shape[2:]
    axes = len(kernel)
    batch, channels, *image = node.dims_of(data)
    own = channels // groups
    spatial = range(3, 3 + axes)
    x = node.emit(op.reshape(data, (batch, groups, own, *image)))
    x = node.emit(op.permute_dims(x, [2, 1, 0, *spatial]))
    x = node.emit(op.reshape(x, (own, node.simplify(batch * groups), *image)))
    gradient = node.emit(op.permute_dims(grad, [1, 0, *range(2, 2 + axes)]))
    made = node.emit(
        _CONVOLUTIONS[axes](
            x, gradient, strides=dilation, padding=padding * 2, dilation=strides, groups=groups
        )
    )
    made = _cut_off(node, made, kernel)
    return node.emit(op.permute_dims(made, [1, 0, *range(2, 2 + axes)]))
