"""Linear models, and support vector machines for regression."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.converters.ml.scores import (
    ML,
    array_of,
    labels_of,
    matrix_of,
    scores_of,
)
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.constants import const
from loomir.relax.node import RelaxExpr


def _float32(node: Node, x: RelaxExpr) -> RelaxExpr:
    return x if str(node.info_of(x).dtype) == "float32" else node.emit(op.astype(x, "float32"))


def _sums(node: Node, rows: int) -> RelaxExpr:
    """Return the products of items with rows of coefficients, and intercepts with them."""
    weights = array_of(node, "coefficients").reshape(rows, -1)
    made = node.emit(op.matmul(_float32(node, matrix_of(node)), const(weights.T.copy())))
    intercepts = array_of(node, "intercepts")
    return node.emit(op.add(made, const(intercepts))) if intercepts.size else made


def _regressor(node: Node) -> RelaxExpr:
    return scores_of(node, _sums(node, int(node.get("targets", 1))))


def _classifier(node: Node) -> list[Any]:
    rows = max(array_of(node, "intercepts").size, 1)
    labels = len(node.get("classlabels_ints") or node.get("classlabels_strings") or ())
    if rows == 1:
        raise node.refuse("one row of coefficients for two classes is not supported")
    if labels and labels != rows:
        raise node.refuse(f"it has {rows} rows of coefficients for {labels} classes")
    made = _sums(node, rows)
    places = node.emit(op.argmax(made, -1))
    return [labels_of(node, places, "classlabels_ints"), scores_of(node, made)]


def _svm_regressor(node: Node) -> RelaxExpr:
    x = _float32(node, matrix_of(node))
    coefficients = array_of(node, "coefficients")
    count = int(node.get("n_supports", 0))
    kind = str(node.get("kernel_type", "LINEAR"))
    if count:
        vectors = array_of(node, "support_vectors").reshape(count, -1)
        made = node.emit(op.matmul(_kernel(node, x, vectors, kind), const(coefficients[:, None])))
    else:
        made = node.emit(op.matmul(x, const(coefficients[:, None])))
    made = node.emit(op.add(made, const(array_of(node, "rho")[:1])))
    if node.get("one_class", 0):
        above = node.emit(op.greater(made, const(np.array(0, "float32"))))
        one, less = const(np.array(1, "float32")), const(np.array(-1, "float32"))
        made = node.emit(op.where(above, one, less))
    return scores_of(node, made)


def _kernel(node: Node, x: RelaxExpr, vectors: Any, kind: str) -> RelaxExpr:
    """Return how near items are to support vectors."""
    gamma, bias, degree = [float(v) for v in (*array_of(node, "kernel_params"), 0, 0, 0)[:3]]
    products = node.emit(op.matmul(x, const(vectors.T.copy())))
    if kind == "LINEAR":
        return products
    factor = const(np.array(gamma, "float32"))
    if kind == "RBF":
        own = node.emit(op.sum(node.emit(op.square(x)), [1], keepdims=True))
        theirs = const((vectors * vectors).sum(1)[None].astype("float32"))
        twice = node.emit(op.multiply(products, const(np.array(2, "float32"))))
        far = node.emit(op.subtract(node.emit(op.add(own, theirs)), twice))
        return node.emit(op.exp(node.emit(op.negative(node.emit(op.multiply(far, factor))))))
    inner = node.emit(op.multiply(products, factor))
    inner = node.emit(op.add(inner, const(np.array(bias, "float32"))))
    if kind == "SIGMOID":
        return node.emit(op.tanh(inner))
    if kind == "POLY":
        return node.emit(op.power(inner, const(np.array(degree, "float32"))))
    raise node.refuse(f"its kernel_type {kind} is not supported")


ROWS: Final[tuple[Row, ...]] = (
    row(
        "LinearClassifier", _classifier, domain=ML, note="one row of coefficients; strings, PROBIT"
    ),
    row("LinearRegressor", _regressor, domain=ML, note="PROBIT"),
    row("SVMRegressor", _svm_regressor, domain=ML, note="PROBIT"),
)
