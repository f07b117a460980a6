"""C functions that programs call by name: registered, from loaded libraries, or of the process.

Users must trust what they call: nothing here can tell what a C function does with its arguments.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from loomir.runtime.errors import RunKeyError, RunTypeError, RunValueError
from loomir.runtime.ffi import function_from_address
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import DataType
from loomir.support.fork_safe import ForkSafeLock

__all__ = [
    "VARIADIC",
    "address_in_process",
    "c_function",
    "find_extern",
    "load_library",
    "load_packed_extern",
    "register_extern",
]

VARIADIC: Final = {
    "printf": 1,
    "fprintf": 2,
    "dprintf": 2,
    "sprintf": 2,
    "snprintf": 3,
    "scanf": 1,
    "sscanf": 2,
}
"""C functions with a variable number of arguments, and their number of fixed ones."""

_lock: Final = ForkSafeLock()
_registered: Final[dict[str, tuple[int, object]]] = {}
_libraries: Final[list[ctypes.CDLL]] = []


@explain_arguments
def load_library(path: str | os.PathLike[str]) -> None:
    """Load a shared library, whose functions programs can then call by name.

    Names are looked up in the library that was loaded last, then in those before it. It stays
    loaded until the process ends.
    Errors: RUN0308 if the system cannot load it.
    """
    try:
        _refuse_cut_off(path)
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise RunValueError(
            Diagnostic("RUN0308", f"{os.fspath(path)!r} cannot be loaded: {error}")
        ) from error
    with _lock:
        _libraries.append(library)


def _refuse_cut_off(path: str | os.PathLike[str]) -> None:
    """Refuse a truncated ELF file, since the loader would abort the process.

    Errors: OSError.
    """
    if not os.path.isfile(path):  # the system searches for it
        return
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
            return
        start, size, count = (
            *struct.unpack_from("<Q", head, 32),
            *struct.unpack_from("<HH", head, 54),
        )
        file.seek(start)
        table = file.read(size * count)
        whole = os.fstat(file.fileno()).st_size
    ends = [start + size * count]
    for at in range(0, len(table) - 55, max(56, size)):
        offset, _, _, length = struct.unpack_from("<QQQQ", table, at + 8)
        ends.append(offset + length)
    if max(ends) > whole:
        raise OSError(f"it has {whole} bytes, and its parts need {max(ends)}")


@explain_arguments
def register_extern(name: str, function: Any) -> None:
    """Register a C function that programs call as ``name``, replacing any previous one.

    ``function`` is an address, or a ``ctypes`` function, which is kept alive. Its types are those
    of the calls.
    Errors: RUN0309 for anything else.
    """
    address = function if type(function) is int else _address_of(function)
    if not isinstance(name, str) or not name or not 0 < address < 2**64:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RunTypeError(
            Diagnostic(
                "RUN0309",
                f"{name!r} cannot be a C function: {function!r} is not an address of one",
                help="pass an address, a function of ctypes.CDLL, or a ctypes.CFUNCTYPE(...)(f)",
            )
        )
    with _lock:
        _registered[name] = (address, function)


def _address_of(function: Any) -> int:
    if isinstance(function, (int, str, bytes)):  # `ctypes` would treat these as pointers
        return 0
    try:
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    except (ctypes.ArgumentError, TypeError):
        return 0


def find_extern(name: str) -> int:
    """Return the address of a C function, or 0."""
    found = _registered.get(name)
    if found is not None:
        return found[0]
    for library in reversed(_libraries):
        function = getattr(library, name, None)
        if function is not None:
            return _address_of(function)
    return address_in_process(name)


_C_TYPES: Final[dict[str, Any]] = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "handle": ctypes.c_void_p,
    "void": None,
}


def c_function(
    address: int, name: str, dtypes: Sequence[DataType], returns: DataType
) -> Callable[[Sequence[Any]], Any]:
    """Make a Python callable of a C function, for arguments and a result of these dtypes.

    It takes numbers, texts (as C strings), and addresses as ``ctypes.c_void_p``; an address that it
    returns is an int.
    """
    types = [_C_TYPES[str(d)] for d in dtypes]
    fixed = VARIADIC.get(name, len(types))
    # Arguments beyond the prototype are passed as variadic ones.
    function = ctypes.CFUNCTYPE(_C_TYPES[str(returns)], *types[:fixed])(address)

    def call(values: Sequence[Any]) -> Any:
        given: list[Any] = [
            v.encode("utf-8", "surrogatepass") if isinstance(v, str) else v for v in values
        ]
        for i in range(fixed, len(given)):
            if isinstance(given[i], bytes):
                given[i] = ctypes.c_char_p(given[i])
            elif isinstance(given[i], float):
                given[i] = ctypes.c_double(given[i])
            elif isinstance(given[i], int):
                short = dtypes[i].bits < 32
                given[i] = ctypes.c_int(given[i]) if short else types[i](given[i])
        result = function(*given)
        return (result or 0) if returns.is_handle else result

    return call


def load_packed_extern(name: str) -> Callable[..., object]:
    """Return a C function that follows the calling convention of packed functions.

    Its symbol is ``name``, or ``__tvm_ffi_`` followed by it.
    Errors: RUN0304 if there is none.
    """
    address = find_extern(f"__tvm_ffi_{name}") or find_extern(name)
    if not address:
        raise RunKeyError(
            Diagnostic(
                "RUN0304",
                f"no C function {name!r} is known",
                help="load its library first, with loomir.load_library(path)",
            )
        )
    return _callable(address)


@functools.lru_cache(maxsize=256)
def _callable(address: int) -> Callable[..., object]:
    return function_from_address(address)


# -- the process -----------------------------------------------------------------------------------
@functools.lru_cache(maxsize=1)
def _process_libraries() -> tuple[ctypes.CDLL, ...]:
    # Opened one by one: they may not be in the interpreter's global scope.
    if sys.platform.startswith("linux"):
        names: tuple[str | None, ...] = (None, "libc.so.6", "libm.so.6", "libpthread.so.0")
    elif sys.platform == "win32":
        names = ("msvcrt.dll", "ucrtbase.dll", "kernel32.dll")
    else:
        names = (None,)
    # musl has a single library with another name; `None` then covers it.
    return tuple([library for library in map(_open, names) if library is not None])


def _open(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


@functools.lru_cache(maxsize=4096)
def address_in_process(name: str) -> int:
    """Return the address of a function of the process, or 0."""
    for library in _process_libraries():
        found = getattr(library, name, None)
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value or 0
    return 0
