"""NumPy's operators on expressions build programs; its functions are refused.

Without this, NumPy would put an expression into an array of objects, or fail without a position.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, Final

from loomir.tir.rules import refuse

__all__ = ["as_number", "build_by_ufunc", "is_numpy_value"]

# The names of Python's operators in NumPy, and in the module ``operator``.
_OPERATORS: Final = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "true_divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "matmul": "matmul",
    "negative": "neg",
    "invert": "invert",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "left_shift": "lshift",
    "right_shift": "rshift",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
_RENAMED: Final = {
    "absolute": "abs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "maximum": "max",
    "minimum": "min",
    "rint": "round",
}


def is_numpy_value(value: Any) -> bool:
    """Whether a value is an array or a number of NumPy; does not load NumPy."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray))


def as_number(value: Any) -> Any:
    """Return a number of NumPy as one of Python; other values unchanged."""
    if not is_numpy_value(value) or value.ndim:
        return value
    item = value.item()
    return item if isinstance(item, (bool, int, float)) else value


def build_by_ufunc(
    ufunc: Any,
    method: str,
    operands: tuple[Any, ...],
    write: Callable[[str], str | None],
    take_array: Callable[[Any], object] | None = None,
) -> object:
    """Build what a function of NumPy means for operands of which one is an expression.

    ``take_array`` makes a value of the program of an array; without it operators apply to each
    element. ``write`` returns what a program writes for a function of NumPy, or None. Errors:
    TIR0115.
    """
    name: str = ufunc.__name__
    arrays: Any = sys.modules["numpy"].ndarray
    if name in _OPERATORS and method == "__call__":
        build: Callable[..., object] = getattr(operator, _OPERATORS[name])
        given = [as_number(operand) for operand in operands]
        if take_array is not None:
            given = [take_array(v) if isinstance(v, arrays) else v for v in given]
        if not any(isinstance(operand, arrays) for operand in given):
            return build(*given)
        # NumPy does not inspect the elements of arrays of objects.
        return sys.modules["numpy"].frompyfunc(build, len(given), 1)(*map(_as_objects, given))
    written = write(_RENAMED.get(name, name))
    refuse(
        "TIR0115",
        f"numpy.{name} computes with arrays, and an expression has no value before it runs",
        help=f"write {written}"
        if written and method == "__call__"
        else "call it on arrays, before or after the program runs",
    )
    return None


def _as_objects(value: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        return value.astype(object)
    boxed = numpy.empty((), dtype=object)
    boxed[()] = value
    return boxed
