"""Eigenvalues of symmetric matrices, singular values, and functions of matrices."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.factorisation.exponential import exponentiate
from loomir.frontend.factorisation.jacobi import diagonalise, make_rows_orthogonal, precision_of
from loomir.frontend.factorisation.qr import factor_qr, multiply_reflections
from loomir.frontend.torch.converters.matrices.batches import (
    compute_several,
    make_identity,
    transpose,
)
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, all_of, compute, const, select
from loomir.te.topi.shape import dims
from loomir.tir.expr import PrimExpr


def _make_empty(node: Node, *extents: Any) -> RelaxExpr:
    return node.emit(op.full(extents or (0,), node.constant(0)))


@register("aten._linalg_eigh.default")
def _eigenvalues(node: Node) -> list[RelaxExpr]:
    upper = str(node["UPLO"]).upper() == "U"
    values, vectors = compute_several(node, diagonalise, 2, node.tensor(0, "float64"), upper)
    return [values, transpose(node, vectors) if node["compute_v"] else _make_empty(node)]


def _find_singular(node: Node, full: bool = False) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """Return the left singular vectors as columns, the values, and the right vectors as rows.

    They are computed in float64: a sum of squares has half of the digits of its terms.
    """
    a = node.tensor(0, "float64")
    *batch, rows, columns = node.dims(0)
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise node.refuse("the extents of its matrices are unknown")
    if not rows or not columns:
        sides = [
            make_identity(node, batch, n) if full else _make_empty(node, *batch, *shape)
            for n, shape in ((rows, (rows, 0)), (columns, (0, columns)))
        ]
        return sides[0], _make_empty(node, *batch, 0), sides[1]
    wide = rows < columns
    w = a if wide else transpose(node, a)
    w, rotations, values = compute_several(node, make_rows_orthogonal, 3, w)
    units = transpose(node, node.compute(_normalise, w, values))
    stored, taus = compute_several(node, factor_qr, 2, units)
    count = max(rows, columns) if full else min(rows, columns)
    q = node.compute(multiply_reflections, stored, taus, count)
    q = node.compute(_restore_signs, q, stored)
    if wide:
        return transpose(node, rotations), values, transpose(node, q)
    return q, values, rotations


def _normalise(w: Tensor, sizes: Tensor) -> Tensor:
    """Divide rows by their sizes; what is only rounding becomes zero."""
    smallest = precision_of(w.dtype) * max(n for n in dims(w)[-2:] if isinstance(n, int))

    def element(*place: PrimExpr) -> PrimExpr:
        *front, i, _ = place
        limit = sizes(*front, 0) * const(smallest, w.dtype)
        size = sizes(*front, i)
        none = size <= limit
        own = w(*place) / select(none, const(1, w.dtype), size)
        return select(none, const(0, w.dtype), own)

    return compute(w.shape, element, name="units")


def _restore_signs(q: Tensor, stored: Tensor) -> Tensor:
    """Return columns that point where those that were factored did."""
    count = stored.shape[-1]

    def element(*place: PrimExpr) -> PrimExpr:
        *front, _, j = place
        own = select(j < count, j, count - 1)
        negative = stored(*front, own, own) < const(0, q.dtype)
        value = q(*place)
        return select(all_of(j < count, negative), -value, value)

    return compute(q.shape, element, name="vectors")


_UNKNOWN: Final = "matrices whose extents are unknown"


@register("aten._linalg_svd.default", note=_UNKNOWN)
def _singular_values(node: Node) -> list[RelaxExpr]:
    left, values, right = _find_singular(node, bool(node["full_matrices"]))
    if not node["compute_uv"]:
        left = right = _make_empty(node)
    return [node.cast(x, node.dtype) for x in (left, values, right)]


def _find_limit(node: Node, greatest: RelaxExpr, default: float) -> RelaxExpr:
    """Return what values must exceed: an argument, or a share of the greatest."""
    least, ratio = [
        None
        if node[name] is None
        else node.emit(op.expand_dims(node.tensor(name, "float64"), [-1]))
        for name in ("atol", "rtol")
    ]
    if ratio is None:
        ratio = node.constant(default, "float64")
        zero = node.constant(0, "float64")
        if least is not None:
            ratio = node.emit(op.where(node.emit(op.greater(least, zero)), zero, ratio))
    share = node.emit(op.multiply(greatest, ratio))
    return share if least is None else node.emit(op.maximum(least, share))


@register("aten.linalg_pinv.atol_rtol_tensor", note=f"{_UNKNOWN}, and hermitian=True")
def _pseudo_inverse(node: Node) -> RelaxExpr:
    """Return the inverse where the values are, and zero where they are only rounding."""
    if node["hermitian"]:
        raise node.refuse("hermitian=True is not supported", help="leave out hermitian=True")
    left, values, right = _find_singular(node)
    rows, columns = node.dims(0)[-2:]
    if not rows or not columns:
        return op.full(tuple(node.shape), node.constant(0))
    rank = len(node.dims_of(values))
    greatest = node.emit(op.strided_slice(values, [rank - 1], [0], [1]))
    limit = _find_limit(node, greatest, precision_of(node.dtype) * max(rows, columns))
    one, zero = node.constant(1, "float64"), node.constant(0, "float64")
    counts = node.emit(op.greater(values, limit))
    safe = node.emit(op.where(counts, values, one))
    factors = node.emit(op.where(counts, node.emit(op.divide(one, safe)), zero))
    scaled = node.emit(op.multiply(left, node.emit(op.expand_dims(factors, [-2]))))
    return op.matmul(transpose(node, right), transpose(node, scaled))


@register("aten.linalg_matrix_exp.default")
def _exponential(node: Node) -> RelaxExpr:
    return node.compute(exponentiate, node.tensor(0, "float64"))
