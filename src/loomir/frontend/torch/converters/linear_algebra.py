"""Matrix products, and layers built from them."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, compute
from loomir.tir.expr import PrimExpr


@register("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default",
          "aten.dot.default")  # fmt: skip
def _product(node: Node) -> RelaxExpr:
    return _multiply(node, node.tensor(0), node.tensor(1))


def _multiply(node: Node, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    if node.dtype == "bool":
        made = node.emit(op.matmul(node.cast(a, "int32"), node.cast(b, "int32")))
        return node.emit(op.astype(made, "bool"))
    return op.matmul(a, b)


@register("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def _add_product(node: Node) -> RelaxExpr:
    made = node.emit(_multiply(node, node.tensor(1), node.tensor(2)))
    return _with_added(node, made)


@register("aten.addbmm.default")
def _add_sum_of_products(node: Node) -> RelaxExpr:
    a, b = node.tensor(1), node.tensor(2)
    narrow = DataType(node.dtype).is_float and DataType(node.dtype).bits == 16
    made = node.emit(op.matmul(a, b, "float32") if narrow else _multiply(node, a, b))
    return _with_added(node, node.cast(node.emit(op.sum(made, [0])), node.dtype))


def _with_added(node: Node, made: RelaxExpr) -> RelaxExpr:
    alpha, beta = node["alpha"], node["beta"]
    if alpha != 1:
        made = node.emit(op.multiply(made, node.as_tensor(alpha)))
    if beta == 0:
        return made
    added = node.tensor(0, node.dtype)
    if beta != 1:
        added = node.emit(op.multiply(added, node.as_tensor(beta)))
    return op.add(made, added)


@register("aten.linear.default")
def _linear(node: Node) -> RelaxExpr:
    weight = node.tensor(1)
    if len(node.dims_of(weight)) == 1:
        made = node.emit(op.matmul(node.tensor(0), weight))
        return made if node[2] is None else op.add(made, node.tensor(2))
    return op.linear(node.tensor(0), weight, None if node[2] is None else node.tensor(2))


@register("aten.outer.default")
def _outer(node: Node) -> RelaxExpr:
    return op.outer(node.tensor(0, node.dtype), node.tensor(1, node.dtype))


@register("aten._cdist_forward.default", "aten._euclidean_dist.default")
def _distances(node: Node) -> RelaxExpr:
    """Return the distance of each row of one matrix from each of another."""
    power = float(node.arguments.get("p", 2.0))
    a = node.emit(op.expand_dims(node.tensor(0), -2))
    b = node.emit(op.expand_dims(node.tensor(1), -3))
    return _norm(node, node.emit(op.subtract(a, b)), power)


def _norm(node: Node, gaps: RelaxExpr, power: float) -> RelaxExpr:
    """Return the norms of rows."""
    if power == 2.0:
        return op.sqrt(node.emit(op.sum(node.emit(op.square(gaps)), [-1])))
    sizes = node.emit(op.abs(gaps))
    if power in (float("inf"), float("-inf")):
        return op.max(sizes, [-1]) if power > 0 else op.min(sizes, [-1])
    if power == 0.0:
        others = node.emit(op.not_equal(gaps, node.constant(0)))
        return op.sum(node.cast(others, node.dtype), [-1])
    if power == 1.0:
        return op.sum(sizes, [-1])
    total = node.emit(op.sum(node.emit(op.power(sizes, node.constant(power))), [-1]))
    return op.power(total, node.constant(1.0 / power))


@register("aten.dist.default")
def _distance(node: Node) -> RelaxExpr:
    gaps = node.emit(op.subtract(node.tensor(0, node.dtype), node.tensor(1, node.dtype)))
    return _norm(node, node.emit(op.reshape(gaps, (-1,))), float(node["p"]))


@register("aten._pdist_forward.default")
def _pair_distances(node: Node) -> RelaxExpr:
    """Return the distances of the rows of a matrix from those after them."""
    x = node.tensor(0)
    rows = node.dims(0)[0]

    def pairs(rows: Any) -> Tensor:
        def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            return i < j

        return compute((rows, rows), element, name="pairs")

    found = node.emit(op.nonzero(node.compute(pairs, rows)))
    first, second = [
        node.emit(op.take(x, node.emit(op.take(found, node.constant(i, "int64"), 0)), 0))
        for i in (0, 1)
    ]
    return _norm(node, node.emit(op.subtract(first, second)), float(node["p"]))


@register("aten._trilinear.default")
def _trilinear(node: Node) -> RelaxExpr:
    """Multiply three tensors, expanded to the same axes, and sum over some of these."""
    rank = len(node.dims("i1")) + len(node["expand1"])
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    axes = [
        "".join(c for i, c in enumerate(letters) if i not in node[f"expand{k}"]) for k in (1, 2, 3)
    ]
    kept = "".join(c for i, c in enumerate(letters) if i not in node["sumdim"])
    between = "".join(c for c in letters if c in axes[0] + axes[1] and c in kept + axes[2])
    operands = [node.tensor(f"i{k}") for k in (1, 2, 3)]
    part = node.emit(op.einsum(tuple(operands[:2]), f"{axes[0]},{axes[1]}->{between}"))
    made = f"{between},{axes[2]}->"
    there = "".join(c for c in kept if c in between + axes[2])
    total = node.emit(op.einsum((part, operands[2]), made + there))
    return op.broadcast_to(
        node.emit(op.reshape(total, tuple(_expand(node, kept, there, total)))), tuple(node.shape)
    )


def _expand(node: Node, kept: str, there: str, total: RelaxExpr) -> list[Any]:
    dims = iter(node.dims_of(total))
    return [next(dims) if c in there else 1 for c in kept]
