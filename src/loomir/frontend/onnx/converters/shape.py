"""Constants, and operators on shapes that are known only at run time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.graph import constant_value
from loomir.frontend.onnx.low_precision import decode, encode, is_low
from loomir.frontend.onnx.model import ELEMENTS, STORED_AS
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.values import TensorValue, Value
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, compute
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import PrimExpr


def _constant(node: Node) -> Value:
    for name, dtype in (("value_int", "int64"), ("value_float", "float32")):
        for key in (name, name + "s"):
            if node.get(key) is not None:
                return constant_value((dtype, np.asarray(node.get(key), dtype)))
    for key in ("value", "sparse_value"):
        if node.get(key) is not None:
            return constant_value(node.get(key))
    text = node.get("value_string", node.get("value_strings"))
    if text is None:
        raise node.refuse("it has no attribute that gives its value")
    return TensorValue(None, "string", np.asarray(text, object))


def _identity(node: Node) -> Value:
    return node.value(0)


def _constant_of_shape(node: Node) -> Any:
    element, value = node.get("value", ("float32", np.zeros(1, "float32")))
    if element not in STORED_AS:
        raise node.refuse(f"elements of type {element} are not supported")
    one = constant(value.reshape(-1)[0], element)
    dims = tuple(node.extents(0))
    return TensorValue(node.emit(op.full(dims, one, STORED_AS[element])), element)


def _range(node: Node) -> RelaxExpr:
    known = [node.find_known(i) for i in range(3)]
    dtype = node.dtype(0)
    if all(k is not None for k in known):
        start, limit, delta = [k[0] for k in known if k is not None]
        if not any(isinstance(v, PrimExpr) for v in (start, limit, delta)):
            return op.arange(start, limit, delta, dtype)
        if dtype == "int64":
            bounds = [PrimValue(v) if isinstance(v, PrimExpr) else v for v in (start, limit)]
            return op.arange(bounds[0], bounds[1], delta, dtype)
    count = _count(node)
    places = node.emit(op.arange(0, PrimValue(count), 1, "int64"))
    steps = node.emit(op.multiply(node.emit(op.astype(places, dtype)), node[2]))
    return op.add(steps, node[0])


def _count(node: Node) -> Any:
    """Return how many elements a range has, computed when the program runs."""
    wide = [node.emit(op.astype(node[i], "float64")) for i in range(3)]
    length = node.emit(op.divide(node.emit(op.subtract(wide[1], wide[0])), wide[2]))
    whole = node.emit(op.astype(node.emit(op.ceil(length)), "int64"))
    least = node.emit(op.maximum(whole, constant(0, "int64")))
    return node.graph.extents(node.emit(op.reshape(least, (1,))), 1)[0]


def _bit_cast(node: Node) -> Any:
    target = ELEMENTS.get(node.get("to", 0), "")
    source = node.element(0)
    if source == "bool" and target in ("int8", "uint8"):
        return op.astype(node[0], target)
    if target not in STORED_AS or is_low(source) or is_low(target) or "bool" in (source, target):
        raise node.refuse(f"a bit cast from {source} to {target} is not supported")
    return node.compute(_reinterpret, node[0], target)


def _reinterpret(x: Tensor, dtype: str) -> Tensor:
    wanted = DataType(dtype)
    return compute(x.shape, lambda *i: call_builtin("reinterpret", x[i], dtype=wanted), name="bits")


def _eye_like(node: Node) -> RelaxExpr:
    from_type = node.get("dtype")
    dtype = node.dtype(0) if from_type is None else ELEMENTS.get(from_type, "")
    return op.eye_like(node[0], int(node.get("k", 0)), dtype)


def _cast(node: Node) -> Any:
    target = ELEMENTS.get(node.get("to", 0), "string")
    return cast_to(node, target)


def cast_to(node: Node, target: str) -> Any:
    """Convert the elements of the first input to another type."""
    source = node.element(0)
    if source == target:
        return node.value(0)
    if source not in STORED_AS or target not in STORED_AS:
        raise node.refuse(f"a cast from {source} to {target} is not supported")
    x = node[0]
    if is_low(source):
        x = decode(node, x, source, "float32" if is_low(target) else target)
    if not is_low(target):
        return x if is_low(source) else op.astype(x, target)
    saturate = bool(node.get("saturate", 1))
    made = encode(node, x, target, saturate=saturate, rounding=node.get("round_mode", "up"))
    return TensorValue(made, target)


def _cast_like(node: Node) -> Any:
    return cast_to(node, node.element(1))


def _shape(node: Node) -> RelaxExpr:
    raise node.refuse("the rank of its input is unknown")


ROWS: Final[tuple[Row, ...]] = (
    row("BitCast", _bit_cast),
    row("Cast", _cast, small=True),
    row("CastLike", _cast_like, small=True),
    row("Constant", _constant),
    row("ConstantOfShape", _constant_of_shape),
    row("EyeLike", _eye_like),
    row("Identity", _identity, moves=True),
    row("Range", _range),
    row("Shape", _shape, small=True),
    row("Size", _shape, small=True),
)
