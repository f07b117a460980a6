"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, select
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import const as number


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


_LARGEST: Final = 64
"""Rows of the largest matrix whose determinant is computed, in one kernel for each."""


def _det(node: Node) -> RelaxExpr:
    """Eliminate one row after the other, that with the largest first element."""
    *batch, rows, columns = node.dims(0)
    if not isinstance(rows, int) or rows != columns or not 0 < rows <= _LARGEST:
        raise node.refuse(
            f"its matrices are of {rows} by {columns}: square ones are needed, "
            f"of at most {_LARGEST} rows"
        )
    x = node.emit(op.reshape(node[0], (-1, rows, rows)))
    made: RelaxExpr | None = None
    for left in range(rows, 0, -1):
        first = node.emit(op.strided_slice(x, [2], [0], [1]))
        sizes = node.emit(op.abs(node.emit(op.squeeze(first, [2]))))
        largest = node.emit(op.argmax(sizes, 1))
        pivot = node.compute(_pivots, x, largest)
        made = pivot if made is None else node.emit(op.multiply(made, pivot))
        if left > 1:
            x = node.compute(_eliminated, x, largest)
    assert made is not None
    return op.reshape(made, tuple(batch))


def _pivots(x: Tensor, largest: Tensor) -> Tensor:
    """Return the largest of the first elements, negated where its row is exchanged."""

    def pivot(n: PrimExpr) -> PrimExpr:
        found = x[n, largest[n], 0]
        return select(largest[n] > 0, number(0, x.dtype) - found, found)

    return compute((x.shape[0],), pivot, name="pivots")


def _eliminated(x: Tensor, largest: Tensor) -> Tensor:
    """Return what is left of the other rows when the first column is made zero."""

    def element(n: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        best = largest[n]
        own = select(best == i + 1, number(0, "int64"), (i + 1).astype("int64"))
        pivot = x[n, best, 0]
        one = number(1, x.dtype)
        share = x[n, own, 0] / select(pivot == number(0, x.dtype), one, pivot)
        return x[n, own, j + 1] - share * x[n, best, j + 1]

    extent = x.shape[1] - 1
    return compute((x.shape[0], extent, extent), element, name="eliminated")


ROWS: Final[tuple[Row, ...]] = (
    row("Det", _det, note=f"matrices of more than {_LARGEST} rows"),
    row("Einsum", _einsum),
    row("Gemm", _gemm),
    row("MatMul", _matmul),
)
