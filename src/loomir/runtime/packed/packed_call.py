"""Semantics of calls of packed functions, shared by the interpreter and native code.

- Arrays are passed as NumPy views of the program's memory, valid for the time of the call. Keeping
  one would leave a dangling view, so that is an error.
- The result must have the dtype that the program declares.
- An exception of the function becomes an exception of the program.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from loomir.runtime.arguments import number_of
from loomir.runtime.errors import RunOverflowError, RunTypeError, RunValueError
from loomir.runtime.ffi import global_function
from loomir.runtime.packed.externs import load_packed_extern
from loomir.runtime.packed.registry import find_func, get_func
from loomir.runtime.view import Lender, array_at
from loomir.support.diagnostics import Diagnostic, RunError, with_article
from loomir.support.dtype import DataType

__all__ = [
    "CalleeError",
    "LentArray",
    "call_c_function",
    "call_function",
    "find_function",
    "mark_own",
    "with_place",
]


class LentArray(NamedTuple):
    """An array to pass: elements at an address, with strides in elements."""

    address: int
    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class CalleeError(Exception):
    """Wraps the exception of a called function where a bare one would be misinterpreted."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


_OURS: Final = "_loomir_call"
"""The mark of an error raised by the call itself, not by the called function."""


def mark_own(error: RunError) -> RunError:
    """Mark an error as one of the call itself, which gets the location of the call."""
    setattr(error, _OURS, True)
    return error


def with_place(error: BaseException, span: Any) -> BaseException:
    """Add the location of the call to an error of the call; leave a function's own errors."""
    if isinstance(error, RunError) and hasattr(error, _OURS):
        return type(error)(*(d.at(span) for d in error.diagnostics))
    return error


def call_function(name: str, args: Sequence[object], returns: DataType | None) -> Any:
    """Call a function with Python values; if ``returns`` is None, its result is dropped.

    Errors: RUN0304 if there is no such function, RUN0305 and RUN0306 for a wrong result,
    RUN0307 for an array that it keeps; and whatever the function raises.
    """
    return _call(find_function(name), name, args, returns)


def call_c_function(name: str, args: Sequence[object], returns: DataType | None) -> Any:
    """Call a C function that follows the calling convention of packed functions.

    Errors: those of ``call_function``.
    """
    try:
        function = load_packed_extern(name)
    except RunError as error:
        setattr(error, _OURS, True)
        raise
    return _call(function, name, args, returns)


def _call(
    function: Callable[..., object], name: str, args: Sequence[object], returns: DataType | None
) -> Any:
    if not any(isinstance(a, LentArray) for a in args):
        result = function(*args)
        return None if returns is None else _convert(name, result, returns)
    return _call_lending(function, name, args, returns)


def _call_lending(
    function: Callable[..., object], name: str, args: Sequence[object], returns: DataType | None
) -> Any:
    """Call with arrays, and check that none of them outlives the call."""
    lenders = [Lender() if isinstance(a, LentArray) else None for a in args]
    watched = [weakref.ref(lender) for lender in lenders if lender is not None]
    values: list[object] = [
        a if lender is None or not isinstance(a, LentArray) else array_at(lender, *a)
        for a, lender in zip(args, lenders, strict=True)
    ]
    del lenders
    try:
        result = function(*values)
    except BaseException as error:
        values.clear()
        if any(ref() is not None for ref in watched) and error.__traceback__ is not None:
            # Local variables of frames in the traceback still refer to arrays, whose memory may be
            # freed.
            traceback.clear_frames(error.__traceback__.tb_next)
        raise
    values.clear()
    converted = None if returns is None else _convert(name, result, returns)
    del result
    if any(ref() is not None for ref in watched):
        gc.collect()  # an array may be kept by an unreachable cycle
        if any(ref() is not None for ref in watched):
            raise _ours(
                RunValueError,
                "RUN0307",
                f"{name!r} kept an array that it was given",
                "the array is memory of the program, which is valid for the time of the call only; "
                "keep array.copy()",
            )
    return converted


def find_function(name: str) -> Callable[..., object]:
    """Return the function of that name. Errors: RUN0304 if there is none."""
    found = find_func(name) or global_function(name)
    if found is not None:
        return found
    try:
        return get_func(name)
    except RunError as error:
        setattr(error, _OURS, True)
        raise


def _ours(kind: type[RunError], code: str, message: str, remedy: str) -> RunError:
    error = kind(Diagnostic(code, message, help=remedy))
    setattr(error, _OURS, True)
    return error


# -- results -------------------------------------------------------------------------------------
def _convert(name: str, result: object, dtype: DataType) -> Any:
    """Convert a result to the dtype: a bool, an int, a float, or an address as an int."""
    if dtype.is_void:
        return None
    if dtype.is_handle:
        return _address(name, result)
    number = number_of(result)
    if number is None or (isinstance(number, float) and not dtype.is_float):
        raise _unfit(name, result, dtype)
    if dtype.is_float:
        try:
            return float(number)
        except OverflowError:
            raise _too_large(name, "an integer beyond all floats", dtype) from None
    if not dtype.min_value <= number <= dtype.max_value:
        digits = str(number) if abs(number) < 10**40 else f"{number.bit_length()} bits"  # type: ignore[union-attr]
        raise _too_large(name, digits, dtype)
    return bool(number) if dtype.is_bool else int(number)


def _address(name: str, result: object) -> int:
    if result is None:
        return 0
    if isinstance(result, ctypes.c_void_p):
        return result.value or 0
    if type(result) is int and 0 <= result <= sys.maxsize * 2 + 1:
        return result
    raise _unfit(name, result, DataType("handle"))


def _unfit(name: str, result: object, dtype: DataType) -> RunError:
    kind = "None" if result is None else with_article(type(result).__qualname__)
    wanted = "a handle (ctypes.c_void_p or None)" if dtype.is_handle else f"a number ({dtype})"
    return _ours(
        RunTypeError,
        "RUN0305",
        f"{name!r} returned {kind}, and the program needs {wanted}",
        "return such a value, or make the call a statement of its own, which needs none",
    )


def _too_large(name: str, what: str, dtype: DataType) -> RunError:
    return _ours(
        RunOverflowError,
        "RUN0306",
        f"{name!r} returned {what}, which does not fit {dtype}",
        'give the call a wider dtype, as in T.call_packed(..., dtype="int64")',
    )
