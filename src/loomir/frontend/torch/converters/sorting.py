"""Sorting, and the k greatest elements."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.converters.searching import take_chosen
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, any_of, compute, select, topi
from loomir.tir.expr import NE, PrimExpr, const


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
        raise node.refuse("its k is unknown")
    axis = node.axis("dim", rank)
    if count == 0:
        shape = tuple(node.shape)
        return [op.full(shape, node.constant(0)), op.full(shape, node.constant(0, "int64"))]
    made = node.emit(op.topk(x, count, axis, "both", bool(node["largest"]), "int64"))
    return [node.emit(TupleGetItem(made, 0)), node.emit(TupleGetItem(made, 1))]


def _chosen(node: Node, x: RelaxExpr, axis: int, place: Any, *, finds_nan: bool) -> list[Any]:
    """Return the elements at a place of sorted rows, and where these were; NaNs come last.

    With ``finds_nan``, a row that has a NaN gives that.
    """
    count = node.dims_of(x)[axis]
    if isinstance(count, int) and not count:
        raise node.refuse("the reduced axis has no elements")

    def places(data: Tensor) -> Tensor:
        return topi.argsort(data, axis, False, dtype="int64", nan="greatest")

    order = node.compute(places, x)

    def take_at(k: Any) -> tuple[RelaxExpr, RelaxExpr]:
        where = node.emit(op.strided_slice(order, [axis], [k], [k + 1]))
        return node.emit(op.gather_elements(x, where, axis)), where

    value, where = take_at(place)
    if finds_nan and node.dtype_of(x).startswith(("float", "bfloat")):
        last, last_at = take_at(count - 1)
        there = node.emit(op.isnan(last))
        value = node.emit(op.where(there, last, value))
        where = node.emit(op.where(there, last_at, where))
    if node.arguments.get("keepdim", False):
        return [value, where]
    return [node.emit(op.squeeze(v, [axis])) for v in (value, where)]


@register("aten.median.dim")
def _median(node: Node) -> list[Any]:
    x, rank = _sortable(node), node.rank(0)
    if rank == 0:
        return [x, node.emit(op.full((), node.constant(0, "int64")))]
    axis = node.axis("dim", rank)
    return _chosen(node, x, axis, (node.dims(0)[axis] - 1) // 2, finds_nan=True)


@register("aten.median.default")
def _median_of_all(node: Node) -> RelaxExpr:
    x = node.emit(op.reshape(_sortable(node), (-1,)))
    return _chosen(node, x, 0, (node.dims_of(x)[0] - 1) // 2, finds_nan=True)[0]


def _median_of_numbers(node: Node, x: RelaxExpr, axis: int) -> list[RelaxExpr]:
    """Return the median of the elements along an axis that are not NaN, and where it was."""

    def places(data: Tensor) -> Tensor:
        return topi.argsort(data, axis, False, dtype="int64", nan="greatest")

    order = node.compute(places, x)
    numbers = node.emit(op.logical_not(node.emit(op.isnan(x))))
    count = node.emit(op.sum(node.cast(numbers, "int64"), [axis], True))
    half = node.emit(op.subtract(count, node.constant(1, "int64")))
    half = node.emit(op.maximum(half, node.constant(0, "int64")))
    half = node.emit(op.floor_divide(half, node.constant(2, "int64")))
    where = node.emit(op.gather_elements(order, half, axis))
    return [node.emit(op.gather_elements(x, where, axis)), where]


@register("aten.nanmedian.default")
def _nanmedian_of_all(node: Node) -> RelaxExpr:
    x = node.emit(op.reshape(_sortable(node), (-1,)))
    if not node.dtype_of(x).startswith(("float", "bfloat")):
        return _median_of_all(node)
    _refuse_nothing(node, x, 0)
    return op.reshape(_median_of_numbers(node, x, 0)[0], ())


@register("aten.nanmedian.dim")
def _nanmedian(node: Node) -> list[Any]:
    x, rank = _sortable(node), node.rank(0)
    if rank == 0 or not node.dtype_of(x).startswith(("float", "bfloat")):
        return _median(node)
    axis = node.axis("dim", rank)
    _refuse_nothing(node, x, axis)
    made = _median_of_numbers(node, x, axis)
    return made if node["keepdim"] else [node.emit(op.squeeze(v, [axis])) for v in made]


def _refuse_nothing(node: Node, x: RelaxExpr, axis: int) -> None:
    count = node.dims_of(x)[axis]
    if isinstance(count, int) and count == 0:
        raise node.refuse("the reduced axis has no elements")


@register("aten.kthvalue.default")
def _kth(node: Node) -> list[Any]:
    x, rank = _sortable(node), node.rank(0)
    if rank == 0:
        return [x, node.emit(op.full((), node.constant(0, "int64")))]
    axis = node.axis("dim", rank)
    return _chosen(node, x, axis, int(node["k"]) - 1, finds_nan=False)


# -- each element once ---------------------------------------------------------------------------
def _unique(node: Node, axis: int | None) -> list[Any]:
    """Return the elements that differ, the place of each element among them, and their counts."""
    x = _sortable(node)
    if node.rank(0) == 0:
        x = node.emit(op.reshape(x, (1,)))
    if axis is None and DataType(node.dtype_of(x)).is_float:
        return _unique_floats(node, x)
    made = node.emit(op.unique(x, True, True, True, True, axis))
    values, _, inverse, counts = [node.emit(TupleGetItem(made, i)) for i in range(4)]
    values = node.cast(values, node.dtype)
    if axis is None:
        inverse = node.emit(op.reshape(inverse, tuple(node.dims(0))))
    return [values, inverse, counts]


def _unique_floats(node: Node, x: RelaxExpr) -> list[Any]:
    """Return what ``_unique`` does for floats, of which a NaN equals no other."""
    flat = node.emit(op.reshape(x, (-1,)))

    def places(data: Tensor) -> Tensor:
        return topi.argsort(data, 0, False, dtype="int64", nan="greatest")

    def starts(data: Tensor) -> Tensor:
        def element(i: PrimExpr) -> PrimExpr:
            before = select(i > 0, i - 1, const(0, i.dtype))
            return any_of(i.equal(const(0, i.dtype)), NE(data(before), data(i)))

        return compute(data.shape, element, name="starts")

    order = node.compute(places, flat)
    ordered = node.emit(op.gather_elements(flat, order, 0))
    first = node.compute(starts, ordered)
    values = take_chosen(node, ordered, first, 0)
    number = node.emit(op.cumsum(node.cast(first, "int64"), 0))
    number = node.emit(op.subtract(number, node.constant(1, "int64")))
    zeros = node.emit(op.zeros_like(number))
    inverse = node.emit(op.scatter_elements(zeros, order, number, 0))
    none = node.emit(op.full((node.dims_of(values)[0],), node.constant(0, "int64")))
    ones = node.emit(op.ones_like(number))
    counts = node.emit(op.index_put(none, (number,), ones, True))
    return [values, node.emit(op.reshape(inverse, tuple(node.dims(0)))), counts]


@register("aten._unique2.default")
def _unique_elements(node: Node) -> list[Any]:
    values, *others = _unique(node, None)
    wanted = [bool(node[name]) for name in ("return_inverse", "return_counts")]
    nothing = op.zeros((0,), "int64")  # what PyTorch returns where it was not asked for
    return [values, *[o if w else node.emit(nothing) for o, w in zip(others, wanted, strict=True)]]


@register("aten.unique_dim.default")
def _unique_slices(node: Node) -> list[Any]:
    return _unique(node, node.axis("dim", node.rank(0)))
