"""Scores and labels of classifiers, from their raw sums."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.relax.constants import const
from loomir.relax.node import RelaxExpr

__all__ = ["ML", "array_of", "floats_of", "labels_of", "matrix_of", "scores_of", "two_columns"]

ML: Final = "ai.onnx.ml"


def array_of(node: Node, name: str, dtype: str = "float32") -> Any:
    """Return an attribute as an array of one axis; an empty one where it is not given."""
    given: Any = node.get(f"{name}_as_tensor")
    if given is None:
        given = node.get(name)
    else:  # a tensor: the type of its elements, and these
        given = given[1]
    if given is None:
        return np.zeros(0, dtype)
    found: Any = np.asarray(given)
    return found.reshape(-1).astype(dtype)


def floats_of(node: Node) -> RelaxExpr:
    """Return the first input as floats: integers become float32."""
    x = node[0]
    kept = ("float32", "float64")
    return x if node.dtype(0) in kept else node.emit(op.astype(x, "float32"))


def matrix_of(node: Node) -> RelaxExpr:
    """Return the first input as floats with two axes: one item is a row."""
    x = floats_of(node)
    rank = len(node.dims_of(x))
    if rank == 1:
        return node.emit(op.expand_dims(x, 0))
    if rank != 2:
        raise node.refuse(f"its input has {rank} axes, and must have 2: items and features")
    return x


def scores_of(node: Node, x: RelaxExpr, transform: str = "") -> RelaxExpr:
    """Return sums after a transform, by default the one that the node names."""
    named = transform or str(node.get("post_transform", "NONE"))
    if named == "NONE":
        return x
    if named == "LOGISTIC":
        return node.emit(op.sigmoid(x))
    if named == "SOFTMAX":
        return node.emit(op.nn.softmax(x, -1))
    raise node.refuse(f"its post_transform {named} is not supported")


def two_columns(node: Node, p: RelaxExpr, other: RelaxExpr) -> RelaxExpr:
    """Return the scores of two classes: those of the second are known."""
    return node.emit(op.concat([other, p], 1))


def labels_of(node: Node, places: RelaxExpr, name: str) -> RelaxExpr | None:
    """Return the labels of classes; None if nobody asks for them."""
    if not node.wants(0):
        return None
    if node.get("classlabels_strings"):
        raise node.refuse(
            "its labels are strings, which are not supported",
            help="number the classes before training, or drop the output that has the labels",
        )
    labels = array_of(node, name, "int64")
    if np.array_equal(labels, np.arange(len(labels))):
        return places
    return node.emit(op.take(const(labels), places, 0))
