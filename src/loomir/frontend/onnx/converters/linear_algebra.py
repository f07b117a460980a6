"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Final

from loomir import op
from loomir.frontend.factorisation.lu import factor_lu, find_determinant
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.expr import TupleGetItem
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
    text = node.get("equation", "").replace(" ", "")
    if "..." in text:
        text = _name_ellipses(text, [node.rank(i) for i in range(len(node))])
    return op.einsum(node.all(), text)


def _name_ellipses(text: str, ranks: Sequence[int]) -> str:
    """Name the axes that dots stand for by letters that are free, the last ones alike."""
    inputs, arrow, output = text.partition("->")
    operands = inputs.split(",")
    every = inputs.replace(".", "").replace(",", "")
    counts = [r - len(o.replace(".", "")) if "..." in o else 0 for r, o in zip(ranks, operands)]
    most = max([0, *counts])
    free = [c for c in ascii_letters if c not in every][:most]
    names = ["".join(free[most - n :]) if n > 0 else "" for n in counts]
    if not arrow:  # the axes of the dots come first, then what occurs once, in order
        output = "..." + "".join(c for c in sorted({*every}) if every.count(c) == 1)
    named = [o.replace("...", n) for o, n in zip(operands, names)]
    return ",".join(named) + "->" + output.replace("...", "".join(free))


def _det(node: Node) -> RelaxExpr:
    *_, rows, columns = node.dims(0)
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        raise node.refuse(f"its matrices are of {rows} by {columns}: square ones are needed")
    x, dtype = node[0], node.dtype(0)
    narrow = dtype in ("float16", "bfloat16")
    if narrow:
        x = node.emit(op.astype(x, "float32"))
    factors = node.compute(factor_lu, x)
    lu, pivots = [node.emit(TupleGetItem(factors, i)) for i in range(2)]
    made = TupleGetItem(node.compute(find_determinant, lu, pivots), 0)
    return op.astype(node.emit(made), dtype) if narrow else made


ROWS: Final[tuple[Row, ...]] = (
    row("Det", _det),
    row("Einsum", _einsum),
    row("Gemm", _gemm),
    row("MatMul", _matmul),
)
