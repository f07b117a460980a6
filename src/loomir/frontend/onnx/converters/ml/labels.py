"""Numbers for numbers: LabelEncoder and OneHotEncoder."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.converters.ml.scores import ML
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr

_STRINGS: Final = "it has strings"


def _listed(node: Node, what: str) -> Any:
    """Return the keys or the values of an encoder; those that are strings are refused."""
    tensor = node.get(f"{what}_tensor")
    if tensor is not None:
        return _elements(node, tensor)
    for kind, dtype in (("int64s", "int64"), ("floats", "float32")):
        given = node.get(f"{what}_{kind}")
        if given is not None:
            return np.asarray(given, dtype)
    raise node.refuse(_STRINGS, help="convert labels to numbers outside the model")


def _elements(node: Node, tensor: Any) -> Any:
    """Return the elements of an attribute that is a tensor: its type, and they."""
    whole: Any = np.asarray(tensor[1])
    found: Any = whole.reshape(-1)
    if found.dtype.kind not in "iuf":
        raise node.refuse(_STRINGS, help="convert labels to numbers outside the model")
    return found


def _default(node: Node, dtype: Any) -> Any:
    tensor = node.get("default_tensor")
    if tensor is not None:
        return _elements(node, tensor)[0]
    if dtype.kind == "f":
        return node.get("default_float", -0.0)
    return node.get("default_int64", -1)


def _hits(node: Node, keys: Any) -> RelaxExpr:
    """Tell, along a new last axis, which key an element is; a NaN is a key like others."""
    x = node.emit(op.expand_dims(node[0], -1))
    dtype = node.dtype(0)
    hits = node.emit(op.equal(x, constant(keys, dtype)))
    if keys.dtype.kind != "f" or not np.isnan(keys).any():
        return hits
    nans = node.emit(op.logical_and(node.emit(op.isnan(x)), constant(np.isnan(keys), "bool")))
    return node.emit(op.logical_or(hits, nans))


def _label_encoder(node: Node) -> RelaxExpr:
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if len(keys) != len(values) or not len(keys):
        raise node.refuse(f"it has {len(keys)} keys and {len(values)} values")
    keys, values = keys[::-1], values[::-1]  # the last of equal keys counts, and argmax takes first
    hits = node.emit(op.astype(_hits(node, keys), "int8"))
    found = node.emit(
        op.take(constant(values, str(values.dtype)), node.emit(op.argmax(hits, -1)), 0)
    )
    there = node.emit(op.astype(node.emit(op.max(hits, [-1])), "bool"))
    return op.where(there, found, constant(_default(node, values.dtype), str(values.dtype)))


def _one_hot_encoder(node: Node) -> RelaxExpr:
    categories = node.get("cats_int64s")
    if categories is None:
        raise node.refuse(_STRINGS, help="convert categories to numbers before the model")
    if not node.get("zeros", 1):
        raise node.refuse("zeros=0 is not supported: it makes an unknown category an error")
    return op.astype(_hits(node, np.asarray(categories, "int64")), "float32")


ROWS: Final[tuple[Row, ...]] = (
    row("LabelEncoder", _label_encoder, domain=ML, note="strings"),
    row("OneHotEncoder", _one_hot_encoder, domain=ML, note="strings; `zeros` that is 0"),
)
