"""Batches of matrices: how they are broadcast, transposed and factored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr

__all__ = ["compute_several", "expand_batch", "make_identity", "transpose"]


def compute_several(
    node: Node, te_func: Callable[..., Any], count: int, *args: Any
) -> list[RelaxExpr]:
    """Bind the results of a kernel that makes several tensors."""
    made = node.compute(te_func, *args)
    return [node.emit(TupleGetItem(made, i)) for i in range(count)]


def transpose(node: Node, x: RelaxExpr) -> RelaxExpr:
    """Exchange the last two axes."""
    rank = len(node.dims_of(x))
    return node.emit(op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2]))


def expand_batch(node: Node, x: RelaxExpr, batch: Sequence[Any], axes: int = 2) -> RelaxExpr:
    """Repeat items, of so many last axes, for a batch."""
    dims = node.dims_of(x)
    own = dims[: len(dims) - axes]
    if len(own) == len(batch) and all(node.is_equal(a, b) for a, b in zip(own, batch)):
        return x
    return node.emit(op.broadcast_to(x, (*batch, *dims[len(dims) - axes :])))


def make_identity(node: Node, batch: Sequence[Any], rows: Any) -> RelaxExpr:
    """Return the unit matrix for each item of a batch."""
    if not isinstance(rows, int):
        raise node.refuse("the number of rows of its matrices is unknown")
    return node.emit(
        op.broadcast_to(node.emit(op.eye(rows, rows, 0, node.dtype)), (*batch, rows, rows))
    )
