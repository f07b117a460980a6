"""Formulas of array elements, written as programs and computed by NumPy.

``value`` computes a formula at all points of a grid at once, in the dtypes of the program: integers
wrap, floats are rounded where they are converted. ``write`` turns it into an expression, as text or
for tensor expressions, by a ``Writer``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, mul, sub
from typing import Any

import ml_dtypes
import numpy as np

from loomir import te
from loomir.script import tir as T

__all__ = [
    "Axis",
    "Cast",
    "Const",
    "Grid",
    "GuardedLoad",
    "Index",
    "Load",
    "Op",
    "TeWriter",
    "Term",
    "TextWriter",
    "Writer",
    "are_exact",
    "dtype_of",
    "exact_up_to",
    "float_like",
]

Array = Any

_EXACT = {"bfloat16": 2.0**8, "float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    ">>": np.right_shift,
}


def dtype_of(name: str) -> Any:
    """Return NumPy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def float_like(name: str) -> bool:
    """Whether a dtype is one of floats."""
    return name in _EXACT


def exact_up_to(name: str) -> float:
    """Return the number up to which a float holds every whole number."""
    return _EXACT[name]


def are_exact(dtype: str, values: Array, most: Any = 0.0) -> bool:
    """Whether a float holds values, and sums of them up to ``most``, however they are grouped.

    Values are multiples of a power of 2, the least of which is 1 over 2 to the power of 40.
    """
    unit = 1.0
    while unit > 2.0**-40 and bool((np.fmod(values, unit) != 0).any()):
        unit /= 2
    largest = max(float(abs(values).max(initial=0.0)), float(np.max(most, initial=0.0)))
    return largest <= exact_up_to(dtype) * unit


@dataclass(eq=False)
class Axis:
    """An axis of a contraction; the size is a name in the program where it is ``symbolic``."""

    name: str
    size: int
    reduced: bool = False
    symbolic: bool = False
    size_name: str = ""
    same: Axis | None = None
    """Another axis, of the same size."""

    @property
    def extent(self) -> str:
        """Write the size."""
        return self.size_name if self.symbolic else str(self.size)


class Grid:
    """The values of axes at all places; and the arrays that formulas read."""

    def __init__(self, axes: Sequence[Axis], arrays: Mapping[str, Array]) -> None:
        self.shape = tuple(axis.size for axis in axes)
        self.arrays = arrays
        self.exact = True
        """Whether their dtype holds all floats that were computed so far, and what is between."""
        self._at = {
            axis: np.arange(axis.size).reshape([-1 if n == i else 1 for n in range(len(axes))])
            for i, axis in enumerate(axes)
        }

    def of(self, axis: Axis) -> Array:
        """Return the values of an axis."""
        return self._at[axis]

    def seen(self, value: Array, dtype: str) -> Array:
        """Note whether a value is exact."""
        if float_like(dtype) and value.size:
            self.exact &= are_exact(dtype, value.astype("float64"))
        return value


class Writer(ABC):
    """Writes formulas."""

    @abstractmethod
    def axis(self, axis: Axis) -> Any:
        """Write the value of an axis."""

    @abstractmethod
    def size(self, axis: Axis) -> Any:
        """Write the size of an axis."""

    @abstractmethod
    def load(self, name: str, indices: Sequence[Any]) -> Any:
        """Write an element."""

    @abstractmethod
    def cast(self, dtype: str, value: Any) -> Any:
        """Write a conversion."""

    @abstractmethod
    def op(self, name: str, a: Any, b: Any) -> Any:
        """Write an operator."""

    @abstractmethod
    def const(self, value: Any, dtype: str) -> Any:
        """Write a number."""

    @abstractmethod
    def inside(self, bounds: Sequence[tuple[Any, Any]], value: Any, dtype: str) -> Any:
        """Write a value that is 0 where an index is not from 0 up to its bound."""


