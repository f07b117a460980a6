"""Create and read native objects from Python; ``object_layout`` defines their memory layout.

The functions on objects are compiled code, which this layer cannot create: the code generator
registers it here.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.fork_safe import ForkSafeLock

__all__ = [
    "Functions",
    "Reference",
    "Tensor",
    "connect",
    "extents_of",
    "flags_of",
    "foreign",
    "functions",
    "handle_of",
    "kind_of",
    "new",
    "new_holding",
    "pointers",
    "tensor_at",
    "word",
]

_VOID: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int64


class Functions(NamedTuple):
    """The functions on objects."""

    retain: Callable[[int], None]
    release: Callable[[int], None]
    release_unshared: Callable[[int], int]
    new: Callable[[int, int, int], int | None]
    tensor_lend: Callable[..., int | None]


_PROTOTYPES: Final[dict[str, Any]] = {
    "retain": ctypes.CFUNCTYPE(None, _VOID),
    "release": ctypes.CFUNCTYPE(None, _VOID),
    "release_unshared": ctypes.CFUNCTYPE(ctypes.c_int32, _VOID),
    "new": ctypes.CFUNCTYPE(_VOID, _INT, ctypes.c_int32, ctypes.c_int32),
    "tensor_lend": ctypes.CFUNCTYPE(_VOID, _INT, _VOID, _VOID, ctypes.c_int32, _VOID, _INT),
}
_connected: Final[list[Functions]] = []


def connect(symbols: Mapping[str, int]) -> None:
    """Set the addresses of the functions on objects; once is enough."""
    if not _connected:
        made = {name: t(symbols[f"loomir_{name}"]) for name, t in _PROTOTYPES.items()}
        _connected.append(Functions(**made))


def functions() -> Functions:
    """Return the functions on objects."""
    if not _connected:
        raise InternalError("the functions on objects are not connected")
    return _connected[0]


# -- reading -----------------------------------------------------------------------------------
def word(address: int, offset: int) -> int:
    """Read a field of 64 bits, signed."""
    return _INT.from_address(address + offset).value


def kind_of(address: int) -> int:
    """Read an object's kind."""
    return ctypes.c_int32.from_address(address + at.KIND).value


def flags_of(address: int) -> int:
    """Read an object's flags."""
    return ctypes.c_int32.from_address(address + at.FLAGS).value


def pointers(address: int, count: int) -> tuple[int, ...]:
    """Read adjacent words."""
    return struct.unpack(f"={count}q", ctypes.string_at(address, 8 * count)) if count else ()


def extents_of(address: int) -> tuple[int, ...]:
    """Read the extents of a tensor."""
    tensor = address + at.TENSOR_DLTENSOR
    rank = ctypes.c_int32.from_address(tensor + dl.DLTENSOR_NDIM).value
    return pointers(word(tensor, dl.DLTENSOR_SHAPE), rank)


class Tensor(NamedTuple):
    """What Python needs to know of a tensor."""

    references: int
    flags: int
    data: int
    dtype: int
    extents: tuple[int, ...]
    owner: int


_TENSOR: Final = struct.Struct("=qii QQ iI QQQ Q".replace(" ", ""))


def tensor_at(address: int) -> Tensor:
    """Read a tensor, all at once."""
    raw = ctypes.string_at(address, _TENSOR.size)
    count, _, flags, data, _, rank, dtype, shape, _, offset, owner = _TENSOR.unpack(raw)
    return Tensor(count, flags, data + offset, dtype, pointers(shape, rank), owner)


# -- making ------------------------------------------------------------------------------------
def new(kind: int, content: bytes, flags: int = 0) -> int:
    """Make an object with the given contents after its header; the caller owns the reference.

    Errors: MemoryError.
    """
    made = functions().new(at.HEADER_SIZE + len(content), kind, flags)
    if not made:
        raise MemoryError
    ctypes.memmove(made + at.HEADER_SIZE, content, len(content))
    return made


def new_holding(kind: int, head: Sequence[int], items: Sequence[int], flags: int = 0) -> int:
    """Make an object of words and items, and consume the references to the items."""
    numbers = [*head, *items]
    return new(kind, struct.pack(f"={len(numbers)}q", *numbers), flags)


_kept: Final[dict[int, object]] = {}
"""The objects that references keep alive, hidden from Python's cycle collector."""


class Reference:
    """An owned reference to an object, released when this is deleted.

    ``keep`` stays alive as long: the code with the constants that are part of the object.
    """

    __slots__ = ("__weakref__", "_release", "address")

    def __init__(self, address: int, keep: object) -> None:
        self.address = address
        self._release = functions().release
        _kept[id(self)] = keep

    def __del__(self) -> None:
        self._release(self.address)
        _kept.pop(id(self), None)


# -- Python objects ----------------------------------------------------------------------------
_handles: Final[dict[int, object]] = {}
_numbers: Final = itertools.count(1)
_lock: Final = ForkSafeLock()


def _forget(handle: int) -> None:
    _handles.pop(handle, None)


_forget_code: Final = ctypes.CFUNCTYPE(None, _INT)(_forget)
_forget_address: Final = ctypes.cast(_forget_code, ctypes.c_void_p).value or 0


def foreign(value: object) -> int:
    """Make an object that keeps a Python object alive until it is freed."""
    handle = next(_numbers)
    _handles[handle] = value
    try:
        return new(at.FOREIGN, struct.pack("=qq", handle, _forget_address))
    except MemoryError:
        _forget(handle)
        raise


def handle_of(address: int) -> object:
    """Return the Python object that an object keeps alive."""
    return _handles[word(address, at.HANDLE)]
