"""Constants of numbers, lists and arrays, for graphs that Python builds."""

from __future__ import annotations

import importlib
from typing import Any, Final

from loomir.relax.expr import Constant
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.caller_span import located
from loomir.support.dtype import DataType
from loomir.tir.numpy_operands import as_number, is_numpy_value
from loomir.tir.rules import refuse

__all__ = ["const", "constant_beside"]

_DEFAULTS: Final = {"int64": "int32", "float64": "float32"}


def const(value: Any, dtype: DataType | str | None = None) -> Constant:
    """Make a constant tensor of a number, lists of numbers, or an array.

    Python's integers become int32 and its floats float32, unless ``dtype`` says otherwise; an array
    keeps its own dtype. Errors: RLX0005 for what holds no numbers, or numbers that the dtype lacks.
    """
    with located():
        return _constant(value, dtype)


def _constant(value: Any, dtype: DataType | str | None) -> Constant:
    given: Any = value
    wanted = DataType(dtype) if isinstance(dtype, str) else dtype
    if isinstance(value, Constant):
        given = value.data
    if isinstance(given, Array):
        given = given.data
    is_array = is_numpy_value(given)
    numpy: Any = importlib.import_module("numpy")  # loaded with the first array: it takes its time
    try:
        found = numpy.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        refuse("RLX0005", f"these are no numbers: {error}", help="give lists of equal length")
    if not is_array:
        if found.dtype.kind not in "biuf":
            refuse(
                "RLX0005",
                f"a constant holds numbers, not {type(given).__name__}",
                help="give a number, lists of numbers, or an array",
            )
        kind = str(found.dtype)
        wanted = wanted or DataType(_DEFAULTS.get(kind, kind))
    if wanted is None:
        return Constant(Array(given))
    try:
        return Constant(Array(given, wanted))
    except (ValueError, TypeError, OverflowError) as error:
        return refuse(
            "RLX0005",
            f"{wanted} cannot hold this: {error}",
            help="use a dtype that holds the numbers",
        )


def constant_beside(value: Any, tensor: object) -> Constant:
    """Make a constant of a number that stands beside a tensor, of its dtype where that is known.

    Errors: RLX0005 for a number that the dtype lacks.
    """
    dtype = tensor.dtype if isinstance(tensor, TensorStructInfo) else None
    number = as_number(value)
    if dtype is None or dtype.is_void or is_numpy_value(number):
        return _constant(value, None)
    fits = dtype.is_float or isinstance(number, bool)
    if not fits and isinstance(number, int) and not dtype.is_bool:
        fits = dtype.min_value <= number <= dtype.max_value
    if not fits:
        refuse(
            "RLX0005",
            f"{value!r} beside a tensor of {dtype} is no {dtype}",
            help=f"write relax.const({value!r}, dtype), and R.astype for the tensor",
        )
    return _constant(value, dtype)
