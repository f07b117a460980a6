"""Sorting, and the k greatest elements."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, topi


def _sortable(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    return node.cast(x, "uint8") if node.dtype_of(x) == "bool" else x


def _import_sort(node: Node, descending: bool) -> list[Any]:
    x = _sortable(node)
    rank = node.rank(0)
    if rank == 0:
        return [x, node.emit(op.full((), node.constant(0, "int64")))]
    axis = node.axis("dim", rank)

    def places(data: Tensor) -> Tensor:
        return topi.argsort(data, axis, descending, dtype="int64", nan="greatest")

    order = node.compute(places, x)
    return [node.emit(op.gather_elements(x, order, axis)), order]


@register("aten.sort.default", "aten.sort.stable")
def _sort(node: Node) -> list[Any]:
    return _import_sort(node, bool(node["descending"]))


@register("aten.argsort.default", "aten.argsort.stable")
def _argsort(node: Node) -> RelaxExpr:
    return _import_sort(node, bool(node["descending"]))[1]


@register("aten.topk.default")
def _topk(node: Node) -> list[Any]:
    x = _sortable(node)
    rank = node.rank(0)
    if rank == 0:
        return [x, node.emit(op.full((), node.constant(0, "int64")))]
    count = node["k"]
    if not isinstance(count, int):
        raise node.refuse("how many it takes is not known")
    axis = node.axis("dim", rank)
    if count == 0:
        shape = tuple(node.shape)
        return [op.full(shape, node.constant(0)), op.full(shape, node.constant(0, "int64"))]
    made = node.emit(op.topk(x, count, axis, "both", bool(node["largest"]), "int64"))
    return [node.emit(TupleGetItem(made, 0)), node.emit(TupleGetItem(made, 1))]
