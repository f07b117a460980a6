"""Values of graphs at run time.

A tensor is a NumPy array in row-major order, a tuple a tuple, a shape a ``Shape``, a scalar a NumPy
scalar, a string a ``str``, a dtype a ``DataType``, null None. A function of the program is a
``Closure``, a ``PrimFunction`` or a ``PartialApplication``; any other callable is a packed
function. Anything else is an object that only packed functions understand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np

from loomir.interp.values import Scalar
from loomir.relax import faults
from loomir.relax.expr import Function, Var
from loomir.relax.node import StructInfo
from loomir.relax.operator import values
from loomir.relax.operator.values import literal, scalar_dtype
from loomir.relax.struct_info import (
    DEFAULT_DERIVE,
    OBJECT,
    FuncStructInfo,
)
from loomir.runtime.shape import Shape
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.support.span import Span
from loomir.support.uncompiled_call import is_callable
from loomir.tir.expr import Var as SizeVar
from loomir.tir.function import PrimFunc

__all__ = [
    "Array",
    "Closure",
    "Environment",
    "PartialApplication",
    "PrimFunction",
    "ProgramFunction",
    "Value",
    "allocate",
    "compact",
    "describe",
    "dtype_number",
    "is_function",
    "is_packed",
    "is_tensor",
    "is_tuple",
    "kind_number",
    "literal",
    "require_size",
    "scalar_dtype",
    "scalar_of",
]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Value: TypeAlias = Any


class Environment:
    """The values in scope while a function runs; ``origins`` tells where sizes were bound."""

    __slots__ = ("name", "origins", "sizes", "values")

    def __init__(
        self,
        name: str,
        values: Mapping[Var, Value] | None = None,
        sizes: Mapping[SizeVar, Scalar] | None = None,
    ) -> None:
        self.name = name
        self.values: dict[Var, Value] = dict(values or {})
        self.sizes: dict[SizeVar, Scalar] = dict(sizes or {})
        self.origins: dict[SizeVar, str] = {}


class Caller(Protocol):
    """Runs functions of the program when Python calls them."""

    def call_from_python(
        self, function: Any, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Value:
        """Call a function with Python values, and return a Python value."""
        ...


class ProgramFunction:
    """A function of the program as a value; Python can call it. ``info`` is its signature."""

    __slots__ = ("_caller", "info", "name")

    def __init__(self, name: str, info: FuncStructInfo, caller: Caller) -> None:
        self.name = name
        self.info = info
        self._caller = caller

    def __call__(self, /, *args: object, **kwargs: object) -> Value:
        """Call the function. Errors: those of ``loomir.interpret``."""
        return self._caller.call_from_python(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Closure(ProgramFunction):
    """A graph function with its captured values."""

    __slots__ = ("func", "sizes", "values")

    def __init__(
        self,
        name: str,
        info: FuncStructInfo,
        caller: Caller,
        func: Function,
        values: dict[Var, Value],
        sizes: dict[SizeVar, Scalar],
    ) -> None:
        super().__init__(name, info, caller)
        self.func = func
        self.values = values
        self.sizes = sizes


class PrimFunction(ProgramFunction):
    """A loop-level function of the module."""

    __slots__ = ("func",)

    def __init__(self, name: str, info: FuncStructInfo, caller: Caller, func: PrimFunc) -> None:
        super().__init__(name, info, caller)
        self.func = func


class PartialApplication(ProgramFunction):
    """A function with its last arguments bound."""

    __slots__ = ("bound", "func")

    def __init__(
        self,
        name: str,
        info: FuncStructInfo,
        caller: Caller,
        func: ProgramFunction,
        bound: tuple[Value, ...],
    ) -> None:
        super().__init__(name, info, caller)
        self.func = func
        self.bound = bound


# -- kinds ---------------------------------------------------------------------------------------
def is_tensor(value: object) -> TypeGuard[Array]:
    """Tell whether a value is a tensor: an array with a dtype of the language."""
    return isinstance(value, np.ndarray) and dtype_of_numpy(_dtype(value)) is not None


def is_tuple(value: object) -> TypeGuard[tuple[Value, ...]]:
    """Tell whether a value is a tuple of values, and not a shape."""
    return isinstance(value, tuple) and not isinstance(value, Shape)


def is_function(value: object) -> bool:
    """Tell whether a value is a function of the program."""
    return isinstance(value, ProgramFunction)


def is_packed(value: object) -> bool:
    """Tell whether a value is a packed function."""
    return is_callable(value) and not isinstance(value, (ProgramFunction, np.ndarray, np.generic))


def kind_number(value: object) -> int:
    """Return a value's kind as its index in ``KINDS``."""
    return faults.KINDS.index(_kind(value))


def _kind(value: object) -> str:
    if is_tensor(value):
        return "a tensor"
    if isinstance(value, Shape):
        return "a shape"
    if isinstance(value, tuple):
        return "a tuple"
    if scalar_dtype(value) is not None:
        return "a scalar"
    if is_function(value):
        return "a function"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, DataType):
        return "a dtype"
    if value is None:
        return "null"
    return "a packed function" if is_packed(value) else "an object"


def _dtype(value: Any) -> Any:
    return value.dtype


def dtype_number(dtype: DataType) -> int:
    """Return a dtype as its index in ``DTYPES``."""
    return faults.DTYPES.index(str(dtype))


def scalar_of(number: Scalar, dtype: DataType) -> Value:
    """Make a scalar of a number that the dtype can represent."""
    return numpy_of(dtype).type(number)


# -- tensors -------------------------------------------------------------------------------------
_POISON: Final = 0xCD


def allocate(shape: Sequence[int], dtype: DataType, what: str, span: Span | None) -> Array:
    """Allocate a tensor, filled with a pattern that reveals reading it.

    Errors: RUN0207, RUN0409, RUN0411.
    """
    require_size(shape, dtype, what, span)
    count = math.prod(shape)
    made: Any
    try:
        made = np.empty(tuple(shape), numpy_of(dtype))
    except MemoryError:
        raise faults.no_memory(span, what).error((count * dtype.itemsize,)) from None
    if dtype.is_float:
        made.fill(math.nan)
    elif dtype.is_bool:
        made.fill(True)
    else:
        made.reshape(-1).view(np.uint8).fill(_POISON)
    return made


def require_size(shape: Sequence[int], dtype: DataType, what: str, span: Span | None) -> None:
    """Refuse a shape that no tensor can have. Errors: RUN0409, RUN0411."""
    for axis, extent in enumerate(shape):
        if extent < 0:
            raise faults.negative_extent(span, what, f"of axis {axis}").error((extent,))
    if math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise faults.size_too_large(span, what, dtype).error()


def compact(array: Array) -> Array:
    """Return an array in row-major order: itself, or a copy."""
    made: Any = np.ascontiguousarray(array)
    return made.reshape(array.shape)  # for rank 0, NumPy returns rank 1


# -- structural information ----------------------------------------------------------------------
def describe(value: Value) -> StructInfo:
    """Return the complete structural information of a value."""
    return values.describe(value, _describe_function)


def _describe_function(value: Any) -> StructInfo:
    if isinstance(value, ProgramFunction):
        return value.info
    return FuncStructInfo(None, OBJECT, False, DEFAULT_DERIVE) if is_packed(value) else OBJECT
