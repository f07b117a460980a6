"""Quantisation to small integers and floats, and products of quantised tensors."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.convolution import convolve
from loomir.frontend.onnx.low_precision import decode, encode, is_low
from loomir.frontend.onnx.model import ELEMENTS, STORED_AS
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.values import TensorValue
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType

_RANGES: Final = {"int4": (-8, 7), "int2": (-2, 1), "uint4": (0, 15), "uint2": (0, 3)}


def _reshape_along(node: Node, given: RelaxExpr, like: int = 0) -> RelaxExpr:
    """Reshape a scale or a zero point so that it broadcasts to a tensor.

    It has one element, one for each place along an axis, or one for each block along it.
    """
    dims, own = node.dims(like), node.dims_of(given)
    if not own or (len(own) == 1 and own[0] == 1 and len(dims) != 1):
        return node.emit(op.reshape(given, ())) if own else given
    axis = node.axis("axis", 1, len(dims)) if len(dims) > 1 else 0
    if len(own) == 1 and len(dims) != 1:
        return node.emit(
            op.reshape(given, tuple([own[0] if i == axis else 1 for i in range(len(dims))]))
        )
    block = int(node.get("block_size", 0))
    if not block:
        return given
    grown = node.emit(op.repeat(given, block, axis))
    extent = dims[axis]
    return node.emit(op.strided_slice(grown, [axis], [0], [extent]))


def _target(node: Node) -> str:
    """Return the type of quantised elements: the attribute's, the zero point's, or uint8."""
    named = ELEMENTS.get(node.get("output_dtype", 0), "")
    if named:
        return named
    return node.element(2) if node.has(2) else "uint8"


def _quantize_linear(node: Node) -> Any:
    target = _target(node)
    if target not in STORED_AS:
        raise node.refuse(f"elements of type {target} are not supported")
    x = _convert(node, node[0], node.dtype(1))
    scaled = node.emit(op.divide(x, _reshape_along(node, node[1])))
    if str(node.info_of(scaled).dtype) != "float32":
        scaled = node.emit(op.astype(scaled, "float32"))
    if target.startswith("float"):
        made = encode(node, scaled, target, saturate=bool(node.get("saturate", 1)))
        return TensorValue(made, target)
    whole = node.emit(op.round(scaled))
    if node.has(2):
        zero = decode(node, node[2], node.element(2), "float32")
        zero = _convert(node, zero, "float32")
        whole = node.emit(op.add(whole, _reshape_along(node, zero)))
    return TensorValue(_clamp(node, whole, target), target)


def _convert(node: Node, x: RelaxExpr, dtype: str) -> RelaxExpr:
    return x if str(node.info_of(x).dtype) == dtype else node.emit(op.astype(x, dtype))


def _clamp(node: Node, whole: RelaxExpr, target: str) -> RelaxExpr:
    """Bring whole floats into the range of integers."""
    stored = DataType(STORED_AS[target])
    low, high = _RANGES.get(target, (stored.min_value, stored.max_value))
    bounded = node.emit(op.clip(whole, low, high))
    return node.emit(op.astype(bounded, str(stored)))


def _dequantize_linear(node: Node) -> Any:
    element = node.element(0)
    named = ELEMENTS.get(node.get("output_dtype", 0), "")
    kept = named or node.dtype(1)
    if element not in STORED_AS:
        raise node.refuse(f"elements of type {element} are not supported")
    wide = "float32"
    if element == "int32" or not is_low(element):
        x: RelaxExpr = node.emit(op.astype(node[0], "int32"))
        if node.has(2):
            zero = node.emit(op.astype(node[2], "int32"))
            x = node.emit(op.subtract(x, _reshape_along(node, zero)))
        x = node.emit(op.astype(x, wide))
    else:
        x = decode(node, node[0], element, wide)
        if node.has(2):
            zero = decode(node, node[2], node.element(2), wide)
            x = node.emit(op.subtract(x, _reshape_along(node, zero)))
    scale = _reshape_along(node, _convert(node, node[1], wide))
    made = node.emit(op.multiply(x, scale))
    return _convert(node, made, kept)


# -- products ------------------------------------------------------------------------------------
def _subtract_zero(node: Node, index: int, zero: int, axis: int | None = None) -> RelaxExpr:
    """Return integers less their zero point, in int32."""
    x = node.emit(op.astype(node[index], "int32"))
    if not node.has(zero):
        return x
    point = node.emit(op.astype(node[zero], "int32"))
    own, dims = node.dims_of(point), node.dims(index)
    if len(own) == 1 and axis is not None and own[0] != 1:
        place = axis % len(dims)
        shape = tuple([own[0] if i == place else 1 for i in range(len(dims))])
        point = node.emit(op.reshape(point, shape))
    elif len(own) == 1:
        point = node.emit(op.reshape(point, ()))
    return node.emit(op.subtract(x, point))


def _matmul_integer(node: Node) -> RelaxExpr:
    return op.matmul(_subtract_zero(node, 0, 2, -2), _subtract_zero(node, 1, 3, -1))


def _conv_integer(node: Node) -> RelaxExpr:
    return convolve(node, _subtract_zero(node, 0, 2), _subtract_zero(node, 1, 3, 0))


def _requantise(node: Node, total: RelaxExpr, scale: RelaxExpr, zero: int, axis: int | None) -> Any:
    """Return sums of products times a scale, as small integers."""
    dims = node.dims_of(total)
    own = node.dims_of(scale)
    if len(own) == 1 and own[0] != 1 and axis is not None:
        place = axis % len(dims)
        shape = tuple([own[0] if i == place else 1 for i in range(len(dims))])
        scale = node.emit(op.reshape(scale, shape))
    elif own:
        scale = node.emit(op.reshape(scale, ())) if len(own) == 1 else scale
    scaled = node.emit(op.multiply(node.emit(op.astype(total, "float32")), scale))
    whole = node.emit(op.round(scaled))
    point = node.emit(op.astype(node[zero], "float32"))
    if node.dims_of(point):
        point = node.emit(op.reshape(point, ()))
    target = node.element(zero)
    return TensorValue(_clamp(node, node.emit(op.add(whole, point)), target), target)


def _scale(node: Node, a: int, b: int, y: int) -> RelaxExpr:
    parts = [node.emit(op.astype(node[i], "float32")) for i in (a, b, y)]
    return node.emit(op.divide(node.emit(op.multiply(parts[0], parts[1])), parts[2]))


def _qlinear_matmul(node: Node) -> Any:
    total = node.emit(op.matmul(_subtract_zero(node, 0, 2, -2), _subtract_zero(node, 3, 5, -1)))
    return _requantise(node, total, _scale(node, 1, 4, 6), 7, -1)


def _qlinear_conv(node: Node) -> Any:
    # The inputs of a convolution are at other places here.
    inner = Node(node.definition, [node.inputs[0], node.inputs[3]], node.version, node.graph)
    total = node.emit(convolve(inner, _subtract_zero(node, 0, 2), _subtract_zero(node, 3, 5, 0)))
    if node.has(8):
        axes = node.rank(0) - 2
        channels = node.dims(8)[0]
        bias = node.emit(op.reshape(node[8], (1, channels, *[1] * axes)))
        total = node.emit(op.add(total, bias))
    return _requantise(node, total, _scale(node, 1, 4, 6), 7, 1)


def _dynamic_quantize_linear(node: Node) -> list[Any]:
    x, zero = node[0], constant(0, "float32")
    low = node.emit(op.minimum(node.emit(op.min(x)), zero))
    high = node.emit(op.maximum(node.emit(op.max(x)), zero))
    step = node.emit(op.divide(node.emit(op.subtract(high, low)), constant(255, "float32")))
    # If all elements are 0, the formula of ONNX makes the scale 0, which nothing can be divided by.
    scale = node.emit(op.where(node.emit(op.greater(high, low)), step, constant(1, "float32")))
    ratio = node.emit(op.divide(node.emit(op.subtract(zero, low)), scale))
    point = node.emit(op.clip(node.emit(op.round(ratio)), 0, 255))
    whole = node.emit(op.round(node.emit(op.divide(x, scale))))
    shifted = node.emit(op.add(whole, point))
    return [
        _clamp(node, shifted, "uint8"),
        scale,
        node.emit(op.astype(point, "uint8")),
    ]


ROWS: Final[tuple[Row, ...]] = (
    row("ConvInteger", _conv_integer),
    row("DequantizeLinear", _dequantize_linear, small=True),
    row("DynamicQuantizeLinear", _dynamic_quantize_linear),
    row("MatMulInteger", _matmul_integer),
    row("QLinearConv", _qlinear_conv),
    row("QLinearMatMul", _qlinear_matmul),
    row("QuantizeLinear", _quantize_linear, small=True),
)
