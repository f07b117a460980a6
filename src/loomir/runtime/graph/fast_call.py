"""The fast entry into graphs: a machine-code function that Python calls with NumPy arrays.

``codegen.llvm.support.ir.fast_call`` writes it once for all programs; it reads arrays and creates
results like a C extension module. This module sets up what it needs from the process. The entry
takes only plain ``numpy.ndarray`` objects, row-major, of a dtype of the language; for anything else
it returns None without having done anything.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.runtime.graph import cpython_layout as at
from loomir.support.dtype import DataType, numpy_of
from loomir.support.fork_safe import ForkSafeLock, import_module

__all__ = [
    "HOST",
    "EndedCall",
    "FastEntry",
    "connect_fast_call",
    "fast_entry_for",
    "host_symbols",
    "read_ended",
]

HOST: Final = "loomir_host"
"""The symbol of the table with what the code needs to know of this process."""

_DTYPES: Final = (
    *("float32", "int64", "int32", "float64", "bool", "float16", "bfloat16"),
    *("int8", "uint8", "int16", "uint16", "uint32", "uint64"),
)
_FUNCTIONS: Final = (
    *("PyBytes_FromStringAndSize", "PyCapsule_GetPointer", "PyCapsule_New", "PyEval_RestoreThread"),
    *("PyEval_SaveThread", "PyLong_AsVoidPtr", "PyTuple_New", "PyTuple_SetItem", "Py_DecRef"),
    "Py_IncRef",
)
_VOID: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int64
_FASTCALL: Final = 0x80
_lock: Final = ForkSafeLock()
_hosts: Final[list[Any]] = []
_connected: Final[list[Callable[[], int]]] = []


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_methods: Final[list[_Method]] = []
_new_function: Final = ctypes.PYFUNCTYPE(ctypes.py_object, _VOID, ctypes.py_object, _VOID)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


# -- the host ----------------------------------------------------------------------------------
def _word(address: int) -> int:
    return _INT.from_address(address).value


def _is_known() -> bool:
    """Tell whether Python and NumPy lay out objects as the code assumes."""
    is_plain = sys.implementation.name == "cpython" and sys.byteorder == "little"
    if not is_plain or object.__basicsize__ != at.OBJECT_SIZE or ctypes.sizeof(_VOID) != 8:
        return False
    if np.ndarray.__basicsize__ < at.ARRAY_SIZE:
        return False
    whole = np.zeros((2, 3), np.float32)
    fixed = np.zeros((5, 7), np.int16)[1:, 2:]
    fixed.flags.writeable = False
    return all(map(_reads, (whole, fixed)))


def _reads(array: Any) -> bool:
    """Tell whether the fields of an array are at the assumed addresses."""
    start, rank = id(array), array.ndim
    if _word(start + at.OBJECT_TYPE) != id(array.__class__):
        return False
    data, dtype = _word(start + at.ARRAY_DATA), _word(start + at.ARRAY_DTYPE)
    if data != array.__array_interface__["data"][0] or dtype != id(array.dtype):
        return False
    if ctypes.c_int32.from_address(start + at.ARRAY_RANK).value != rank:
        return False
    found = [
        struct.unpack(f"={rank}q", ctypes.string_at(_word(start + field), 8 * rank))
        for field in (at.ARRAY_SHAPE, at.ARRAY_STRIDES)
    ]
    flags = ctypes.c_int32.from_address(start + at.ARRAY_FLAGS).value
    said = array.flags
    bits = (at.ARRAY_ROW_MAJOR, at.ARRAY_ALIGNED, at.ARRAY_WRITEABLE)
    same = (said.c_contiguous, said.aligned, said.writeable) == tuple(bool(flags & b) for b in bits)
    return same and found == [array.shape, array.strides]


def _numpy_functions() -> tuple[int, int] | None:
    """Return the addresses of NumPy's functions from its stable table; None if it differs."""
    module: Any = import_module("numpy._core._multiarray_umath")
    get = ctypes.PYFUNCTYPE(_VOID, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table: int = get(module._ARRAY_API, None)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(_word(table + 8 * at.API_VERSION))()
    if version >> 24 != at.API_MAJOR:
        return None
    return _word(table + 8 * at.API_NEW_FROM_DESCR), _word(table + 8 * at.API_SET_BASE_OBJECT)


def _host() -> Any:
    """Make the host's table, once; None if the fast entry is not available."""
    with _lock:
        if not _hosts:
            found = _numpy_functions() if _is_known() else None
            _hosts.append(None if found is None else _words(found))
        return _hosts[0]


def _words(functions: tuple[int, int]) -> Any:
    rows: list[int] = []
    for name in _DTYPES:
        dtype = DataType(name)
        # Each NumPy dtype is recognised by one object; equal objects take the slow path.
        known = np.dtype(numpy_of(dtype))
        _kept.append(known)
        bits = 8 if dtype.is_bool else dtype.bits
        rows += [id(known), int(dtype.code) | bits << 8 | 1 << 16, dtype.itemsize]
    words = [id(np.ndarray), *functions, id(None), len(_DTYPES), *rows]
    return (_INT * len(words))(*words)


_kept: Final[list[object]] = []


def host_symbols() -> dict[str, int] | None:
    """Return the symbols that the code is linked with; None if the fast entry is not available."""
    host = _host()
    if host is None:
        return None
    found = {HOST: ctypes.addressof(host)}
    for name in _FUNCTIONS:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), _VOID).value
        if address is None:
            return None
        found[name] = address
    return found


# -- entries -----------------------------------------------------------------------------------
def connect_fast_call(code: Callable[[], int]) -> None:
    """Set the function that returns the address of the code, 0 if there is none; once is enough."""
    if not _connected:
        _connected.append(code)


class FastEntry(NamedTuple):
    """The callable of a graph function; ``words`` must live as long."""

    call: Callable[..., Any]
    words: object


def fast_entry_for(enter: int, function: int, count: int, values: int) -> FastEntry | None:
    """Make the callable by which Python calls a graph function.

    None if the fast entry is not available. ``values`` is the most values of a fault.
    """
    code = _connected[0]() if _connected else 0
    if not code:
        return None
    with _lock:
        if not _methods:
            _methods.append(_Method(b"graph", code, _FASTCALL, None))
    words = (_INT * 4)(enter, function, count, values)
    method = ctypes.addressof(_methods[0])
    return FastEntry(_new_function(method, ctypes.addressof(words), None), words)


class EndedCall(NamedTuple):
    """A call that has ended and that Python has to finish."""

    status: int
    result: int
    lent: tuple[int, ...]
    report: bytes


def read_ended(record: bytes) -> EndedCall:
    """Decode the record of a call that ended early."""
    status, result, count = struct.unpack_from("=3q", record)
    lent = struct.unpack_from(f"={count}q", record, at.RECORD_LENT)
    return EndedCall(status, result, lent, record[at.RECORD_LENT + 8 * count :])
