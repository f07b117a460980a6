"""DLPack capsules: memory of other libraries, shared and never copied."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import ml_dtypes
import numpy as np

from loomir.runtime.ffi import tensor_from_capsule
from loomir.runtime.layout import (
    CODE_BFLOAT,
    DLTENSOR_CODE,
    MANAGED_DLTENSOR,
    MANAGED_FLAG_READ_ONLY,
    MANAGED_FLAGS,
    MANAGED_MAJOR,
)

__all__ = ["BFLOAT16", "capsule_of", "is_read_only", "tensor_of_array"]

BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)

_VERSION: Final = (1, 0)
_VERSIONED: Final = b"dltensor_versioned"

# Prototypes of our own: `ctypes.pythonapi.X.restype = ...` would change them for everyone.
_get_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def capsule_of(exporter: Any) -> object:
    """Ask an object for its memory: in DLPack's present form, or in the old one if it knows no other."""
    try:
        return exporter.__dlpack__(max_version=_VERSION)
    except TypeError:
        return exporter.__dlpack__()


def is_read_only(capsule: object) -> bool:
    """Whether a capsule says that its memory must not be written.

    The old form cannot say so; exporters may not use it for such memory.
    """
    address = _managed(capsule)
    if address is None:
        return False
    flags = ctypes.c_uint64.from_address(address + MANAGED_FLAGS).value
    return bool(flags & MANAGED_FLAG_READ_ONLY)


def tensor_of_array(array: np.ndarray[Any, Any]) -> object:
    """Make a tensor of a NumPy array that NumPy or tvm-ffi alone would refuse.

    These are read-only arrays, and bfloat16, for which NumPy has no DLPack type.
    """
    if array.dtype != BFLOAT16:
        return tensor_from_capsule(capsule_of(array))
    capsule = capsule_of(array.view(np.uint16))
    address = _managed(capsule)
    if address is None:
        raise BufferError("NumPy gave a DLPack capsule of the old form")
    ctypes.c_uint8.from_address(address + MANAGED_DLTENSOR + DLTENSOR_CODE).value = CODE_BFLOAT
    return tensor_from_capsule(capsule)


def _managed(capsule: object) -> int | None:
    """Give the address of a capsule's versioned tensor, or None for the old form.

    Errors: BufferError for a layout newer than the one known here.
    """
    if not _is_valid(capsule, _VERSIONED):
        return None
    address: int = _get_pointer(capsule, _VERSIONED)
    major = ctypes.c_uint32.from_address(address + MANAGED_MAJOR).value
    if major != _VERSION[0]:
        raise BufferError(f"DLPack version {major} is not known")
    return address
