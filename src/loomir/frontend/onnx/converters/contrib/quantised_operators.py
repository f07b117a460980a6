"""Quantised operators that the standard does not have.

All but products dequantise, compute in floats, and quantise the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.activation import apply_over_axes_from
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import MICROSOFT, Converter, Row, row
from loomir.frontend.onnx.values import Value
from loomir.relax.node import RelaxExpr


def _optional(node: Node, index: int) -> Value | None:
    return node.tensor(index) if node.has(index) else None


def _floats(node: Node, x: int, scale: int, zero: int) -> RelaxExpr:
    """Return the floats that an input stands for."""
    return node.one("DequantizeLinear", node.tensor(x), node.tensor(scale), _optional(node, zero))


def _integers(node: Node, x: RelaxExpr, scale: int, zero: int, like: int = 0) -> Any:
    """Return the integers that stand for floats, of the type of the zero point or of an input."""
    given = _optional(node, zero)
    if given is None:
        given = node.emit(op.zeros((), node.dtype(like)))
    return node.convert("QuantizeLinear", x, node.tensor(scale), given)[0]


def _make_binary(operator: Callable[[RelaxExpr, RelaxExpr], RelaxExpr]) -> Converter:
    def convert(node: Node) -> Any:
        a, b = _floats(node, 0, 1, 2), _floats(node, 3, 4, 5)
        return _integers(node, node.emit(operator(a, b)), 6, 7)

    return convert


def _sigmoid(node: Node) -> Any:
    return _integers(node, node.emit(op.sigmoid(_floats(node, 0, 1, 2))), 3, 4)


def _leaky_relu(node: Node) -> Any:
    made = node.one("LeakyRelu", _floats(node, 0, 1, 2), alpha=float(node.get("alpha", 0.01)))
    return _integers(node, made, 3, 4)


def _average_pool(node: Node) -> Any:
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    given = {n: node.get(n) for n in names}
    kept = {n: v for n, v in given.items() if v is not None}
    return _pool(node, "AveragePool", kept)


def _global_average_pool(node: Node) -> Any:
    return _pool(node, "GlobalAveragePool", {})


def _pool(node: Node, operator: str, attributes: dict[str, Any]) -> Any:
    x, rank = _floats(node, 0, 1, 2), node.rank(0)
    last = bool(node.get("channels_last", 0))
    if last:
        x = node.emit(op.permute_dims(x, [0, rank - 1, *range(1, rank - 1)]))
    made = node.one(operator, x, **attributes)
    if last:
        made = node.emit(op.permute_dims(made, [0, *range(2, rank), 1]))
    return _integers(node, made, 3, 4)


def _concat(node: Node) -> Any:
    parts = [_floats(node, i, i + 1, i + 2) for i in range(2, len(node), 3)]
    made = node.one("Concat", *parts, axis=int(node.get("axis", 0)))
    return _integers(node, made, 0, 1, like=2)


def _softmax(node: Node) -> Any:
    x, rank = _floats(node, 0, 1, 2), node.rank(0)
    axis = node.axis("axis", -1, rank)
    if int(node.get("opset", 13)) >= 13:
        made = op.nn.softmax(x, axis)
    else:
        made = apply_over_axes_from(node, op.nn.softmax, x, axis)
    return _integers(node, node.emit(made), 3, 4)


def _where(node: Node) -> Any:
    a, b = _floats(node, 1, 2, 3), _floats(node, 4, 5, 6)
    return _integers(node, node.emit(op.where(node[0], a, b)), 7, 8, like=1)


def _reduce_mean(node: Node) -> Any:
    axes = [int(v) for v in node.get("axes", ())] or None
    made = op.mean(_floats(node, 0, 1, 2), axes, bool(node.get("keepdims", 1)))
    return _integers(node, node.emit(made), 3, 4)


def _make_standard(operator: str) -> Converter:
    """Make the converter of an operator that is that of the standard under its name."""

    def convert(node: Node) -> Any:
        given = {"axis": int(node.get("axis", 1))}
        values = [node.tensor(0), node.tensor(1), _optional(node, 2)]
        return node.convert(operator, *values, **given)[0]

    return convert


# -- products ------------------------------------------------------------------------------------
def _scale_sums(node: Node, sums: RelaxExpr, a: RelaxExpr, b: RelaxExpr, bias: int) -> RelaxExpr:
    """Return sums of products of integers times the scales of both factors, and a bias."""
    scale = node.emit(op.multiply(_single(node, a), _single(node, b)))
    made = node.emit(op.multiply(node.emit(op.astype(sums, "float32")), scale))
    return op.add(made, node[bias]) if node.has(bias) else made


def _single(node: Node, scale: RelaxExpr) -> RelaxExpr:
    dims = node.dims_of(scale)
    return node.emit(op.reshape(scale, ())) if len(dims) == 1 and dims[0] == 1 else scale


def _matmul_integer_to_float(node: Node) -> RelaxExpr:
    sums = node.one(
        "MatMulInteger", node.tensor(0), node.tensor(1), _optional(node, 4), _optional(node, 5)
    )
    return _scale_sums(node, sums, node[2], node[3], 6)


def _dynamic_quantize_matmul(node: Node) -> RelaxExpr:
    codes, scale, zero = node.convert("DynamicQuantizeLinear", node.tensor(0), outputs=3)
    sums = node.one("MatMulInteger", codes, node.tensor(1), zero, _optional(node, 3))
    return _scale_sums(node, sums, node.graph.expression(scale), node[2], 4)


def _qgemm(node: Node) -> Any:
    a, b = node[0], node[3]
    a = node.emit(op.permute_dims(a)) if node.get("transA", 0) else a
    b = node.emit(op.permute_dims(b)) if node.get("transB", 0) else b
    sums = node.one("MatMulInteger", a, b, _optional(node, 2), _optional(node, 5))
    if node.has(6):
        sums = node.emit(op.add(sums, node[6]))
    alpha = float(node.get("alpha", 1.0))
    made = node.emit(_scale_sums(node, sums, node[1], node[4], len(node)))
    if alpha != 1.0:
        made = node.emit(op.multiply(made, constant(alpha, "float32")))
    return _integers(node, made, 7, 8) if node.has(7) else made


ROWS: Final[tuple[Row, ...]] = (
    row("DequantizeLinear", _make_standard("DequantizeLinear"), domain=MICROSOFT, small=True),
    row("DynamicQuantizeMatMul", _dynamic_quantize_matmul, domain=MICROSOFT),
    row("MatMulIntegerToFloat", _matmul_integer_to_float, domain=MICROSOFT),
    row("QGemm", _qgemm, domain=MICROSOFT),
    row("QLinearAdd", _make_binary(op.add), domain=MICROSOFT),
    row("QLinearAveragePool", _average_pool, domain=MICROSOFT),
    row("QLinearConcat", _concat, domain=MICROSOFT),
    row("QLinearGlobalAveragePool", _global_average_pool, domain=MICROSOFT),
    row("QLinearLeakyRelu", _leaky_relu, domain=MICROSOFT),
    row("QLinearMul", _make_binary(op.multiply), domain=MICROSOFT),
    row("QLinearReduceMean", _reduce_mean, domain=MICROSOFT),
    row("QLinearSigmoid", _sigmoid, domain=MICROSOFT),
    row("QLinearSoftmax", _softmax, domain=MICROSOFT),
    row("QLinearWhere", _where, domain=MICROSOFT),
    row("QuantizeLinear", _make_standard("QuantizeLinear"), domain=MICROSOFT, small=True),
)
