"""The greatest element, the mean or a norm of windows, and of whole images."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.windows import padding, per_axis
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.node import RelaxExpr

_MAX: Final = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN: Final = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def _options(node: Node) -> tuple[int, dict[str, Any]]:
    image = node.dims(0)[2:]
    kernel = [int(v) for v in node.get("kernel_shape", ())]
    axes = len(image)
    if axes not in _MAX or len(kernel) != axes:
        raise node.unsupported(f"windows of {len(kernel)} axes over images of {axes}")
    strides, dilations = [per_axis(node, name, axes) for name in ("strides", "dilations")]
    return axes, {
        "pool_size": kernel,
        "strides": strides,
        "padding": padding(node, image, kernel, strides, dilations),
        "dilation": dilations,
        "ceil_mode": bool(node.get("ceil_mode", 0)),
    }


def _max_pool(node: Node) -> list[Any]:
    axes, options = _options(node)
    if node.wants(1):
        raise node.unsupported("the places of the greatest elements are not supported yet")
    return [node.emit(_MAX[axes](node[0], **options)), None][: node.wanted]


def _average_pool(node: Node) -> RelaxExpr:
    axes, options = _options(node)
    counted = bool(node.get("count_include_pad", 0))
    return _MEAN[axes](node[0], count_include_pad=counted, **options)


def _whole(operator: Any) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return operator(node[0], list(range(2, node.rank(0))), True)

    return convert


ROWS: Final[tuple[Row, ...]] = (
    row("AveragePool", _average_pool, note="images of more than three axes"),
    row("GlobalAveragePool", _whole(op.mean)),
    row("GlobalMaxPool", _whole(op.max)),
    row("MaxPool", _max_pool, note="images of more than three axes"),
)
