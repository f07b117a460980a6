"""Adapt arguments that native code cannot use as they are.

The fast path of a call passes arguments on unchanged, and native code checks them. Arguments that
it cannot use (bfloat16 and read-only arrays, NumPy scalars) or must not use (memory that is not
what it looks like) come through here: they get another form, never a copy of the data, or are
refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loomir.runtime.dlpack import (
    BFLOAT16,
    byte_offset_of,
    capsule_of,
    is_array,
    is_read_only,
    plain_array,
    tensor_of_array,
)
from loomir.runtime.errors import RunOverflowError, RunTypeError, RunValueError
from loomir.runtime.ffi import is_tensor, tensor_from_capsule
from loomir.runtime.layout import DEVICE_CPU
from loomir.runtime.parameter import Parameter
from loomir.runtime.torch_tensor import diagnose_tensor, is_torch_tensor, plain_tensor
from loomir.support.diagnostics import Diagnostic, RunError, with_article
from loomir.support.dtype import dtype_of_numpy

__all__ = ["adapt", "diagnose", "number_of", "refuse"]

_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)
# Libraries with immutable arrays, which export their memory without marking it read-only.
_IMMUTABLE: Final = frozenset({"jax", "jaxlib", "tensorflow"})
_EXPORT_ERRORS: Final = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


def adapt(parameters: Sequence[Parameter], args: Sequence[object]) -> tuple[object, ...]:
    """Convert arguments to the form that native code takes; suitable ones stay the same objects.

    Errors: RUN0103 to RUN0111.
    """
    adapted: list[object] = []
    for parameter, value in zip(parameters, args, strict=True):
        if not parameter.is_buffer:
            adapted.append(_scalar(parameter, value))
        elif value.__class__ is np.ndarray:
            adapted.append(_array(parameter, value))
        else:
            adapted.append(_buffer(parameter, value))
    return tuple(adapted)


def diagnose(parameters: Sequence[Parameter], args: Sequence[object]) -> None:
    """Raise an error about the memory of an argument that ``adapt`` did not notice.

    It is called only after a call failed, because it takes longer than the call.
    """
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.is_buffer and is_torch_tensor(value):
            diagnose_tensor(parameter, value)
            _import_dlpack(parameter, value)
        elif parameter.is_buffer and is_tensor(value):
            _import_dlpack(parameter, value)


def refuse(
    parameter: Parameter, kind: type[RunError], code: str, message: str, remedy: str = ""
) -> RunError:
    """Create the error for one argument."""
    return kind(
        Diagnostic(
            code,
            f"{parameter.name} {message}",
            span=parameter.span,
            label=f"{parameter} is declared here" if parameter.span is not None else "",
            help=remedy,
        )
    )


# -- memory --------------------------------------------------------------------------------------
def _buffer(parameter: Parameter, value: Any) -> object:
    if is_array(value):
        if isinstance(value, np.ma.MaskedArray):
            raise refuse(
                parameter,
                RunValueError,
                "RUN0106",
                "is a masked array, and compiled code would not see the mask",
                f"pass {parameter.name}.filled(...) or {parameter.name}.data",
            )
        return _array(parameter, plain_array(value))
    if parameter.dtype.is_vector and hasattr(value.__class__, "__dlpack__"):
        return _vectors_from(parameter, value)
    if is_torch_tensor(value):
        return plain_tensor(parameter, value)
    if is_tensor(value):
        return value
    if hasattr(value.__class__, "__dlpack__"):
        return _import_dlpack(parameter, value)
    raise refuse(
        parameter,
        RunTypeError,
        "RUN0103",
        f"must be an array of {parameter.dtype}, not {_kind(value)}",
        _remedy_for(parameter, value),
    )


def _array(parameter: Parameter, array: Any) -> object:
    dtype = array.dtype
    flags = array.flags
    if dtype_of_numpy(dtype) is None:
        raise _bad_elements(parameter, dtype)
    if parameter.is_written and not flags.writeable:
        raise _read_only(parameter, f"pass {parameter.name}.copy() and use that")
    if not flags.c_contiguous and any(s % array.itemsize for s in array.strides):
        raise refuse(
            parameter,
            RunValueError,
            "RUN0109",
            f"has strides of {array.strides} bytes, which are not multiples of its elements' "
            f"{array.itemsize} bytes",
            f"pass {parameter.name}.copy()",
        )
    lanes = parameter.dtype.lanes
    if lanes > 1 and array.ndim and array.shape[-1] == lanes:
        return tensor_of_array(_split_lanes(parameter, array), lanes)
    if dtype == BFLOAT16 or not flags.writeable:
        return tensor_of_array(array)
    return array


def _split_lanes(parameter: Parameter, array: Any) -> Any:
    """Return an array whose last axis has the lanes of vectors, contiguously."""
    lanes, item = parameter.dtype.lanes, array.itemsize
    *steps, last = array.strides
    if array.size and (last != item or any(s % (item * lanes) for s in steps)):
        raise refuse(
            parameter,
            RunValueError,
            "RUN0109",
            f"has strides of {array.strides} bytes, but its vectors of {lanes} elements must lie "
            "side by side",
            f"pass {parameter.name}.copy()",
        )
    return array


def _vectors_from(parameter: Parameter, value: Any) -> object:
    """Import vectors from a library without vector dtypes: the last axis has the lanes."""
    try:
        return _array(parameter, np.from_dlpack(value))
    except RunError:
        raise
    except _EXPORT_ERRORS as error:
        raise refuse(
            parameter,
            RunValueError,
            "RUN0110",
            f"({_kind(value)}) does not export its memory: {error}",
            f"pass a NumPy array for {parameter.name}",
        ) from error


def _bad_elements(parameter: Parameter, dtype: Any) -> RunError:
    native: Any = dtype.newbyteorder("=")
    if dtype_of_numpy(native) is not None:
        what = f"has elements in the byte order of other machines ({dtype.str})"
        remedy = f"pass {parameter.name}.astype({native.name!r})"
    else:
        what = f"has elements of NumPy's dtype {dtype}, for which there is no dtype in TIR"
        remedy = f"the function takes {parameter.dtype}"
    return refuse(parameter, RunTypeError, "RUN0105", what, remedy)


def _import_dlpack(parameter: Parameter, value: Any) -> object:
    """Import memory from any library through DLPack."""
    try:
        device = int(value.__dlpack_device__()[0])
        if device != DEVICE_CPU:
            raise refuse(
                parameter,
                RunValueError,
                "RUN0107",
                f"is on a device of DLPack type {device}, and this function runs on the CPU (1)",
                f"copy {parameter.name} to the CPU first",
            )
        capsule = capsule_of(value)
        # The capsule is always read first: it also says whether its layout is known.
        marked = is_read_only(capsule)
        if parameter.is_written and (marked or _is_immutable(value)):
            raise _read_only(parameter, "pass a copy that may be written")
        _require_whole_offset(parameter, capsule)
        return tensor_from_capsule(capsule)
    except RunError:
        raise
    except _EXPORT_ERRORS as error:
        raise refuse(
            parameter,
            RunValueError,
            "RUN0110",
            f"({_kind(value)}) does not export its memory: {error}",
            f"pass numpy.array(...) of {parameter.name}, or what else has its data",
        ) from error


def _require_whole_offset(parameter: Parameter, capsule: object) -> None:
    offset, size = byte_offset_of(capsule), parameter.dtype.itemsize
    if offset % size:
        raise refuse(
            parameter,
            RunValueError,
            "RUN0011",
            f"starts at a byte offset of {offset}, which is no multiple of its elements' {size} "
            "bytes",
            f"pass a copy of {parameter.name}, which starts at its first element",
        )


def _is_immutable(value: Any) -> bool:
    """Tell whether an array must not be written, even if its capsule does not say so."""
    if type(value).__module__.partition(".")[0] in _IMMUTABLE:
        return True
    try:
        with memoryview(value) as view:
            return view.readonly
    except (BufferError, TypeError, ValueError):  # it cannot export such a view
        return False


def _read_only(parameter: Parameter, remedy: str) -> RunError:
    return refuse(
        parameter,
        RunValueError,
        "RUN0108",
        "is read-only, and the function writes to it",
        remedy,
    )


def _remedy_for(parameter: Parameter, value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"make it an array first: numpy.array(..., dtype={str(parameter.dtype)!r})"
    if isinstance(value, (int, float, np.generic)):
        return f"for a buffer without axes pass numpy.array(..., dtype={str(parameter.dtype)!r})"
    return "pass a NumPy array, a PyTorch tensor, or anything that has __dlpack__"


# -- numbers and handles -------------------------------------------------------------------------
def _scalar(parameter: Parameter, value: Any) -> object:
    if parameter.dtype.is_handle:
        return _handle(parameter, value)
    number = number_of(value)
    if number is None:
        raise refuse(
            parameter,
            RunTypeError,
            "RUN0104",
            f"must be a number ({parameter.dtype}), not {_kind(value)}",
            "pass a Python or NumPy number, or an array without axes",
        )
    if type(number) is not int or number in _INT64:
        return number
    if parameter.dtype.is_float:
        return _float(parameter, number)
    if number in _UINT64 and parameter.dtype.is_uint and parameter.dtype.bits == 64:
        # The calling convention has no unsigned integers; the 64 bits are passed as a pointer.
        return ctypes.c_void_p(number)
    raise _too_large(parameter, number)


def number_of(value: Any) -> bool | int | float | None:
    """Return a number as a Python number, or None for other values."""
    if type(value) in (int, float, bool):
        return value
    if is_array(value):
        return number_of(value[()]) if value.ndim == 0 else None
    if _is_numpy_number(value):
        return _from_numpy(value)
    if is_torch_tensor(value):
        return number_of(value.item()) if value.ndim == 0 and value.is_cpu else None
    if hasattr(value.__class__, "__index__"):
        return int(value.__index__())
    return float(value) if _is_float(value) else None


def _is_numpy_number(value: object) -> bool:
    return isinstance(value, np.generic)


def _is_float(value: object) -> bool:
    return isinstance(value, float)


def _from_numpy(value: Any) -> bool | int | float | None:
    dtype = dtype_of_numpy(value.dtype)
    if dtype is None:
        return None
    if dtype.is_bool:
        return bool(value)
    return float(value) if dtype.is_float else int(value)


def _float(parameter: Parameter, number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        raise _too_large(parameter, number) from None


def _too_large(parameter: Parameter, number: int) -> RunError:
    digits = str(number) if abs(number) < 10**40 else f"an integer of {number.bit_length()} bits"
    return refuse(
        parameter,
        RunOverflowError,
        "RUN0111",
        f"is {digits}, which does not fit {parameter.dtype}",
        "pass a number of at most 64 bits",
    )


def _handle(parameter: Parameter, value: object) -> object:
    if value is None or isinstance(value, ctypes.c_void_p):
        return value
    raise refuse(
        parameter,
        RunTypeError,
        "RUN0104",
        f"must be a handle (ctypes.c_void_p or None), not {_kind(value)}",
        "pass ctypes.c_void_p(address)",
    )


def _kind(value: object) -> str:
    if value is None:
        return "None"
    cls = type(value)
    where = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return with_article(f"{where}{cls.__qualname__}")
