"""Preprocessing of features."""

from __future__ import annotations

from typing import Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.converters.ml.scores import ML, array_of, floats_of
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.constants import const
from loomir.relax.node import RelaxExpr


def _scaler(node: Node) -> RelaxExpr:
    x = node.emit(op.astype(node[0], "float32")) if node.dtype(0) != "float32" else node[0]
    offset, scale = array_of(node, "offset"), array_of(node, "scale")
    if offset.size:
        x = node.emit(op.subtract(x, const(offset)))
    return node.emit(op.multiply(x, const(scale))) if scale.size else x


def _normalizer(node: Node) -> RelaxExpr:
    x = node.emit(op.astype(floats_of(node), "float32"))
    how = str(node.get("norm", "MAX"))
    if how == "L2":
        squares = node.emit(op.sum(node.emit(op.square(x)), [-1], keepdims=True))
        norm = node.emit(op.sqrt(squares))
    elif how == "L1":
        norm = node.emit(op.sum(node.emit(op.abs(x)), [-1], keepdims=True))
    else:
        norm = node.emit(op.max(x, [-1], keepdims=True))
    zero = node.emit(op.equal(norm, const(np.array(0, "float32"))))
    safe = node.emit(op.where(zero, const(np.array(1, "float32")), norm))
    return op.divide(x, safe)


def _binarizer(node: Node) -> RelaxExpr:
    least = node.constant_like(node.get("threshold", 0.0))
    return op.astype(node.emit(op.greater(node[0], least)), node.dtype(0))


def _extractor(node: Node) -> RelaxExpr:
    flat = node.emit(op.reshape(node[1], (-1,)))
    made = node.emit(op.take(node[0], flat, len(node.dims(0)) - 1))
    return op.expand_dims(made, 0) if len(node.dims(0)) == 1 else made


def _imputer(node: Node) -> RelaxExpr:
    whole = node.dtype(0).startswith("int")
    kind = "int64" if whole else "float"
    values = array_of(node, f"imputed_value_{kind}s", node.dtype(0))
    replaced = node.get(f"replaced_value_{kind}", 0)
    x = node[0]
    if isinstance(replaced, float) and np.isnan(replaced):
        gone = node.emit(op.isnan(x))
    else:
        gone = node.emit(op.equal(x, node.constant_like(replaced)))
    return op.where(gone, const(values), x)


def _vectorizer(node: Node) -> RelaxExpr:
    parts = [node.emit(op.astype(x, "float32")) for x in node.all()]
    return op.concat(parts, 1)


def _zip_map(node: Node) -> RelaxExpr:
    raise node.refuse(
        "it returns dictionaries of labels and scores, which are not supported",
        help='export without it: skl2onnx.to_onnx(model, x, options={"zipmap": False})',
    )


ROWS: Final[tuple[Row, ...]] = (
    row("ArrayFeatureExtractor", _extractor, domain=ML),
    row("Binarizer", _binarizer, domain=ML),
    row("FeatureVectorizer", _vectorizer, domain=ML),
    row("Imputer", _imputer, domain=ML),
    row("Normalizer", _normalizer, domain=ML),
    row("Scaler", _scaler, domain=ML),
    row("ZipMap", _zip_map, domain=ML, note="all: its dictionaries; export without it"),
)
