"""Trace how values of a graph are computed, as far as quantisation passes need it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from loomir.ir.op import Op
from loomir.relax.expr import Call, Constant, DataflowVar, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.definition import op_def
from loomir.relax.operator.reference import NPArray
from loomir.relax.shape import ShapeExpr
from loomir.runtime.shape import Shape
from loomir.support.array import Array
from loomir.support.dtype import DataType, numpy_of
from loomir.tir.expr import FloatImm, IntImm
from loomir.transform.relax.graph_reading import operator_of, tensor_info

__all__ = [
    "BYTES",
    "INT32",
    "GraphValues",
    "as_constant",
    "clip_bounds",
    "dtype_of",
    "is_uniform",
]

BYTES: Final = (DataType("int8"), DataType("uint8"))
INT32: Final = DataType("int32")
_FEW: Final = 1 << 16
"""The most elements of a constant that is computed for analysis."""
_WIDE: Final = 1 << 31
_DEPTH: Final = 8
"""The most operators between a constant and the scale or zero point computed from it."""


class GraphValues:
    """Reads the values of variables of dataflow blocks that nothing writes to."""

    def __init__(self, lookup: Callable[[RelaxExpr], RelaxExpr]) -> None:
        self._lookup = lookup
        self._known: dict[DataflowVar, NPArray | None] = {}

    def call(self, leaf: RelaxExpr, *names: str) -> Call | None:
        """Return the call that a variable is bound to, if it is of one of these operators."""
        if not isinstance(leaf, DataflowVar):
            return None
        value = self._lookup(leaf)
        return value if isinstance(value, Call) and operator_of(value) in names else None

    def constant(self, leaf: RelaxExpr) -> NPArray | None:
        """Return the contents of a constant, or of a few operators on small constants."""
        return self._constant(leaf, _DEPTH)

    def _constant(self, leaf: RelaxExpr, depth: int) -> NPArray | None:
        if isinstance(leaf, Constant):
            return leaf.data.read_once()
        # Ordinary variables may be written after they are bound; dataflow variables may not.
        if not isinstance(leaf, DataflowVar) or not depth:
            return None
        if leaf not in self._known:
            self._known[leaf] = self._compute(self._lookup(leaf), depth)
        return self._known[leaf]

    def _compute(self, value: RelaxExpr, depth: int) -> NPArray | None:
        if isinstance(value, Constant):
            return value.data.read_once()
        if not isinstance(value, Call) or not isinstance(value.op, Op) or not value.args:
            return None
        definition = op_def(value.op)
        if definition.reference is None or not definition.is_pure:
            return None
        given: list[Any] = []
        for arg in value.args:
            one = _number(arg)
            one = self._constant(arg, depth - 1) if one is None else one
            if one is None or (isinstance(one, np.ndarray) and one.size > _FEW):
                return None
            given.append(one)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                made = definition.reference(*given, **value.attrs)
        except Exception:  # noqa: BLE001 - it happens again when the program runs
            return None
        return np.asarray(made)

    def bounds(self, leaf: RelaxExpr) -> tuple[int, int]:
        """Return lower and upper bounds of the elements of an integer tensor."""
        for _ in range(_DEPTH):
            known: Any = self.constant(leaf)
            if known is not None and known.size and np.isfinite(known.astype("float64")).all():
                return int(known.min()), int(known.max())
            if dtype_of(leaf) in BYTES:
                break
            clip, moved = self.call(leaf, "clip"), self.call(leaf, "astype", "reshape")
            ends = None if clip is None else clip_bounds(clip)
            if ends is not None and max(map(abs, ends)) < _WIDE:
                return math.floor(ends[0]), math.ceil(ends[1])
            if moved is None:
                break
            leaf = moved.args[0]
        dtype = dtype_of(leaf)
        if dtype not in BYTES or dtype is None:
            return -_WIDE, _WIDE
        return int(dtype.min_value), int(dtype.max_value)


def clip_bounds(clip: Call) -> tuple[float, float] | None:
    """Return the bounds of a ``clip``."""
    ends = [a.value for a in clip.args[1:] if isinstance(a, PrimValue)]
    numbers = [float(e.value) for e in ends if isinstance(e, (FloatImm, IntImm))]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _number(arg: RelaxExpr) -> Any:
    """Return a literal number or shape; None for other arguments."""
    if isinstance(arg, PrimValue) and isinstance(arg.value, (IntImm, FloatImm)):
        return numpy_of(arg.value.dtype).type(arg.value.value)
    if isinstance(arg, ShapeExpr):
        numbers = [d.value for d in arg.values if isinstance(d, IntImm)]
        return Shape(numbers) if len(numbers) == len(arg.values) else None
    return None


def as_constant(values: NPArray) -> Constant:
    """Turn an array into a constant of a graph."""
    return Constant(Array(np.array(values, order="C")))


def is_uniform(values: Any) -> bool:
    """Tell whether all elements of an array are equal."""
    return bool(values.size) and bool((values == values.flat[0]).all())


def dtype_of(leaf: RelaxExpr) -> DataType | None:
    """Return the dtype of a tensor of known rank, else None."""
    info = tensor_info(leaf)
    return None if info is None else info.dtype
