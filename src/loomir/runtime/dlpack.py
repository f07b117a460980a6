"""DLPack capsules: share memory with other libraries, without copies."""

from __future__ import annotations

import ctypes
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from loomir.runtime.ffi import tensor_from_capsule
from loomir.runtime.layout import (
    CODE_BFLOAT,
    DLTENSOR_BYTE_OFFSET,
    DLTENSOR_CODE,
    DLTENSOR_LANES,
    DLTENSOR_NDIM,
    DLTENSOR_STRIDES,
    MANAGED_DLTENSOR,
    MANAGED_FLAG_READ_ONLY,
    MANAGED_FLAGS,
    MANAGED_MAJOR,
)

__all__ = [
    "BFLOAT16",
    "Array",
    "byte_offset_of",
    "capsule_of",
    "is_array",
    "is_read_only",
    "plain_array",
    "tensor_of_array",
]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)

_VERSION: Final = (1, 0)
_VERSIONED: Final = b"dltensor_versioned"
_UNVERSIONED: Final = b"dltensor"

_BFLOAT: Final = bytes([CODE_BFLOAT])

# Separate prototypes: `ctypes.pythonapi.X.restype = ...` would change them for all users.
_get_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def capsule_of(exporter: Any) -> object:
    """Ask an object for its DLPack capsule: a versioned one if possible, else the old form."""
    try:
        return exporter.__dlpack__(max_version=_VERSION)
    except TypeError:
        return exporter.__dlpack__()


def is_read_only(capsule: object) -> bool:
    """Tell whether a capsule says that its memory must not be written.

    The old form cannot say so; exporters must not use it for such memory.
    """
    address = _find_versioned_tensor(capsule)
    if address is None:
        return False
    flags = ctypes.c_uint64.from_address(address + MANAGED_FLAGS).value
    return bool(flags & MANAGED_FLAG_READ_ONLY)


def byte_offset_of(capsule: object) -> int:
    """Return the offset of an array's first element, in bytes from the address in its capsule."""
    address = _find_versioned_tensor(capsule)
    if address is None:
        start: int = _get_pointer(capsule, _UNVERSIONED)
    else:
        start = address + MANAGED_DLTENSOR
    return ctypes.c_uint64.from_address(start + DLTENSOR_BYTE_OFFSET).value


def is_array(value: object) -> bool:
    """Tell whether this is a NumPy array, or one of a subclass."""
    return isinstance(value, np.ndarray)


def plain_array(array: Any) -> Array:
    """Return an array of exactly NumPy's class with the same memory."""
    return array if type(array) is np.ndarray else array.view(np.ndarray)


def tensor_of_array(array: Any, lanes: int = 1) -> object:
    """Make a tensor from a NumPy array that NumPy or tvm-ffi would refuse.

    These are read-only arrays, and bfloat16, for which NumPy has no DLPack type. With ``lanes``,
    the last axis, of so many adjacent elements, becomes the lanes of vectors.
    """
    is_bfloat = array.dtype == BFLOAT16
    if not is_bfloat and lanes == 1:
        return tensor_from_capsule(capsule_of(array))
    plain = array.view(np.uint16) if is_bfloat else array
    capsule = plain.__dlpack__(max_version=_VERSION)
    # Only NumPy's exported structure is changed, not the array itself.
    tensor = _get_pointer(capsule, _VERSIONED) + MANAGED_DLTENSOR
    if is_bfloat:
        ctypes.memmove(tensor + DLTENSOR_CODE, _BFLOAT, 1)
    if lanes > 1:
        rank = array.ndim - 1
        ctypes.c_int32.from_address(tensor + DLTENSOR_NDIM).value = rank
        ctypes.c_uint16.from_address(tensor + DLTENSOR_LANES).value = lanes
        strides = ctypes.c_void_p.from_address(tensor + DLTENSOR_STRIDES).value
        for axis in range(rank if strides else 0):
            step = ctypes.c_int64.from_address((strides or 0) + 8 * axis)
            step.value //= lanes
    return tensor_from_capsule(capsule)


def _find_versioned_tensor(capsule: object) -> int | None:
    """Return the address of a capsule's versioned tensor, or None for the old form.

    Errors: BufferError for a layout that is newer than the one known here.
    """
    if not _is_valid(capsule, _VERSIONED):
        return None
    address: int = _get_pointer(capsule, _VERSIONED)
    major = ctypes.c_uint32.from_address(address + MANAGED_MAJOR).value
    if major != _VERSION[0]:
        raise BufferError(f"DLPack version {major} is not known")
    return address
