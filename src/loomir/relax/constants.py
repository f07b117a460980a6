"""Constants from numbers, lists and arrays, and constants of graphs that Python builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.relax.expr import Constant
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.array import Array
from loomir.support.caller_span import located
from loomir.support.diagnostics import with_article
from loomir.support.dtype import DataType, to_dtype
from loomir.support.fork_safe import import_module
from loomir.tir.numpy_operands import as_number, is_numpy_value
from loomir.tir.rules import refuse

__all__ = ["InvalidConstant", "const", "constant_beside", "make_beside_tensor", "make_constant"]

_DEFAULTS: Final = {"int64": "int32", "float64": "float32"}


class InvalidConstant(Exception):
    """Says why a constant cannot be made, and what to do; callers report it with their own code."""

    def __init__(self, message: str, help_: str) -> None:
        super().__init__(message)
        self.message, self.help = message, help_


def make_constant(value: Any, dtype: DataType | None) -> Constant:
    """Make a constant of a number, lists or an array; see ``const``. Errors: InvalidConstant."""
    given: Any = value
    if isinstance(value, Constant):
        given = value.data
    if isinstance(given, Array):
        given = given.data
    numpy: Any = import_module("numpy")  # slow to load, so loaded with the first array
    if type(given) is not numpy.ndarray and not isinstance(given, numpy.generic):
        if getattr(given, "requires_grad", False):
            message = "a tensor that requires a gradient is no constant"
            raise InvalidConstant(message, "give its numbers: relax.const(tensor.detach().numpy())")
        try:
            found = numpy.asarray(given)
        except (ValueError, TypeError, OverflowError) as error:
            message = f"these are not numbers of a tensor: {error}"
            raise InvalidConstant(message, "give lists of equal length") from error
        if found.dtype.kind not in "biuf":
            message = f"a constant holds numbers, not {with_article(type(given).__name__)}"
            raise InvalidConstant(message, "give a number, lists of numbers, or an array")
        kind = str(found.dtype)
        dtype = dtype or DataType(_DEFAULTS.get(kind, kind))
    if dtype is None:
        return Constant(Array(given))
    try:
        with numpy.errstate(over="ignore", invalid="ignore"):  # reported below
            made = Constant(Array(given, dtype))
    except (ValueError, TypeError, OverflowError) as error:
        message = f"{dtype} cannot hold this: {error}"
        raise InvalidConstant(message, "use a dtype that holds the numbers") from error
    _check_range(numpy, numpy.asarray(given), made.data.data, dtype)
    return made


def _check_range(numpy: Any, given: Any, made: Any, dtype: DataType) -> None:
    """Refuse numbers that a dtype changes by more than rounding. Errors: InvalidConstant."""
    if given.dtype == made.dtype or dtype.is_bool or given.dtype.kind not in "biuf":
        return
    if dtype.is_float:
        wide = made.astype("float64")
        lost = numpy.isinf(wide) & ~numpy.isinf(given.astype("float64"))
    else:
        lost = made != given
    if lost.any():
        first = given[lost].flat[0].item()
        message = f"{dtype} cannot hold {first!r}"
        raise InvalidConstant(message, "use a dtype that holds the numbers, or round them first")


def make_beside_tensor(value: Any, tensor: object) -> Constant:
    """Make a constant of a number beside a tensor, of its dtype if known.

    Errors: InvalidConstant.
    """
    dtype = tensor.dtype if isinstance(tensor, TensorStructInfo) else None
    number = as_number(value)
    if dtype is None or dtype.is_void or is_numpy_value(number):
        return make_constant(value, None)
    fits = dtype.is_float or isinstance(number, bool)
    if not fits and isinstance(number, int) and not dtype.is_bool:
        fits = dtype.min_value <= number <= dtype.max_value
    if not fits:
        raise InvalidConstant(
            f"{value!r} beside a tensor of {dtype} is no {dtype}",
            f"write R.const({value!r}, dtype), and R.astype for the tensor",
        )
    return make_constant(value, dtype)


def const(value: Any, dtype: DataType | str | None = None) -> Constant:
    """Make a constant tensor of a number, lists of numbers, or an array.

    Python's integers become int32 and its floats float32, unless ``dtype`` says otherwise; an array
    keeps its own dtype. Errors: RLX0005 for what holds no numbers, or numbers that the dtype lacks.
    """
    wanted = None if dtype is None else to_dtype(dtype)
    return _explain(lambda: make_constant(value, wanted))


def constant_beside(value: Any, tensor: object) -> Constant:
    """Make a constant of a number that stands beside a tensor, of its dtype where that is known.

    Errors: RLX0005 for a number that the dtype lacks.
    """
    return _explain(lambda: make_beside_tensor(value, tensor))


def _explain(make: Callable[[], Constant]) -> Constant:
    with located():
        try:
            return make()
        except InvalidConstant as error:
            return refuse("RLX0005", error.message, help=error.help)
