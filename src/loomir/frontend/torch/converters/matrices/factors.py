"""Factors of matrices, and determinants."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.factorisation.lu import factor_lu, find_determinant, order_rows
from loomir.frontend.factorisation.qr import factor_qr, multiply_reflections
from loomir.frontend.factorisation.triangular import factor_cholesky
from loomir.frontend.torch.converters.matrices.batches import (
    compute_several,
    transpose,
)
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, const, select
from loomir.tir.expr import PrimExpr


@register("aten.linalg_lu_factor_ex.default")
def _factor_lu(node: Node) -> list[RelaxExpr]:
    _check_pivot(node)
    return compute_several(node, factor_lu, 3, node.tensor(0))


def _check_pivot(node: Node) -> None:
    if not node["pivot"]:
        raise node.refuse("pivot=False is not supported")


@register("aten.linalg_lu.default")
def _lu(node: Node) -> list[RelaxExpr]:
    _check_pivot(node)
    lu, pivots, _ = compute_several(node, factor_lu, 3, node.tensor(0))
    return _unpack(node, lu, pivots)


@register("aten.lu_unpack.default")
def _lu_unpack(node: Node) -> list[RelaxExpr]:
    if not (node["unpack_data"] and node["unpack_pivots"]):
        raise node.refuse("unpack_data=False and unpack_pivots=False are not supported")
    return _unpack(node, node.tensor(0), node.tensor(1))


def _unpack(node: Node, lu: RelaxExpr, pivots: RelaxExpr) -> list[RelaxExpr]:
    """Return the matrix that orders rows, and both triangles."""
    rows, columns = node.dims_of(lu)[-2:]
    count = node.dims_of(pivots)[-1]
    order = node.compute(order_rows, pivots, rows)
    lower = node.compute(_cut_lower, lu, rows, count)
    upper = node.compute(_cut_upper, lu, count, columns)
    return [node.compute(_permutation, order, node.dtype), lower, upper]


def _permutation(order: Tensor, dtype: str) -> Tensor:
    rows = order.shape[-1]

    def element(*place: PrimExpr) -> PrimExpr:
        *front, i, j = place
        return select(order(*front, j) == i, const(1, dtype), const(0, dtype))

    return compute((*order.shape, rows), element, name="permutation")


def _cut_lower(lu: Tensor, rows: Any, columns: Any) -> Tensor:
    """Return the lower triangle, with ones on the diagonal."""

    def element(*place: PrimExpr) -> PrimExpr:
        i, j = place[-2:]
        rest = select(i == j, const(1, lu.dtype), const(0, lu.dtype))
        return select(i > j, lu(*place), rest)

    return compute((*lu.shape[:-2], rows, columns), element, name="lower")


def _cut_upper(lu: Tensor, rows: Any, columns: Any) -> Tensor:
    """Return the upper triangle, of so many rows."""

    def element(*place: PrimExpr) -> PrimExpr:
        i, j = place[-2:]
        return select(i <= j, lu(*place), const(0, lu.dtype))

    return compute((*lu.shape[:-2], rows, columns), element, name="upper")


def _factor_for_determinant(node: Node) -> list[RelaxExpr]:
    """Return the factors of the matrix, or of the transposed one where PyTorch factors that.

    Gradients use the factors.
    """
    a = node.tensor(0)
    if node.definition.args[0].meta["val"].is_contiguous():
        a = transpose(node, a)
    return compute_several(node, factor_lu, 3, a)[:2]


@register("aten._linalg_det.default")
def _determinant(node: Node) -> list[RelaxExpr]:
    lu, pivots = _factor_for_determinant(node)
    made, _, _ = compute_several(node, find_determinant, 3, lu, pivots)
    return [made, lu, pivots]


@register("aten._linalg_slogdet.default")
def _logarithm_of_determinant(node: Node) -> list[RelaxExpr]:
    lu, pivots = _factor_for_determinant(node)
    _, sign, log = compute_several(node, find_determinant, 3, lu, pivots)
    return [sign, log, lu, pivots]


@register("aten.linalg_cholesky_ex.default")
def _cholesky(node: Node) -> list[RelaxExpr]:
    upper = bool(node["upper"])
    made, info = compute_several(node, factor_cholesky, 2, node.tensor(0), upper)
    return [made if upper else transpose(node, made), info]


@register("aten.linalg_qr.default")
def _qr(node: Node) -> list[Any]:
    rows, columns = node.dims(0)[-2:]
    stored, taus = compute_several(node, factor_qr, 2, node.tensor(0))
    count = node.dims_of(taus)[-1]
    mode = str(node["mode"])
    kept = rows if mode == "complete" else count
    upper = node.compute(_cut_upper, stored, kept, columns)
    if mode == "r":
        return [node.emit(op.full((0,), node.constant(0))), upper]
    return [node.compute(multiply_reflections, stored, taus, kept), upper]


@register("aten.geqrf.default")
def _reflections(node: Node) -> list[RelaxExpr]:
    return compute_several(node, factor_qr, 2, node.tensor(0))


@register("aten.linalg_householder_product.default")
def _product_of_reflections(node: Node) -> RelaxExpr:
    return node.compute(multiply_reflections, node.tensor(0), node.tensor(1), node.dims(0)[-1])
