"""The NumPy functions that a Relax program may call on plain values, to make constants.

They are listed in a table, and the parser calls them on numbers that are known at parse time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.mistakes import mistake
from loomir.script.parser.evaluate.captured_names import ForeignValue, static
from loomir.script.parser.evaluate.namespaces import Namespace
from loomir.script.parser.evaluate.operators import holds_expr, kind
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of

__all__ = ["NUMPY", "NumpyFunction", "NumpyType", "array_attribute", "is_array", "is_numpy"]

MAX_ELEMENTS: Final = 1 << 24
"""Elements of a constant that a program makes while it is read."""


@dataclass(frozen=True, eq=False)
class NumpyFunction:
    """A function of NumPy's on plain values, or a method of an array that the program made."""

    name: str
    function: Callable[..., Any]
    count: Callable[..., int]
    """Tells how many elements a call makes, of the same arguments."""

    def call(self, *args: object, **keywords: object) -> object:
        """Call it.

        Errors: SCR0005 where an argument is no plain value, or the call fails; SCR0020.
        """
        given: Any = [_plain(self.name, value) for value in args]
        named: Any = {name: _plain(self.name, value) for name, value in keywords.items()}
        try:
            if self.count(*given, **named) > MAX_ELEMENTS:
                raise mistake("SCR0020", "the constant is too large", help="pass it as an argument")
            made: object = self.function(*given, **named)
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            message = f"{self.name} fails: {error}"
            raise mistake("SCR0005", message, help="correct the arguments") from error
        return static(made)


@dataclass(frozen=True, eq=False)
class NumpyType:
    """A scalar type of NumPy's: a dtype, and a function that makes a number of it."""

    dtype: DataType

    def call(self, value: object = 0) -> object:
        """Make a number."""
        name = f"np.{self.dtype}"
        return NumpyFunction(name, self._number, _count_one).call(value)

    def _number(self, value: Any) -> object:
        return np.array(value, numpy_of(self.dtype))


def is_array(value: object) -> bool:
    """Whether a value is an array of numbers, and of no class derived from NumPy's."""
    array = value.value if isinstance(value, ForeignValue) else value
    return type(array) is np.ndarray and array.dtype.kind in "biuf"


def is_numpy(value: object) -> bool:
    """Whether a captured value is the module NumPy."""
    return isinstance(value, ForeignValue) and value.value is np


def _plain(name: str, value: object) -> object:
    if isinstance(value, NumpyType):
        return numpy_of(value.dtype)
    if isinstance(value, (DTypeFunction, DataType)):
        dtype = value.dtype if isinstance(value, DTypeFunction) else value
        return numpy_of(dtype)
    if isinstance(value, str):
        try:
            return numpy_of(DataType(value))
        except CompileError as error:
            message = f"{name} takes no string {value!r}"
            raise mistake("SCR0005", message, help="give numbers and dtypes") from error
    if is_array(value):
        return cast("ForeignValue", value).value
    if value is None:
        return value
    if type(value) in (bool, int, float, tuple, list, range) and not holds_expr(value):
        return value
    raise mistake(
        "SCR0005",
        f"{name} takes plain values, not {kind(value)}",
        help="use numbers, and tuples and lists of them",
    )


# -- how many elements a call makes ----------------------------------------------------------------
def _count_one(*args: object, **keywords: object) -> int:
    return 1


def _count_in_shape(shape: Any, *args: object, **keywords: object) -> int:
    count = 1
    extents: tuple[Any, ...] = tuple(shape) if type(shape) in (tuple, list) else (shape,)
    for extent in extents:
        count *= max(int(extent), 0)
    return count


def _count_values(values: object, *args: object, **keywords: object) -> int:
    return 1 if isinstance(values, (bool, int, float)) else len(cast("list[object]", values))


def _count_range(start: Any, stop: Any = None, step: Any = 1, **keywords: object) -> int:
    low, high = (0, start) if stop is None else (start, stop)
    return int((high - low) / (step or 1)) + 1


def _count_square(n: Any, m: Any = None, *args: object, **keywords: object) -> int:
    return int(n) * int(n if m is None else m)


def _count_steps(
    start: object, stop: object, num: Any = 50, *args: object, **keywords: object
) -> int:
    return int(num)


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], Callable[..., int]]]] = {
    "zeros": (np.zeros, _count_in_shape),
    "ones": (np.ones, _count_in_shape),
    "full": (np.full, _count_in_shape),
    "arange": (np.arange, _count_range),
    "linspace": (np.linspace, _count_steps),
    "eye": (np.eye, _count_square),
    "identity": (np.identity, _count_square),
    "array": (np.array, _count_values),
    "asarray": (np.array, _count_values),
    "dtype": (np.dtype, _count_one),
}
_TYPES: Final = (
    *("float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)

NUMPY: Final = Namespace(
    "np",
    {
        **{name: NumpyFunction(f"np.{name}", *row) for name, row in _FUNCTIONS.items()},
        **{name: NumpyType(DataType(name)) for name in _TYPES},
        "bool_": NumpyType(DataType("bool")),
        "pi": float(np.pi),
        "e": float(np.e),
        "inf": float(np.inf),
        "nan": float(np.nan),
    },
)
"""What ``np`` stands for in a function of Relax where nothing else is called so."""


# -- arrays ----------------------------------------------------------------------------------------
def _astype(array: Any) -> object:
    return NumpyFunction("astype", array.astype, _count_one)


def _reshape(array: Any) -> object:
    def reshape(*shape: Any) -> Any:
        return array.reshape(*shape)

    return NumpyFunction("reshape", reshape, _count_one)


_ARRAY: Final[Mapping[str, Callable[[Any], object]]] = {
    "astype": _astype,
    "reshape": _reshape,
    "T": lambda array: array.T,
    "shape": lambda array: tuple(array.shape),
    "dtype": lambda array: dtype_of_numpy(array.dtype),
}


def array_attribute(value: object, name: str) -> object:
    """Return an attribute of an array.

    Errors: SCR0006.
    """
    if name in _ARRAY:
        found = _ARRAY[name](cast("ForeignValue", value).value)
        return found if isinstance(found, NumpyFunction) else static(found)
    raise mistake(
        "SCR0006", f"an array has no attribute {name!r} here", help=f"it has {', '.join(_ARRAY)}"
    )
