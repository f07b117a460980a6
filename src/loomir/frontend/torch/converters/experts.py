"""Products of groups of rows, each with a matrix of its own: mixtures of experts."""

from __future__ import annotations

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, reduce_axis, select
from loomir.te import sum as te_sum
from loomir.te.topi.shape import dims
from loomir.tir.expr import LE, Min, PrimExpr, const


def _find_groups(ends: Tensor, x: Tensor) -> Tensor:
    """Return the group of each row; rows after the end of the last have a number beyond it."""
    groups = dims(ends)[0]

    def group(row: PrimExpr) -> PrimExpr:
        e = reduce_axis((0, groups), "e")
        place = row.astype(str(ends.dtype))
        return te_sum(LE(ends[e], place).astype("int32"), axis=e)

    return compute((x.shape[0],), group, name="groups")


def _multiply_groups(x: Tensor, weights: Tensor, groups: Tensor, count: int) -> Tensor:
    """Multiply each row by the matrix of its group; rows without a group become zeros."""
    _, inner, columns = dims(weights)
    narrow = x.dtype.is_float and x.dtype.bits == 16
    kind = "float32" if narrow else str(x.dtype)

    def element(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        k = reduce_axis((0, inner), "k")
        group = Min(groups[row], const(count - 1, "int32"))
        return te_sum(x[row, k].astype(kind) * weights[group, k, column].astype(kind), axis=k)

    shape = (x.shape[0], columns)
    total = compute(shape, element, name="products")
    nothing = const(0, kind)

    def keep(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        outside = groups[row] >= const(count, "int32")
        return select(outside, nothing, total[row, column]).astype(str(x.dtype))

    return compute(shape, keep, name="grouped")


@register("transformers.grouped_mm_fallback.default")
def _grouped_rows(node: Node) -> RelaxExpr:
    return _import_groups(node, node.tensor(0), node.tensor(1), node.tensor(2))


@register("aten._grouped_mm.default", note="groups of columns, and of steps of the sums")
def _grouped_product(node: Node) -> RelaxExpr:
    a, b = node.tensor(0), node.tensor(1)
    if node["bias"] is not None:
        raise node.refuse("it adds a bias")
    ranks = len(node.dims_of(a)), len(node.dims_of(b))
    if ranks == (3, 3):
        return node.cast(node.emit(op.matmul(a, b)), node.dtype)
    if ranks != (2, 3) or node["offs"] is None:
        raise node.refuse("its groups are not those of rows")
    return node.cast(_import_groups(node, a, b, node.tensor("offs")), node.dtype)


def _import_groups(node: Node, x: RelaxExpr, weights: RelaxExpr, ends: RelaxExpr) -> RelaxExpr:
    count = node.dims_of(weights)[0]
    if not isinstance(count, int):
        raise node.refuse("the number of its groups is unknown")
    if count == 0:
        return node.emit(op.zeros(tuple(node.shape), node.dtype))
    groups = node.compute(_find_groups, ends, x)
    return node.compute(_multiply_groups, x, weights, groups, count)
