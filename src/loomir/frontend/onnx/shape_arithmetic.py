"""Evaluate shape arithmetic at import: extents, and small arrays of numbers.

Exporters compute shapes by graphs of Shape, Gather, Concat and the like. Here these operators work
on arrays whose elements are numbers or expressions of extents, so that only the resulting extents
remain in the program. What is unknown, such as which of two extents is greater, is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.frontend.onnx.model import ELEMENTS, STORED_AS
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.values import MOST_KNOWN, TensorValue, is_array, objects
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["fold"]

NPArray: TypeAlias = Any
"""An array of NumPy, of numbers or of expressions: too much for its annotations."""
_Fold: TypeAlias = Callable[[Node, "list[NPArray]"], Any]


def fold(node: Node) -> TensorValue | None:
    """Return the output of a node that is known at import; None if it is not."""
    found = _FOLDS.get(node.operator)
    if found is None or node.definition.domain or not node.inputs:
        return None
    if node.operator in ("Shape", "Size"):
        return _shape(node)
    arrays: list[NPArray] = []
    for value in node.inputs:
        known = value.known if isinstance(value, TensorValue) else None
        if known is None or not isinstance(value, TensorValue) or value.element == "string":
            return None
        arrays.append(known)
    first = node.tensor(0).element
    if any(a.dtype.hasobject for a in arrays):
        if not all(a.dtype.hasobject or a.dtype.kind in "iub" for a in arrays):
            return None
        arrays = [a.astype(object) for a in arrays]
    elif STORED_AS.get(first) != first:
        return None
    with np.errstate(all="ignore"):
        made = found(node, arrays)
    if made is None:
        return None
    if not is_array(made):  # NumPy takes single objects out of their array
        made = objects([made], ())
    if made.size > MOST_KNOWN:
        return None
    return _finish(node, made, first)


def _finish(node: Node, made: NPArray, element: str) -> TensorValue | None:
    if node.operator == "Cast":
        element = _target(node)
    elif node.operator in _TRUTHS:
        element = "bool"
    elif node.operator == "Where":
        element = node.tensor(1).element
    elif node.operator == "ConstantOfShape":
        element = node.get("value", ("float32", None))[0]
    if element not in STORED_AS or STORED_AS[element] != element:
        return None
    if not made.dtype.hasobject:
        return TensorValue(None, element, made.astype(numpy_of(DataType(element))))
    flat = [node.simplify(v) for v in made.reshape(-1)]
    if any(isinstance(v, PrimExpr) for v in flat):
        if element not in ("int64", "int32"):
            return None
        return TensorValue(None, element, objects(flat, made.shape))
    numbers = cast("NPArray", np.array(flat, numpy_of(DataType(element))))
    return TensorValue(None, element, numbers.reshape(made.shape))


def _shape(node: Node) -> TensorValue | None:
    dims = node.dims(0)
    if node.operator == "Size":
        total: Any = 1
        for d in dims:
            total = total * d
        items = [node.simplify(total)]
    else:
        rank = len(dims)
        bounds = [int(node.get("start", 0)), int(node.get("end", rank))]
        start, end = [min(max(b + rank if b < 0 else b, 0), rank) for b in bounds]
        items = [d.value if isinstance(d, IntImm) else d for d in dims[start:end]]
    known = objects(items, (len(items),))
    if not any(isinstance(v, PrimExpr) for v in items):
        known = known.astype("int64")
    return TensorValue(None, "int64", known.reshape(()) if node.operator == "Size" else known)


# -- elements ------------------------------------------------------------------------------------
def _binary(apply: Callable[[Any, Any], Any]) -> _Fold:
    def convert(node: Node, arrays: list[NPArray]) -> NPArray | None:
        if len(arrays) != 2 or not _fits(arrays):
            return None
        a, b = cast("list[NPArray]", np.broadcast_arrays(*arrays))
        if not a.dtype.hasobject:
            made: NPArray = np.asarray(apply(a, b))
            return made
        flat = [apply(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1))]
        return None if any(v is None for v in flat) else objects(flat, a.shape)

    return convert


def _fits(arrays: list[NPArray]) -> bool:
    try:
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    except ValueError:
        return False
    return int(np.prod(shape, dtype=object)) <= MOST_KNOWN


def _divide(a: Any, b: Any) -> Any:
    if is_array(a):
        if a.dtype.kind == "f":
            return a / b
        if not np.all(b):
            return None
        return (np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype)
    if isinstance(b, PrimExpr) or b <= 0:
        return None
    if isinstance(a, PrimExpr):
        return a // b if _is_extent(a) else None
    return -(-a // b) if a < 0 else a // b


def _is_extent(expr: PrimExpr) -> bool:
    """Tell whether an expression certainly is not below 0."""
    todo = [expr]
    while todo:
        part = todo.pop()
        if isinstance(part, IntImm):
            if part.value < 0:
                return False
        elif type(part).__name__ in ("Add", "Mul", "FloorDiv", "Max"):
            todo += [part.a, part.b]  # type: ignore[attr-defined]
        elif type(part).__name__ != "Var":
            return False
    return True


def _modulo(a: Any, b: Any) -> Any:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        certain = isinstance(a, PrimExpr) and not isinstance(b, PrimExpr) and b > 0
        return a % b if certain and _is_extent(a) else None
    if is_array(a):
        return None if a.dtype.kind not in "iu" or not np.all(b) else np.mod(a, b)
    return a % b if b > 0 else None


def _equal(a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return np.equal(a, b) if is_array(a) else a == b
    for one, other in ((a, b), (b, a)):
        if isinstance(one, PrimExpr) and not isinstance(other, PrimExpr):
            return False if other < 0 and _is_extent(one) else None
    return True if a is b else None


def _compare(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(a: Any, b: Any) -> Any:
        return None if isinstance(a, PrimExpr) or isinstance(b, PrimExpr) else apply(a, b)

    return compare


def _where(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if not _fits(arrays):
        return None
    c, a, b = cast("list[NPArray]", np.broadcast_arrays(*arrays))
    if c.dtype.hasobject and any(isinstance(v, PrimExpr) for v in c.flat):
        return None
    return cast("NPArray", np.where(c.astype(bool), a, b))


# -- places --------------------------------------------------------------------------------------
def _gather(node: Node, arrays: list[NPArray]) -> NPArray | None:
    data, places = arrays
    if _is_symbolic(places) or not data.ndim:
        return None
    axis = node.axis("axis", 0, data.ndim)
    return np.take(data, places.astype("int64"), axis=axis)


def _is_symbolic(array: NPArray) -> bool:
    return array.dtype.hasobject and any(isinstance(v, PrimExpr) for v in array.flat)


def _slice(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if len(arrays) < 3 or any(_is_symbolic(a) for a in arrays[1:]):
        return None
    data, starts, ends = arrays[:3]
    axes = arrays[3].tolist() if len(arrays) > 3 else list(range(len(starts)))
    steps = arrays[4].tolist() if len(arrays) > 4 else [1] * len(starts)
    picked: list[Any] = [slice(None)] * data.ndim
    for a, s, e, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        if step == 0:
            return None
        extent = data.shape[a]
        end = None if step < 0 and e < -extent else e
        picked[a] = slice(s, end, step)
    return data[tuple(picked)]


def _concat(node: Node, arrays: list[NPArray]) -> NPArray | None:
    return np.concatenate(arrays, axis=int(node.get("axis", 0)))


def _axes(node: Node, arrays: list[NPArray]) -> list[int] | None:
    if len(arrays) > 1:
        return [int(v) for v in arrays[1].reshape(-1)]
    given = node.get("axes")
    return None if given is None else list(given)


def _unsqueeze(node: Node, arrays: list[NPArray]) -> NPArray | None:
    return np.expand_dims(arrays[0], tuple(_axes(node, arrays) or ()))


def _squeeze(node: Node, arrays: list[NPArray]) -> NPArray | None:
    axes = _axes(node, arrays)
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


def _reshape(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if len(arrays) < 2 or _is_symbolic(arrays[1]):
        return None
    wanted = [int(v) for v in arrays[1].reshape(-1)]
    if not node.get("allowzero", 0):
        wanted = [arrays[0].shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return arrays[0].reshape(wanted)


def _transpose(node: Node, arrays: list[NPArray]) -> NPArray | None:
    order = node.get("perm")
    return np.transpose(arrays[0], None if order is None else [int(a) for a in order])


def _expand(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if _is_symbolic(arrays[1]):
        return None
    dims = tuple([int(v) for v in arrays[1].reshape(-1)])
    if any(d < 0 for d in dims) or int(np.prod(dims, dtype=object)) > MOST_KNOWN:
        return None
    return np.broadcast_to(arrays[0], np.broadcast_shapes(arrays[0].shape, dims))


def _tile(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if len(arrays) != 2 or _is_symbolic(arrays[1]):
        return None
    repeats = [int(v) for v in arrays[1].reshape(-1)]
    total = int(np.prod(repeats, dtype=object)) * arrays[0].size
    if len(repeats) != arrays[0].ndim or min(repeats, default=0) < 0 or total > MOST_KNOWN:
        return None
    return np.tile(arrays[0], repeats)


def _scatter(node: Node, arrays: list[NPArray]) -> NPArray | None:
    """Put elements into a shape, as ScatterND along its one axis does."""
    data, places, updates = arrays
    simple = data.ndim == 1 and places.ndim == 2 and places.shape[1] == 1 and updates.ndim == 1
    if not simple or _is_symbolic(places) or node.get("reduction", "none") != "none":
        return None
    made = data.copy()
    made[places.reshape(-1).astype("int64")] = updates
    return made


def _constant_of_shape(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if _is_symbolic(arrays[0]):
        return None
    dims = [int(v) for v in arrays[0].reshape(-1)]
    if any(d < 0 for d in dims) or int(np.prod(dims, dtype=object)) > MOST_KNOWN:
        return None
    given = node.get("value")
    if given is None:
        return np.zeros(dims, "float32")
    return np.full(dims, given[1].reshape(-1)[0])


def _range(node: Node, arrays: list[NPArray]) -> NPArray | None:
    if any(_is_symbolic(a) or a.dtype.kind == "f" for a in arrays):
        return None
    start, limit, delta = [int(a.reshape(-1)[0]) for a in arrays]
    if delta == 0 or abs((limit - start) // delta) > MOST_KNOWN:
        return None
    return np.arange(start, limit, delta)


def _target(node: Node) -> str:
    return ELEMENTS.get(node.get("to", 0), "")


def _cast(node: Node, arrays: list[NPArray]) -> NPArray | None:
    target = _target(node)
    if STORED_AS.get(target) != target:
        return None
    given = arrays[0]
    if given.dtype.hasobject and _is_symbolic(given):
        return given if target in ("int64", "int32") else None
    whole = not target.startswith(("float", "bfloat"))
    if given.dtype.kind == "f" and whole and not np.all(np.abs(given) < 2**31):
        return None  # what does not fit is the program's matter
    return given.astype(numpy_of(DataType(target)))


def _identity(node: Node, arrays: list[NPArray]) -> NPArray | None:
    return arrays[0]


def _elementwise(apply: Callable[[NPArray], NPArray]) -> _Fold:
    def convert(node: Node, arrays: list[NPArray]) -> NPArray | None:
        return None if arrays[0].dtype.hasobject else apply(arrays[0])

    return convert


def _not(node: Node, arrays: list[NPArray]) -> NPArray | None:
    return None if _is_symbolic(arrays[0]) else np.logical_not(arrays[0].astype(bool))


def _reduce(start: Any, apply: Callable[[Any, Any], Any]) -> _Fold:
    """Combine all elements of a list; ``start`` is what an empty one makes, None for nothing."""

    def convert(node: Node, arrays: list[NPArray]) -> NPArray | None:
        if arrays[0].dtype.kind == "f" or arrays[0].ndim != 1 or len(arrays) > 2:
            return None
        if node.get("noop_with_empty_axes", 0) and not _axes(node, arrays):
            return None
        total: Any = start
        for value in arrays[0]:
            total = value if total is None else apply(total, value)
            if total is None:
                return None
        if total is None:
            return None
        made = objects([total], (1,))
        return made if node.get("keepdims", 1) else made.reshape(())

    return convert


_TRUTHS: Final = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not"}
_FOLDS: Final[Mapping[str, _Fold]] = {
    "Shape": _identity,
    "Size": _identity,
    "Identity": _identity,
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Mul": _binary(lambda a, b: a * b),
    "Div": _binary(_divide),
    "Mod": lambda node, arrays: None if node.get("fmod", 0) else _binary(_modulo)(node, arrays),
    "Equal": _binary(_equal),
    "Less": _binary(_compare(lambda a, b: a < b)),
    "LessOrEqual": _binary(_compare(lambda a, b: a <= b)),
    "Greater": _binary(_compare(lambda a, b: a > b)),
    "GreaterOrEqual": _binary(_compare(lambda a, b: a >= b)),
    "And": _binary(_compare(np.logical_and)),
    "Or": _binary(_compare(np.logical_or)),
    "Not": _not,
    "Where": _where,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Cast": _cast,
    "Floor": _elementwise(np.floor),
    "Ceil": _elementwise(np.ceil),
    "Sqrt": _elementwise(np.sqrt),
    "Neg": _elementwise(np.negative),
    "Relu": _elementwise(lambda a: np.maximum(a, 0)),
    "Max": _binary(_compare(np.maximum)),
    "Min": _binary(_compare(np.minimum)),
    "ReduceProd": _reduce(1, lambda a, b: a * b),
    "ReduceSum": _reduce(0, lambda a, b: a + b),
    "ReduceMax": _reduce(None, _compare(max)),
    "ReduceMin": _reduce(None, _compare(min)),
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "ScatterND": _scatter,
    "Abs": _elementwise(np.abs),
}
