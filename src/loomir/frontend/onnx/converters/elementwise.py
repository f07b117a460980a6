"""Element-wise arithmetic, comparisons, logic and bit operations, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.node import RelaxExpr

_Operator = Callable[..., RelaxExpr]


def unary(operator: _Operator) -> Converter:
    """Import an operator on one tensor that Relax has too."""
    return lambda node: operator(node[0])


def _binary(operator: _Operator) -> Converter:
    return lambda node: _fold(node, operator) if len(node) != 2 else _old_axis(node, operator)


def _fold(node: Node, operator: _Operator) -> RelaxExpr:
    made, *others = node.all()
    for other in others:
        made = node.emit(operator(made, other))
    return made


def _old_axis(node: Node, operator: _Operator) -> RelaxExpr:
    """Broadcast as version 6 and before do: the second tensor lies at an axis of the first."""
    a, b = node[0], node[1]
    if node.version < 7 and node.get("broadcast", 0) and node.get("axis") is not None:
        rank, inner = node.rank(0), node.rank(1)
        axis = node.axis("axis", 0, rank)
        dims = [*node.dims(1), *[1] * (rank - axis - inner)]
        b = node.emit(op.reshape(b, tuple(dims)))
    return operator(a, b)


def _mean(node: Node) -> RelaxExpr:
    total = _fold(node, op.add)
    return op.divide(total, node.constant_like(len(node)))


def _mod(node: Node) -> RelaxExpr:
    operator = op.mod if node.get("fmod", 0) else op.floor_mod
    return operator(node[0], node[1])


def _power(node: Node) -> RelaxExpr:
    base, exponent = node[0], node[1]
    kept, other = node.dtype(0), node.dtype(1)
    if kept == other:
        return op.power(base, exponent)
    if not kept.startswith(("int", "uint")) or other.startswith(("int", "uint")):
        return op.power(base, node.emit(op.astype(exponent, kept)))
    wide = "float64" if "64" in kept + other else "float32"
    made = op.power(node.emit(op.astype(base, wide)), node.emit(op.astype(exponent, wide)))
    return op.astype(node.emit(made), kept)


def _bit_shift(node: Node) -> RelaxExpr:
    direction = node.get("direction", "")
    shift = {"LEFT": op.left_shift, "RIGHT": op.right_shift}.get(direction)
    if shift is None:
        raise node.refuse(f"direction {direction!r} is not supported")
    return shift(node[0], node[1])


def _reciprocal(node: Node) -> RelaxExpr:
    return op.divide(node.constant_like(1), node[0])


def _is_inf(node: Node) -> RelaxExpr:
    x = node[0]
    if node.get("detect_negative", 1) and node.get("detect_positive", 1):
        return op.isinf(x)
    if node.get("detect_positive", 1):
        return op.equal(x, node.constant_like(np.inf))
    if node.get("detect_negative", 1):
        return op.equal(x, node.constant_like(-np.inf))
    return op.zeros_like(x, "bool")


def _where(node: Node) -> RelaxExpr:
    return op.where(node[0], node[1], node[2])


def _clip(node: Node) -> RelaxExpr:
    bounds: list[Any] = [None, None]
    for i, name in enumerate(("min", "max")):
        if node.version < 11:
            given = node.get(name)
            bounds[i] = None if given is None else node.constant_like(given)
        elif node.has(i + 1):
            bounds[i] = node.emit(op.reshape(node[i + 1], ())) if node.rank(i + 1) else node[i + 1]
    made = node[0]
    if bounds[0] is not None:
        made = node.emit(op.maximum(made, bounds[0]))
    return made if bounds[1] is None else op.minimum(made, bounds[1])


def _cumulative(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        axis = node.count_axis(int(node.numbers(1, "axis").reshape(-1)[0]), node.rank(0))
        x, flipped = node[0], bool(node.get("reverse", 0))
        if flipped:
            x = node.emit(op.flip(x, axis))
        made = operator(x, axis, None, bool(node.get("exclusive", 0)))
        return op.flip(node.emit(made), axis) if flipped else made

    return convert


def _negate_truth(node: Node) -> RelaxExpr:
    return op.logical_not(node[0])


def number(node: Node, value: float) -> RelaxExpr:
    """Return a constant without axes of the dtype of the first input."""
    return constant(value, node.dtype(0))


_UNARY: Final = {
    "Abs": op.abs, "Acos": op.acos, "Acosh": op.acosh, "Asin": op.asin, "Asinh": op.asinh,
    "Atan": op.atan, "Atanh": op.atanh, "BitwiseNot": op.bitwise_not, "Ceil": op.ceil,
    "Cos": op.cos, "Cosh": op.cosh, "Erf": op.erf, "Exp": op.exp, "Floor": op.floor,
    "IsNaN": op.isnan, "Log": op.log, "Neg": op.negative, "Round": op.round, "Sign": op.sign,
    "Sin": op.sin, "Sinh": op.sinh, "Sqrt": op.sqrt, "Tan": op.tan, "Tanh": op.tanh,
}  # fmt: skip
_BINARY: Final = {
    "Add": op.add, "And": op.logical_and, "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or, "BitwiseXor": op.bitwise_xor, "Div": op.divide,
    "Equal": op.equal, "Greater": op.greater, "GreaterOrEqual": op.greater_equal,
    "Less": op.less, "LessOrEqual": op.less_equal, "Max": op.maximum, "Min": op.minimum,
    "Mul": op.multiply, "Or": op.logical_or, "Sub": op.subtract, "Sum": op.add,
    "Xor": op.logical_xor,
}  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    *[row(name, unary(operator)) for name, operator in _UNARY.items()],
    *[row(name, _binary(operator)) for name, operator in _BINARY.items()],
    row("BitShift", _bit_shift),
    row("Clip", _clip),
    row("CumProd", _cumulative(op.cumprod)),
    row("CumSum", _cumulative(op.cumsum)),
    row("IsInf", _is_inf),
    row("Mean", _mean),
    row("Mod", _mod),
    row("Not", _negate_truth),
    row("Pow", _power),
    row("Reciprocal", _reciprocal),
    row("Where", _where, small=True),
)
