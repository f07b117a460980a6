"""Call packed functions from compiled code, through one C function that takes the GIL.

Compiled code calls ``loomir_call_packed(what, args, count, ret, root)``:

- ``what`` is a C string: the kind of call, the dtypes of the result and of the arguments, and the
  name, separated by bars: ``packed|int32|uint64,float32|my.function``.
- ``args`` are ``count`` values of type ``TVMFFIAny``; a DLTensor's strides may be NULL.
- ``ret`` is a ``TVMFFIAny`` for the result. The caller sets its type index to -1. On return it is
  the type of the result; after an exception it is ``TYPE_ERROR``, and the value is the exception's
  ticket, counted from 1.
- ``root`` is a number that identifies the outermost call from Python.

Exceptions are stored here, by root, for the Python frame that called the compiled code.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loomir.runtime import layout as at
from loomir.runtime.packed.packed_call import LentArray, call_c_function, call_function
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType

__all__ = ["callback_symbols", "interruption", "is_deep", "take"]

_ANY: Final = struct.Struct("=ii8s")
_PROTOTYPE: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int32, ctypes.c_size_t, ctypes.c_int64
)
_tickets: Final = itertools.count(1)
_pending: Final[dict[int, dict[int, BaseException]]] = {}


class _Plan(NamedTuple):
    """The parsed description of a call; ``returns`` is None if the result is dropped."""

    function: Callable[..., Any]
    returns: DataType | None
    dtypes: tuple[DataType, ...]


def take(root: int, ticket: int) -> BaseException | None:
    """Return the exception of a ticket, and forget all others of the same call.

    None if the call was interrupted before its exception was recorded.
    """
    return _pending.pop(root, {}).get(ticket)


_HEADROOM: Final = 50
"""Python frames that a call needs: an exception would be lost if none were left."""


def _is_deep(headroom: int) -> bool:
    """Tell whether fewer frames than ``headroom`` are left."""
    try:
        # Cheap, but does not count frames of C code.
        sys._getframe(sys.getrecursionlimit() // 4)  # pyright: ignore[reportPrivateUsage]
    except ValueError:
        return False
    try:
        _descend(headroom)
    except RecursionError:
        return True
    return False


def _descend(frames: int) -> None:
    if frames:
        _descend(frames - 1)


def is_deep() -> bool:
    """Tell whether too few frames are left for a call."""
    return _is_deep(_HEADROOM)


def interruption() -> BaseException:
    """Create the exception of a call that ended without recording one.

    Either too few frames were left, or a signal handler raised between the first instructions of a
    Python frame.
    """
    if _is_deep(_HEADROOM + 10):
        return RecursionError("maximum recursion depth exceeded in a call from compiled code")
    if threading.current_thread() is threading.main_thread():
        return KeyboardInterrupt()
    return InternalError("a call from compiled code ended without an answer")


@functools.lru_cache(maxsize=1024)
def _plan(what: bytes) -> _Plan:
    kind, returns, dtypes, name = what.decode("utf-8", "surrogatepass").split("|", 3)
    function = functools.partial(call_function, name)
    if kind == "cpacked":
        function = functools.partial(call_c_function, name)
    return _Plan(
        function,
        DataType(returns) if returns else None,
        tuple([DataType(d) for d in dtypes.split(",")]) if dtypes else (),
    )


def _answer(what: int, args: int, count: int, ret: int, root: int) -> None:
    try:
        if _is_deep(_HEADROOM):
            return
        plan = _plan(ctypes.string_at(what))
        data = ctypes.string_at(args, count * at.ANY_SIZE) if count else b""
        values = [_value(data, i * at.ANY_SIZE, dtype) for i, dtype in enumerate(plan.dtypes)]
        result = plan.function(values, plan.returns)
        _write(ret, plan.returns, result)
    except BaseException as error:  # noqa: BLE001  # it is raised again where compiled code ends
        ticket = next(_tickets)
        _pending.setdefault(root, {})[ticket] = error
        _set(ret, at.TYPE_ERROR, struct.pack("=q", ticket))


# -- arguments ---------------------------------------------------------------------------------
def _value(data: bytes, where: int, dtype: DataType) -> object:
    kind, _, raw = _ANY.unpack_from(data, where)
    (number,) = struct.unpack("=q", raw)
    if kind == at.TYPE_INT:
        return number % 2**64 if dtype.is_uint else number
    if kind == at.TYPE_FLOAT:
        return struct.unpack("=d", raw)[0]
    if kind == at.TYPE_BOOL:
        return bool(number)
    if kind == at.TYPE_DLTENSOR_PTR:
        return _lend(number, dtype)
    if kind == at.TYPE_RAW_STR:
        return ctypes.string_at(number).decode("utf-8", "surrogatepass")
    return ctypes.c_void_p(number) if number else None


_TENSOR: Final = struct.Struct("=QiiiBBHQQQ")


def _lend(address: int, dtype: DataType) -> LentArray:
    data, _, _, rank, _, _, _, shape_at, strides_at, offset = _TENSOR.unpack(
        ctypes.string_at(address, at.DLTENSOR_SIZE)
    )
    shape = _numbers(shape_at, rank)
    return LentArray(data + offset, dtype, shape, _numbers(strides_at, rank) if strides_at else ())


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", ctypes.string_at(address, 8 * count)) if count else ()


# -- results -------------------------------------------------------------------------------------
def _write(ret: int, dtype: DataType | None, value: Any) -> None:
    if dtype is None or dtype.is_void:
        _set(ret, at.TYPE_NONE, bytes(8))
    elif dtype.is_float:
        _set(ret, at.TYPE_FLOAT, struct.pack("=d", value))
    elif dtype.is_bool:
        _set(ret, at.TYPE_BOOL, struct.pack("=q", value))
    else:
        kind = at.TYPE_OPAQUE_PTR if dtype.is_handle else at.TYPE_INT
        _set(ret, kind, struct.pack("=Q", value % 2**64))


def _set(ret: int, kind: int, value: bytes) -> None:
    ctypes.memmove(ret, _ANY.pack(kind, 0, value), at.ANY_SIZE)


_callback: Final = _PROTOTYPE(_answer)


def callback_symbols() -> dict[str, int]:
    """Return the address of the C function that compiled code calls."""
    address = ctypes.cast(_callback, ctypes.c_void_p).value
    assert address is not None
    return {"loomir_call_packed": address}