class TextWriter(Writer):
    """Writes text; ``names`` are those of axes."""

    def __init__(self, names: Callable[[Axis], str]) -> None:
        self.names = names

    def axis(self, axis: Axis) -> str:
        """Write the value of an axis."""
        return self.names(axis)

    def size(self, axis: Axis) -> str:
        """Write the size of an axis."""
        return axis.extent

    def load(self, name: str, indices: Sequence[Any]) -> str:
        """Write an element."""
        return f"{name}[{', '.join(indices) or '()'}]"

    def cast(self, dtype: str, value: Any) -> str:
        """Write a conversion."""
        return f'T.Cast("{dtype}", {value})'

    def op(self, name: str, a: Any, b: Any) -> str:
        """Write an operator."""
        if name == ">>":
            return f"T.shift_right({a}, {b})"
        return f"T.{name}({a}, {b})" if name.isalpha() else f"({a} {name} {b})"

    def const(self, value: Any, dtype: str) -> str:
        """Write a number."""
        return f"T.{dtype}({value})"

    def inside(self, bounds: Sequence[tuple[Any, Any]], value: Any, dtype: str) -> str:
        """Write a value that is 0 where an index is not from 0 up to its bound."""
        asked = " and ".join(f"0 <= {index} and {index} < {bound}" for index, bound in bounds)
        return f"T.if_then_else({asked}, {value}, {self.const(0, dtype)})"


class TeWriter(Writer):
    """Writes tensor expressions, given variables of axes, sizes and tensors."""

    def __init__(
        self, axes: Mapping[Axis, Any], sizes: Mapping[str, Any], tensors: Mapping[str, Any]
    ) -> None:
        self.axes, self.sizes, self.tensors = axes, sizes, tensors

    def axis(self, axis: Axis) -> Any:
        """Write the value of an axis."""
        return self.axes[axis]

    def size(self, axis: Axis) -> Any:
        """Write the size of an axis."""
        return self.sizes[axis.size_name] if axis.symbolic else axis.size

    def load(self, name: str, indices: Sequence[Any]) -> Any:
        """Write an element."""
        return self.tensors[name](*indices)

    def cast(self, dtype: str, value: Any) -> Any:
        """Write a conversion."""
        return value.astype(dtype)

    def op(self, name: str, a: Any, b: Any) -> Any:
        """Write an operator."""
        if name == "max":
            return te.select(a > b, a, b)
        if name == "min":
            return te.select(a < b, a, b)
        if name == ">>":
            return T.shift_right(a, b)
        return {"+": add, "-": sub, "*": mul}[name](a, b)

    def const(self, value: Any, dtype: str) -> Any:
        """Write a number."""
        return te.const(value, dtype)

    def inside(self, bounds: Sequence[tuple[Any, Any]], value: Any, dtype: str) -> Any:
        """Write a value that is 0 where an index is not from 0 up to its bound."""
        asked = [part for index, bound in bounds for part in (index >= 0, index < bound)]
        return te.if_then_else(te.all_of(*asked), value, te.const(0, dtype))


@dataclass(eq=False)
class Index:
    """``sum of factor * axis + shift``, divided by ``by``; or counted from the end of an axis.

    A factor is a number, or the axis by whose size it is multiplied.
    """

    terms: tuple[tuple[Axis, int | Axis], ...]
    shift: int = 0
    by: int = 1
    back: bool = False

    @property
    def plain(self) -> Axis | None:
        """Return the axis that this is, and nothing else."""
        if len(self.terms) != 1 or self.shift or self.by != 1 or self.back:
            return None
        axis, factor = self.terms[0]
        return axis if factor == 1 else None

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        made: Array = np.array(self.shift)
        for axis, factor in self.terms:
            scale = factor.size if isinstance(factor, Axis) else factor
            at = axis.size - 1 - grid.of(axis) if self.back else grid.of(axis)
            made = made + at * scale
        return made // self.by

    def most(self) -> int:
        """Return the greatest value."""
        made = self.shift
        for axis, factor in self.terms:
            made += max(0, axis.size - 1) * (factor.size if isinstance(factor, Axis) else factor)
        return made // self.by

    def write(self, w: Writer) -> Any:
        """Write it."""
        made: Any = None
        for axis, factor in self.terms:
            part = w.axis(axis)
            if self.back:
                part = w.op("-", w.op("-", w.size(axis), 1), part)
            if isinstance(factor, Axis):
                part = w.op("*", part, w.size(factor))
            elif factor != 1:
                part = w.op("*", part, factor)
            made = part if made is None else w.op("+", made, part)
        if made is None:
            return str(self.shift) if isinstance(w, TextWriter) else self.shift
        if self.shift:
            made = w.op("+" if self.shift > 0 else "-", made, abs(self.shift))
        if self.by != 1:
            made = f"{made} // {self.by}" if isinstance(w, TextWriter) else made // self.by
        return made


