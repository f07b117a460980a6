"""Choose how numbers are stored and computed: rounded to their dtypes, or exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loomir.interp.arithmetic import binary_function, conversion
from loomir.interp.builtins import builtin_function
from loomir.interp.values import Value, rounder
from loomir.support.dtype import DataType

__all__ = ["ROUNDED", "Numbers"]


class Numbers(NamedTuple):
    """The arithmetic of scalars, for each kind of expression; vectors use it lane by lane."""

    constant: Callable[[float, DataType], Value]
    """Makes a constant of a float dtype."""
    binary: Callable[[type, DataType], Callable[[Any, Any], Any]]
    conversion: Callable[[DataType, DataType], Callable[[Any], Any]]
    builtin: Callable[[str, DataType], Callable[..., Any]]
    exact: bool = False
    """Whether floats are exact numbers, which memory keeps in addition to their bytes."""


def _constant(value: float, dtype: DataType) -> Value:
    return rounder(dtype)(value)


ROUNDED: Final = Numbers(_constant, binary_function, conversion, builtin_function)
"""The arithmetic of the language."""
