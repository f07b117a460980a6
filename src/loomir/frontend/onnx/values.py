"""Values of a model during import: tensors, sequences and optionals.

A tensor is a Relax expression, or an array whose elements are known: numbers, or expressions of
extents for shape arithmetic. The length of a sequence and the presence of an optional are known at
import; neither exists at run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr

__all__ = [
    "MOST_KNOWN",
    "AbsentOptional",
    "MissingValue",
    "SequenceValue",
    "TensorValue",
    "Value",
    "is_array",
    "objects",
]

NPArray: TypeAlias = Any
"""A NumPy array of numbers or of expressions, which NumPy's annotations cannot express."""

MOST_KNOWN: Final = 4096
"""The most elements of an array in shape arithmetic."""


class TensorValue:
    """A tensor: an expression, its elements if they are known, or both."""

    __slots__ = ("_known", "element", "expr")

    def __init__(
        self, expr: RelaxExpr | None, element: str = "", known: NPArray | None = None
    ) -> None:
        self.expr = expr
        self.element = element
        """The ONNX element type; several share one Relax dtype."""
        self._known = known

    @property
    def constant(self) -> NPArray | None:
        """The elements as an array of numbers; None if they are not known, or are symbolic."""
        if isinstance(self.expr, Constant):
            return self.expr.data.read_once()
        return None if self._known is None or self._known.dtype.hasobject else self._known

    @property
    def known(self) -> NPArray | None:
        """The elements, numbers or expressions of extents; None if unknown, or too many."""
        if self._known is not None:
            return self._known
        # Checked first, since a weight may not be read from its file yet.
        if isinstance(self.expr, Constant) and math.prod(self.expr.data.shape) > MOST_KNOWN:
            return None
        return self.constant

    def with_expr(self, expr: RelaxExpr) -> TensorValue:
        """Return the same tensor, with an expression for it."""
        return TensorValue(expr, self.element, self._known)


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A sequence of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class AbsentOptional:
    """An optional without a value."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """An output of a node that cannot be imported; the error names that node."""


Value: TypeAlias = TensorValue | SequenceValue | AbsentOptional | MissingValue


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> NPArray:
    """Return an array of objects, without NumPy's conversions."""
    made: Any = cast("Any", np.empty(len(items), object))
    made[:] = items
    return made.reshape(shape)


def is_array(value: object) -> bool:
    """Tell whether a value is an array of NumPy."""
    return isinstance(value, np.ndarray)
