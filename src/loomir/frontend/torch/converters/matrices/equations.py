"""Linear equations and inverses of matrices."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.factorisation.lu import factor_lu, solve_by_lu
from loomir.frontend.factorisation.triangular import solve_triangular
from loomir.frontend.torch.converters.matrices.batches import (
    compute_several,
    expand_batch,
    make_identity,
    transpose,
)
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr


def _solve(
    node: Node, factors: list[RelaxExpr], b: RelaxExpr, transposed: bool, batch: list[Any]
) -> RelaxExpr:
    lu, pivots = expand_batch(node, factors[0], batch), expand_batch(node, factors[1], batch, 1)
    return node.compute(solve_by_lu, lu, pivots, expand_batch(node, b, batch), transposed)


@register("aten.linalg_inv_ex.default", note="matrices whose number of rows is unknown")
def _inverse(node: Node) -> list[RelaxExpr]:
    factors = compute_several(node, factor_lu, 3, node.tensor(0))
    *batch, rows, _ = node.shape
    made = _solve(node, factors, make_identity(node, batch, rows), False, batch)
    return [made, factors[2]]


def _is_vector(node: Node, a: list[Any], b: list[Any]) -> bool:
    """Tell whether the right-hand side has one vector for each matrix."""
    if len(b) == 1:
        return True
    return len(b) == len(a) - 1 and all(node.is_equal(m, n) for m, n in zip(a, b))


@register("aten._linalg_solve_ex.default")
def _solve_equations(node: Node) -> list[RelaxExpr]:
    factors = compute_several(node, factor_lu, 3, node.tensor(0))
    b = node.tensor(1)
    vector = _is_vector(node, node.dims(0), node.dims(1))
    left = bool(node["left"])
    batch = node.shape[:-1] if vector else node.shape[:-2]
    if vector:
        b = node.emit(op.expand_dims(b, [-1]))
    elif not left:
        b = transpose(node, b)
    made = _solve(node, factors, b, not left, batch)
    if vector:
        made = node.emit(op.squeeze(made, [-1]))
    elif not left:
        made = transpose(node, made)
    return [made, *factors]


@register("aten.linalg_lu_solve.default")
def _solve_by_factors(node: Node) -> RelaxExpr:
    left, transposed = bool(node["left"]), bool(node["adjoint"])
    b = node.tensor("B") if left else transpose(node, node.tensor("B"))
    factors = [node.tensor(0), node.tensor(1)]
    made = _solve(node, factors, b, transposed == left, node.shape[:-2])
    return made if left else transpose(node, made)


def _solve_triangle(
    node: Node, t: RelaxExpr, b: RelaxExpr, upper: bool, transposed: bool, unit: bool = False
) -> RelaxExpr:
    batch = node.shape[:-2]
    t, b = expand_batch(node, t, batch), expand_batch(node, b, batch)
    return node.compute(solve_triangular, t, b, upper, transposed, unit)


@register("aten.linalg_solve_triangular.default")
def _solve_triangular_equations(node: Node) -> RelaxExpr:
    upper, left, unit = [bool(node[name]) for name in ("upper", "left", "unitriangular")]
    t, b = node.tensor(0), node.tensor(1)
    if left:
        return _solve_triangle(node, t, b, upper, False, unit)
    return transpose(node, _solve_triangle(node, t, transpose(node, b), upper, True, unit))


@register("aten.triangular_solve.default")
def _solve_triangular_system(node: Node) -> list[RelaxExpr]:
    upper, transposed, unit = [bool(node[n]) for n in ("upper", "transpose", "unitriangular")]
    t = node.tensor("A")
    made = _solve_triangle(node, t, node.tensor(0), upper, transposed, unit)
    return [made, expand_batch(node, t, node.shape[:-2])]


def _solve_by_triangle(node: Node, t: RelaxExpr, b: RelaxExpr, upper: bool) -> RelaxExpr:
    """Solve the equations of a matrix that is a triangle times its transpose."""
    made = _solve_triangle(node, t, b, upper, transposed=upper)
    return _solve_triangle(node, t, made, upper, transposed=not upper)


@register("aten.cholesky_solve.default")
def _solve_by_cholesky(node: Node) -> RelaxExpr:
    return _solve_by_triangle(node, node.tensor(1), node.tensor(0), bool(node["upper"]))


@register("aten.cholesky_inverse.default", note="matrices whose number of rows is unknown")
def _invert_by_cholesky(node: Node) -> RelaxExpr:
    *batch, rows, _ = node.shape
    unit = make_identity(node, batch, rows)
    return _solve_by_triangle(node, node.tensor(0), unit, bool(node["upper"]))