class Term(ABC):
    """A formula."""

    dtype: str

    @abstractmethod
    def value(self, grid: Grid) -> Array:
        """Compute it."""

    @abstractmethod
    def write(self, w: Writer) -> Any:
        """Write it."""


@dataclass(eq=False)
class Load(Term):
    """An element of an array."""

    name: str
    dtype: str
    indices: tuple[Index, ...]

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        made = grid.arrays[self.name][tuple(index.value(grid) for index in self.indices)]
        return grid.seen(np.asarray(made), self.dtype)

    def write(self, w: Writer) -> Any:
        """Write it."""
        return w.load(self.name, [index.write(w) for index in self.indices])


@dataclass(eq=False)
class GuardedLoad(Term):
    """An element, or 0 where some indices are outside of the array."""

    load: Load
    guarded: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Return the dtype of the element."""
        return self.load.dtype

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        inside: Array = np.array(True)
        near: list[Array] = []
        for at, index in enumerate(self.load.indices):
            value = index.value(grid)
            if at in self.guarded:
                inside = inside & (value >= 0) & (value < self.shape[at])
                value = np.clip(value, 0, max(0, self.shape[at] - 1))
            near.append(value)
        array = grid.arrays[self.load.name]
        read = array[tuple(near)] if array.size else np.zeros((), array.dtype)
        return grid.seen(np.where(inside, read, np.zeros((), array.dtype)), self.dtype)

    def write(self, w: Writer) -> Any:
        """Write it."""
        bounds = [(self.load.indices[at].write(w), self.shape[at]) for at in self.guarded]
        return w.inside(bounds, self.load.write(w), self.dtype)


@dataclass(eq=False)
class Cast(Term):
    """A conversion; ``rounds`` where floats may be rounded by it."""

    dtype: str
    of: Term
    rounds: bool = False

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        with np.errstate(all="ignore"):
            made = self.of.value(grid).astype(dtype_of(self.dtype))
        return made if self.rounds else grid.seen(made, self.dtype)

    def write(self, w: Writer) -> Any:
        """Write it."""
        return w.cast(self.dtype, self.of.write(w))


@dataclass(eq=False)
class Op(Term):
    """Two formulas of one dtype, combined."""

    name: str
    a: Term
    b: Term

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Return the dtype of both."""
        return self.a.dtype

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        with np.errstate(all="ignore"):
            made = _OPS[self.name](self.a.value(grid), self.b.value(grid))
        return grid.seen(np.asarray(made).astype(dtype_of(self.dtype)), self.dtype)

    def write(self, w: Writer) -> Any:
        """Write it."""
        return w.op(self.name, self.a.write(w), self.b.write(w))


@dataclass(eq=False)
class Const(Term):
    """A number."""

    number: int | float
    dtype: str

    def value(self, grid: Grid) -> Array:
        """Compute it."""
        return np.array(self.number, dtype_of(self.dtype))

    def write(self, w: Writer) -> Any:
        """Write it."""
        return w.const(self.number, self.dtype)
