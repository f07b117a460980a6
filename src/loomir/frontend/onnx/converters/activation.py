"""Activation functions, element-wise or along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir import op
from loomir.frontend.onnx.converters.elementwise import unary
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import MICROSOFT, Converter, Row, row
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import as_dim


def _const(node: Node, value: float) -> RelaxExpr:
    return node.constant_like(value)


def _elu(node: Node) -> RelaxExpr:
    return _exponential_below(node, float(node.get("alpha", 1.0)), 1.0)


def _selu(node: Node) -> RelaxExpr:
    gamma = float(node.get("gamma", 1.0507009873554805))
    return _exponential_below(node, float(node.get("alpha", 1.6732632423543772)), gamma)


def _celu(node: Node) -> RelaxExpr:
    alpha = float(node.get("alpha", 1.0))
    x = node[0]
    grown = node.emit(op.exp(node.emit(op.divide(x, _const(node, alpha)))))
    below = node.emit(
        op.multiply(node.emit(op.subtract(grown, _const(node, 1))), _const(node, alpha))
    )
    return op.where(node.emit(op.greater(x, _const(node, 0))), x, below)


def _exponential_below(node: Node, alpha: float, gamma: float) -> RelaxExpr:
    x = node[0]
    grown = node.emit(op.subtract(node.emit(op.exp(x)), _const(node, 1)))
    below = node.emit(op.multiply(grown, _const(node, alpha)))
    made = op.where(node.emit(op.greater(x, _const(node, 0))), x, below)
    return made if gamma == 1.0 else op.multiply(node.emit(made), _const(node, gamma))


def _leaky_relu(node: Node) -> RelaxExpr:
    return op.nn.leakyrelu(node[0], float(node.get("alpha", 0.01)))


def _prelu(node: Node) -> RelaxExpr:
    x, slope = node[0], node[1]
    own = node.dims_of(slope)
    if node.version < 7 and len(own) == 1 and own[0] != 1:
        # Slopes were one for each channel before they broadcast from the last axis.
        shape = tuple([own[0] if i == 1 else 1 for i in range(node.rank(0))])
        slope = node.emit(op.reshape(slope, shape))
    below = node.emit(op.multiply(x, slope))
    return op.where(node.emit(op.less(x, _const(node, 0))), below, x)


def _thresholded_relu(node: Node) -> RelaxExpr:
    x = node[0]
    above = node.emit(op.greater(x, _const(node, float(node.get("alpha", 1.0)))))
    return op.where(above, x, _const(node, 0))


def _hard_sigmoid(node: Node) -> RelaxExpr:
    return _line_between(node, float(node.get("alpha", 0.2)), float(node.get("beta", 0.5)))


def _line_between(node: Node, alpha: float, beta: float) -> RelaxExpr:
    line = node.emit(op.multiply(node[0], _const(node, alpha)))
    return op.clip(node.emit(op.add(line, _const(node, beta))), 0, 1)


def _hard_swish(node: Node) -> RelaxExpr:
    return op.multiply(node[0], node.emit(_line_between(node, 1 / 6, 0.5)))


def _softsign(node: Node) -> RelaxExpr:
    x = node[0]
    return op.divide(x, node.emit(op.add(node.emit(op.abs(x)), _const(node, 1))))


def _softplus(node: Node) -> RelaxExpr:
    return op.log_add_exp(node[0], _const(node, 0))


def _mish(node: Node) -> RelaxExpr:
    return op.multiply(node[0], node.emit(op.tanh(node.emit(_softplus(node)))))


def _swish(node: Node) -> RelaxExpr:
    alpha = float(node.get("alpha", 1.0))
    x = node[0]
    if alpha == 1.0:
        return op.nn.silu(x)
    return op.multiply(x, node.emit(op.sigmoid(node.emit(op.multiply(x, _const(node, alpha))))))


def _shrink(node: Node) -> RelaxExpr:
    x, bias = node[0], _const(node, float(node.get("bias", 0.0)))
    bound = float(node.get("lambd", 0.5))
    low = node.emit(op.less(x, _const(node, -bound)))
    high = node.emit(op.greater(x, _const(node, bound)))
    raised = node.emit(op.where(low, node.emit(op.add(x, bias)), _const(node, 0)))
    return op.where(high, node.emit(op.subtract(x, bias)), raised)


def _gelu(node: Node) -> RelaxExpr:
    return (op.nn.gelu_tanh if node.get("approximate", "none") == "tanh" else op.nn.gelu)(node[0])


def _bias_gelu(node: Node) -> RelaxExpr:
    return op.nn.gelu(node.emit(op.add(node[0], node[1])))


def _fast_gelu(node: Node) -> RelaxExpr:
    x = node.emit(op.add(node[0], node[1])) if node.has(1) else node[0]
    return op.nn.gelu_tanh(x)


def _quick_gelu(node: Node) -> RelaxExpr:
    x = node[0]
    scaled = node.emit(op.multiply(x, _const(node, float(node.get("alpha", 1.702)))))
    return op.multiply(x, node.emit(op.sigmoid(scaled)))


def _make_along_axis(kind: str) -> Converter:
    operator = {"softmax": op.nn.softmax, "log_softmax": op.nn.log_softmax}[kind]

    def convert(node: Node) -> RelaxExpr:
        rank = node.rank(0)
        if node.version >= 13:
            return operator(node[0], node.axis("axis", -1, rank))
        # Until then all axes from one on were one.
        return apply_over_axes_from(node, operator, node[0], node.axis("axis", 1, rank))

    return convert


def apply_over_axes_from(
    node: Node, operator: Callable[[RelaxExpr, int], RelaxExpr], x: RelaxExpr, axis: int
) -> RelaxExpr:
    """Apply an operator along an axis and all that follow it, as if they were one."""
    dims = node.dims_of(x)
    if axis == len(dims) - 1:
        return operator(x, axis)
    flat = node.one("Flatten", x, axis=axis)
    return op.reshape(node.emit(operator(flat, -1)), tuple(dims))


def _hardmax(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    x, dims = node[0], node.dims(0)
    axis = node.axis("axis", -1 if node.version >= 13 else 1, rank)
    if node.version < 13 and axis != rank - 1:
        x = node.one("Flatten", node.tensor(0), axis=axis)
        axis = 1
    place = node.emit(op.argmax(x, axis, True))
    dims_of = node.dims_of(x)
    places = node.emit(op.arange(0, PrimValue(as_dim(dims_of[axis])), 1, "int64"))
    shape = [d if a == axis else 1 for a, d in enumerate(dims_of)]
    places = node.emit(op.reshape(places, tuple(shape)))
    hot = node.emit(op.astype(node.emit(op.equal(places, place)), node.dtype(0)))
    return op.reshape(hot, tuple(dims))


ROWS: Final[tuple[Row, ...]] = (
    row("Celu", _celu),
    row("Elu", _elu),
    row("Gelu", _gelu),
    row("HardSigmoid", _hard_sigmoid),
    row("HardSwish", _hard_swish),
    row("Hardmax", _hardmax),
    row("LeakyRelu", _leaky_relu),
    row("LogSoftmax", _make_along_axis("log_softmax")),
    row("Mish", _mish),
    row("PRelu", _prelu),
    row("Relu", unary(op.nn.relu)),
    row("Selu", _selu),
    row("Shrink", _shrink),
    row("Sigmoid", unary(op.sigmoid)),
    row("Softmax", _make_along_axis("softmax")),
    row("Softplus", _softplus),
    row("Softsign", _softsign),
    row("Swish", _swish),
    row("ThresholdedRelu", _thresholded_relu),
    row("BiasGelu", _bias_gelu, domain=MICROSOFT),
    row("FastGelu", _fast_gelu, domain=MICROSOFT),
    row("Gelu", _gelu, domain=MICROSOFT),
    row("QuickGelu", _quick_gelu, domain=MICROSOFT),
)
