"""Products of matrices."""

from __future__ import annotations

from typing import Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr


def _gemm(node: Node) -> RelaxExpr:
    a, b = node[0], node[1]
    if node.get("transA", 0):
        a = node.emit(op.permute_dims(a))
    if node.get("transB", 0):
        b = node.emit(op.permute_dims(b))
    made = node.emit(op.matmul(a, b))
    alpha, beta = [float(node.get(name, 1.0)) for name in ("alpha", "beta")]
    if alpha != 1.0:
        made = node.emit(op.multiply(made, node.constant_like(alpha)))
    if not node.has(2) or beta == 0.0:
        return made
    bias = node[2]
    if beta != 1.0:
        bias = node.emit(op.multiply(bias, node.constant_like(beta)))
    return op.add(made, bias)


def _matmul(node: Node) -> RelaxExpr:
    return op.matmul(node[0], node[1])


def _einsum(node: Node) -> RelaxExpr:
    return op.einsum(node.all(), node.get("equation", "").replace(" ", ""))


ROWS: Final[tuple[Row, ...]] = (
    row("Einsum", _einsum),
    row("Gemm", _gemm),
    row("MatMul", _matmul),
)
