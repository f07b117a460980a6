"""Quantised operators, as quantised exported programs have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from loomir import op
from loomir.frontend.torch.dtypes import dtype_of
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr

_OF = "quantized_decomposed"


@register(f"{_OF}.quantize_per_tensor.default", f"{_OF}.quantize_per_tensor.tensor",
          f"{_OF}.quantize_per_tensor.tensor2")  # fmt: skip
def _quantize(node: Node) -> RelaxExpr:
    scale = node["scale"]
    if isinstance(scale, RelaxExpr):
        wide = node.cast(_single(node, scale), "float64")
        one = node.constant(1.0, "float64")
        by: RelaxExpr = node.cast(node.emit(op.divide(one, wide)), "float32")
    else:
        by = node.constant(1.0 / float(scale), "float32")
    return _round_to_range(node, by, _number(node, "zero_point", "float32"))


@register(f"{_OF}.quantize_per_channel.default")
def _quantize_channels(node: Node) -> RelaxExpr:
    scales = _reshape_along(node, node.tensor("scales"))
    by = node.emit(op.divide(node.constant(1.0, node.dtype_of(scales)), scales))
    return _round_to_range(node, by, _reshape_along(node, node.tensor("zero_points", "float32")))


def _round_to_range(node: Node, by: RelaxExpr, zero: RelaxExpr) -> RelaxExpr:
    """Multiply by the inverse of a scale, and bring whole numbers into a range."""
    x = node.cast(node.tensor(0), node.dtype_of(by))
    whole = node.emit(op.round(node.emit(op.multiply(x, by))))
    moved = node.emit(op.add(whole, node.cast(zero, node.dtype_of(by))))
    low, high = int(node["quant_min"]), int(node["quant_max"])
    return op.astype(node.emit(op.clip(moved, low, high)), node.dtype)


@register(f"{_OF}.dequantize_per_tensor.default", f"{_OF}.dequantize_per_tensor.tensor",
          f"{_OF}.dequantize_per_tensor.tensor2")  # fmt: skip
def _dequantize(node: Node) -> RelaxExpr:
    return _scale(node, _number(node, "scale", node.dtype), _number(node, "zero_point", "int32"))


@register(f"{_OF}.dequantize_per_channel.default")
def _dequantize_channels(node: Node) -> RelaxExpr:
    zero = node["zero_points"]
    scales = _reshape_along(node, node.tensor("scales"))
    made = _scale(
        node,
        scales,
        None if zero is None else _reshape_along(node, node.tensor("zero_points", "int32")),
    )
    return node.cast(node.emit(made), node.dtype)


def _scale(node: Node, scale: RelaxExpr, zero: RelaxExpr | None) -> RelaxExpr:
    """Multiply integers less a zero point by a scale; differences of small ones are exact."""
    x = node.tensor(0)
    dtype = node.dtype_of(scale)
    wide = "int32" if node.dtype_of(x) in ("int8", "uint8", "int16", "uint16") else dtype
    x = node.cast(x, wide)
    if zero is not None:
        x = node.emit(op.subtract(x, node.cast(zero, wide)))
    return op.multiply(node.cast(x, dtype), scale)


def _number(node: Node, name: str, dtype: str) -> RelaxExpr:
    """Return a parameter that is one for all, as a tensor without axes."""
    given = node[name]
    if isinstance(given, RelaxExpr):
        return node.cast(_single(node, given), dtype)
    return node.constant(given, dtype)


def _single(node: Node, x: RelaxExpr) -> RelaxExpr:
    return node.emit(op.reshape(x, ())) if node.dims_of(x) else x


def _reshape_along(node: Node, x: RelaxExpr) -> RelaxExpr:
    """Reshape parameters so that they lie along the axis of channels."""
    rank = node.rank(0)
    axis, (extent,) = node.axis("axis", rank), node.dims_of(x)
    return node.emit(op.reshape(x, tuple([extent if a == axis else 1 for a in range(rank)])))


@register(f"{_OF}.choose_qparams.tensor")
def _choose(node: Node) -> list[Any]:
    low, high = int(node["quant_min"]), int(node["quant_max"])
    least, greatest = _ends(node)
    extent = node.emit(op.subtract(greatest, least))
    scale = _clamp_scale(node, node.emit(op.divide(extent, _f32(node, high - low))))
    ratio = node.emit(op.round(node.emit(op.divide(least, scale))))
    zero = node.emit(op.clip(node.emit(op.subtract(_f32(node, low), ratio)), low, high))
    return _parameters(node, scale, zero)


@register(f"{_OF}.choose_qparams_symmetric.tensor")
def _choose_symmetric(node: Node) -> list[Any]:
    low, high = int(node["quant_min"]), int(node["quant_max"])
    least, greatest = _ends(node)
    most = node.emit(op.maximum(node.emit(op.negative(least)), greatest))
    scale = _clamp_scale(node, node.emit(op.divide(most, _f32(node, (high - low) / 2))))
    zero = 128 if dtype_of(node["dtype"]) == "uint8" else 0
    return _parameters(node, scale, _f32(node, zero))


def _f32(node: Node, value: float) -> RelaxExpr:
    return node.constant(np.float32(value), "float32")


def _ends(node: Node) -> tuple[RelaxExpr, RelaxExpr]:
    """Return the least and the greatest element, so that 0 lies between them."""
    x, zero = node.tensor(0, "float32"), _f32(node, 0)
    least = node.emit(op.minimum(node.emit(op.min(x)), zero))
    return least, node.emit(op.maximum(node.emit(op.max(x)), zero))


def _clamp_scale(node: Node, scale: RelaxExpr) -> RelaxExpr:
    return node.emit(op.maximum(scale, _f32(node, float(node["eps"]))))


def _parameters(node: Node, scale: RelaxExpr, zero: RelaxExpr) -> list[Any]:
    made = [node.cast(scale, "float64"), node.cast(zero, "int64")]
    return [node.emit(op.reshape(x, (1,))) for x in made]
