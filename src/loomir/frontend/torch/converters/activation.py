"""Activation functions, element-wise or along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.node import RelaxExpr
from loomir.te import topi


def _unary(operator: Callable[[RelaxExpr], Any]) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return operator(node.tensor(0))

    return convert


register("aten.relu.default")(_unary(op.nn.relu))
register("aten.relu6.default")(_unary(op.nn.relu6))
register("aten.silu.default")(_unary(op.nn.silu))


def _kernel(operator: Callable[..., Any]) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return node.compute(operator, node.tensor(0))

    return convert


register("aten.hardsigmoid.default")(_kernel(topi.hardsigmoid))
register("aten.hardswish.default")(_kernel(topi.hardswish))
register("aten.mish.default")(_kernel(topi.mish))


@register("aten.gelu.default")
def _gelu(node: Node) -> RelaxExpr:
    return (op.nn.gelu_tanh if node["approximate"] == "tanh" else op.nn.gelu)(node.tensor(0))


@register("aten.rrelu_with_noise_functional.default", note="training")
def _random_leaky_relu(node: Node) -> list[Any]:
    if node["training"]:
        raise node.refuse(
            "it draws random slopes, as in training",
            help="export the model for inference: model.eval()",
        )
    slope = (float(node["lower"]) + float(node["upper"])) / 2
    noise = node.tensor("noise") if node.wants(1) else None
    return [op.nn.leakyrelu(node.tensor(0), slope), noise]


@register("aten.leaky_relu.default")
def _leaky_relu(node: Node) -> RelaxExpr:
    return op.nn.leakyrelu(node.tensor(0), float(node["negative_slope"]))


@register("aten.hardtanh.default")
def _hardtanh(node: Node) -> RelaxExpr:
    low, high = node["min_val"], node["max_val"]
    x = node.emit(op.maximum(node.tensor(0), node.constant(low)))
    return op.minimum(x, node.constant(high))


@register("aten.elu.default")
def _elu(node: Node) -> RelaxExpr:
    alpha, scale, inner = [float(node[k]) for k in ("alpha", "scale", "input_scale")]
    x = node.tensor(0)
    scaled = x if inner == 1.0 else node.emit(op.multiply(x, node.constant(inner)))
    below = node.compute(topi.expm1, scaled)
    if alpha * scale != 1.0:
        below = node.emit(op.multiply(below, node.constant(alpha * scale)))
    above = x if scale == 1.0 else node.emit(op.multiply(x, node.constant(scale)))
    return op.where(node.emit(op.greater(x, node.constant(0))), above, below)


@register("aten.softplus.default")
def _softplus(node: Node) -> RelaxExpr:
    return op.nn.softplus(node.tensor(0), float(node["beta"]), float(node["threshold"]))


@register("aten.prelu.default", "aten._prelu_kernel.default")
def _prelu(node: Node) -> RelaxExpr:
    x, slope = node.tensor(0), node.tensor(1)
    rank, own = node.rank(0), node.dims_of(slope)
    if len(own) == 1 and rank > 1:
        slope = node.emit(op.reshape(slope, (own[0], *[1] * (rank - 2))))
    below = node.emit(op.multiply(x, slope))
    return op.where(node.emit(op.greater(x, node.constant(0))), x, below)


def _make_along_axis(operator: Callable[..., Any]) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        rank = node.rank(0)
        axis = node.axis("dim", rank)
        x = node.tensor(0, node.dtype)
        if rank == 0:
            made = node.emit(operator(node.emit(op.reshape(x, (1,))), 0))
            return op.reshape(made, ())
        return operator(x, axis)

    return convert


register("aten._softmax.default", "aten.softmax.int")(_make_along_axis(op.nn.softmax))
register("aten._log_softmax.default", "aten.log_softmax.int")(_make_along_axis(op.nn.log_softmax))


@register("aten._safe_softmax.default")
def _safe_softmax(node: Node) -> RelaxExpr:
    """Make zeros along an axis where all is minus infinity."""
    rank = node.rank(0)
    axis = node.axis("dim", rank)
    x = node.tensor(0, node.dtype)
    greatest = node.emit(op.max(x, [axis], True))
    nothing = node.emit(op.equal(greatest, node.constant(float("-inf"))))
    made = node.emit(op.nn.softmax(x, axis))
    return op.where(nothing, node.constant(0), made)


@register("aten._softmax_backward_data.default")
def _softmax_backward(node: Node) -> RelaxExpr:
    grad, made = node.tensor(0), node.tensor(1)
    axis = node.axis("dim", node.rank(0))
    product = node.emit(op.multiply(grad, made))
    total = node.emit(op.sum(product, [axis], True))
    return op.subtract(product, node.emit(op.multiply(made, total)))


@register("aten._log_softmax_backward_data.default")
def _log_softmax_backward(node: Node) -> RelaxExpr:
    grad, made = node.tensor(0), node.tensor(1)
    axis = node.axis("dim", node.rank(0))
    total = node.emit(op.sum(grad, [axis], True))
    return op.subtract(grad, node.emit(op.multiply(node.emit(op.exp(made)), total)))
