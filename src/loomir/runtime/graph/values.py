"""Convert graph values between Python and native code.

A tensor is an array whose memory both sides share: memory from Python is borrowed for the time of a
call, memory from native code is freed with the array. A tuple is a tuple, a shape a ``Shape``, a
scalar a NumPy scalar (or a Python number, as an argument), a string a ``str``, a dtype a
``DataType``, null None. Anything else is an object that is only passed through.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from loomir.runtime.arguments import adapt, diagnose
from loomir.runtime.dlpack import Array, is_array, plain_array, tensor_of_array
from loomir.runtime.errors import RunMemoryError, RunOverflowError, not_row_major
from loomir.runtime.graph import object_layout as at
from loomir.runtime.graph.objects import (
    Reference,
    Tensor,
    flags_of,
    foreign,
    functions,
    handle_of,
    kind_of,
    new,
    new_holding,
    pointers,
    word,
)
from loomir.runtime.parameter import Parameter
from loomir.runtime.shape import Shape
from loomir.runtime.torch_tensor import is_torch_tensor
from loomir.runtime.view import Lender, array_at, view_arguments
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import DataType, TypeCode, dtype_of_numpy, numpy_of
from loomir.support.uncompiled_call import is_callable

__all__ = [
    "ArgumentConverter",
    "ExpectedDTypes",
    "array_of",
    "origin_of",
    "python_of",
    "reference_to",
    "retype",
    "scalar_of",
    "to_torch",
]

ExpectedDTypes: TypeAlias = "DataType | tuple[ExpectedDTypes, ...] | None"
"""The dtype that a scalar must have, or those of a tuple's fields; None if any will do."""

_FLOAT32: Final = DataType("float32")
_LENT: Final = ctypes.c_int64


# -- dtypes ------------------------------------------------------------------------------------
def _word_of(dtype: DataType) -> int:
    return int(dtype.code) | (8 if dtype.is_bool else dtype.bits) << 8 | 1 << 16


_words: Final[dict[Any, int | None]] = {}
_dtypes: Final[dict[int, DataType]] = {}


def _dtype_word(dtype: Any) -> int | None:
    """Return the word of a NumPy dtype, None for one that programs do not have."""
    if dtype not in _words:
        found = dtype_of_numpy(dtype)
        _words[dtype] = None if found is None else _word_of(found)
    return _words[dtype]


def dtype_at(number: int) -> DataType:
    """Return the dtype of a word."""
    found = _dtypes.get(number)
    if found is None:
        code, bits = TypeCode(number & 0xFF), number >> 8 & 0xFF
        found = DataType(code, 1 if code is TypeCode.BOOL else bits)
        _dtypes[number] = found
    return found


# -- to Python ---------------------------------------------------------------------------------
def array_of(tensor: Tensor, owner: object) -> Array:
    """Make an array of a tensor's memory, which ``owner`` keeps alive."""
    made = array_at(Lender(owner), tensor.data, dtype_at(tensor.dtype), tensor.extents)
    if tensor.flags & at.READ_ONLY:
        made.setflags(write=False)
    return made


def origin_of(tensor: Tensor) -> Array | None:
    """Return the Python array that a tensor was made from, if any."""
    if not tensor.owner or kind_of(tensor.owner) != at.FOREIGN:
        return None
    found: Any = handle_of(tensor.owner)
    if not is_array(found) or found.__array_interface__["data"][0] != tensor.data:
        return None
    return found if found.shape == tensor.extents else None


def scalar_of(address: int) -> Any:
    """Return a scalar as a NumPy scalar."""
    dtype = numpy_of(dtype_at(word(address, at.DTYPE_WORD)))
    raw = ctypes.string_at(address + at.PRIM_VALUE, np.dtype(dtype).itemsize)
    return np.frombuffer(raw, dtype)[0]


def to_torch(array: Any) -> object:
    """Return an array as a tensor of PyTorch, which has been imported."""
    torch: Any = sys.modules["torch"]
    writable: Any = array if array.flags.writeable else array.copy()
    return torch.from_dlpack(tensor_of_array(writable))


_PLAIN: Final[dict[int, Callable[[int], Any]]] = {
    at.SHAPE: lambda a: Shape(pointers(a + at.ITEMS, word(a, at.LENGTH))),
    at.PRIM: lambda a: scalar_of(a).item() if flags_of(a) & at.UNTYPED else scalar_of(a),
    at.STRING: lambda a: ctypes.string_at(a + at.ITEMS, word(a, at.LENGTH)).decode(
        "utf-8", "surrogatepass"
    ),
    at.DTYPE: lambda a: dtype_at(word(a, at.DTYPE_WORD)),
    at.NULL_OBJECT: lambda a: None,
    at.FOREIGN: handle_of,
}


def python_of(address: int, leaf: Callable[[int, int], Any]) -> Any:
    """Convert an object to a Python value; ``leaf`` converts tensors and functions."""
    kind = kind_of(address)
    if kind != at.TUPLE:
        plain = _PLAIN.get(kind)
        return leaf(kind, address) if plain is None else plain(address)
    stack: list[tuple[Iterator[int], list[Any]]] = [(_items(address), [])]
    while True:
        items, made = stack[-1]
        for item in items:
            if kind_of(item) == at.TUPLE:
                stack.append((_items(item), []))
                break
            made.append(python_of(item, leaf))
        else:
            stack.pop()
            value = tuple(made)
            if not stack:
                return value
            stack[-1][1].append(value)


def _items(address: int) -> Iterator[int]:
    return iter(pointers(address + at.ITEMS, word(address, at.LENGTH)))


# -- from Python -------------------------------------------------------------------------------
class ArgumentConverter:
    """Converts Python values to objects.

    ``lend``: arrays stay alive until ``settle`` is called, so that tensors need not keep them;
    otherwise each tensor keeps its array alive. ``function`` makes an object of a callable.
    """

    __slots__ = ("_function", "_lend", "lent", "torch")

    def __init__(self, function: Callable[[Any], int], *, lend: bool) -> None:
        self._function = function
        self._lend = lend
        self.lent: dict[int, tuple[Array, object]] = {}
        """The lent arrays by address, each with the argument that it was made from."""
        self.torch = False

    def object_of(self, value: Any, name: str, wanted: ExpectedDTypes = None) -> int:
        """Convert a value to an object, an owned reference.

        Errors: RUN0006, RUN0009, RUN0105 to RUN0111, RUN0207.
        """
        try:
            return self._leaf(value, name, wanted)
        except MemoryError:
            raise RunMemoryError(
                Diagnostic("RUN0207", f"there is no memory for {name}", help="free memory")
            ) from None

    def _tuple(self, value: Any, name: str, wanted: ExpectedDTypes) -> int:
        made: list[list[int]] = [[]]
        stack = [_walk(value, name, wanted)]
        try:
            while True:
                for item, place, kind in stack[-1]:
                    if isinstance(item, tuple) and not isinstance(item, Shape):
                        stack.append(_walk(cast("tuple[Any, ...]", item), place, kind))
                        made.append([])
                        break
                    one = self._leaf(item, str(place), kind)
                    made[-1].append(one)
                    if one in self.lent:
                        # The tuple may live longer than the call, or shorter.
                        functions().retain(one)
                else:
                    stack.pop()
                    items = made[-1]
                    one = new_holding(at.TUPLE, [len(items)], items)
                    made.pop()
                    if not stack:
                        return one
                    made[-1].append(one)
        except BaseException:
            for listed in made:
                for one in listed:
                    functions().release(one)
            raise

    def _leaf(self, value: Any, name: str, wanted: ExpectedDTypes) -> int:
        if value.__class__ is np.ndarray:
            return self._tensor(value, value, name)
        if isinstance(value, np.generic):
            return self._numpy_scalar(value)
        if isinstance(value, (bool, int, float)):
            kind = wanted if isinstance(wanted, DataType) else None
            return _number(value, f"argument {name}", kind)
        if isinstance(value, Shape):
            return self._shape(value, name)
        if isinstance(value, tuple):
            return self._tuple(value, name, wanted)
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            return new(at.STRING, struct.pack("=q", len(data)) + data + b"\0")
        if isinstance(value, DataType):
            if value.lanes == 1 and not value.is_handle and not value.is_void:
                return new(at.DTYPE, struct.pack("=q", _word_of(value)))
            return foreign(value)
        if value is None:
            return new(at.NULL_OBJECT, b"")
        if is_array(value) or hasattr(value.__class__, "__dlpack__"):
            return self._import_dlpack(value, name)
        if is_callable(value):
            return self._function(value)
        return foreign(value)

    def _shape(self, value: Shape, name: str) -> int:
        try:
            return new(at.SHAPE, struct.pack(f"={len(value) + 1}q", len(value), *value))
        except struct.error:
            largest = max(value, key=abs)
            raise _too_large(f"argument {name}", largest, DataType("int64")) from None

    def _numpy_scalar(self, value: Any) -> int:
        number = _dtype_word(value.dtype)
        if number is None:
            return foreign(value)
        return new(at.PRIM, struct.pack("=q", number) + _extend(value))

    # -- tensors ---------------------------------------------------------------------------------
    def _import_dlpack(self, value: Any, name: str) -> int:
        """Import an array of another class, or of another library."""
        self.torch |= is_torch_tensor(value)
        parameter = Parameter(name, _FLOAT32, True)
        (adapted,) = adapt((parameter,), (value,))
        diagnose((parameter,), (value,))
        (viewed,) = view_arguments((parameter,), (value,), (adapted,))
        return self._tensor(plain_array(viewed), value, name)

    def _tensor(self, array: Any, origin: object, name: str) -> int:
        number = _dtype_word(array.dtype)
        if number is None:
            if not self._lend:
                return foreign(origin)
            # Raises an error that says what is wrong.
            adapt((Parameter(name, _FLOAT32, True),), (array,))
        flags = array.flags
        if not flags.c_contiguous:
            if self._lend:
                raise not_row_major(name, array, is_torch_tensor(origin))
            copied: Any = np.ascontiguousarray(array)
            array = copied.reshape(array.shape)
            flags = array.flags
        shape = array.shape
        rank = len(shape)
        owner = 0 if self._lend else foreign(array)
        made = functions().tensor_lend(
            rank | (number or 0) << 32,
            (_LENT * (rank or 1))(*shape),
            array.__array_interface__["data"][0],
            0 if flags.writeable else at.READ_ONLY,
            owner,
            array.nbytes,
        )
        if owner:
            functions().release(owner)
        if not made:
            raise MemoryError
        if self._lend:
            self.lent[made] = array, origin
        return made

    def settle(self, objects: Sequence[int]) -> None:
        """Release the objects of the arguments of a call that has ended.

        A tensor that something else still refers to keeps its array alive from now on.
        """
        release, unshared = functions().release, functions().release_unshared
        for made in objects:
            if made not in self.lent:
                release(made)
        for address, (array, _) in self.lent.items():
            if unshared(address):
                owner = ctypes.c_int64.from_address(address + at.TENSOR_OWNER)
                owner.value = foreign(array)
                release(address)


class _ItemPath:
    """The path of an item in nested tuples; its text is built on demand."""

    __slots__ = ("index", "whole")

    def __init__(self, whole: str | _ItemPath, index: int) -> None:
        self.whole = whole
        self.index = index

    def __str__(self) -> str:
        indices: list[str] = []
        at: str | _ItemPath = self
        while isinstance(at, _ItemPath):
            indices.append(f"[{at.index}]")
            at = at.whole
        return at + "".join(reversed(indices))


def _walk(
    value: tuple[Any, ...], name: str | _ItemPath, wanted: ExpectedDTypes
) -> Iterator[tuple[Any, _ItemPath, ExpectedDTypes]]:
    kinds = wanted if isinstance(wanted, tuple) and len(wanted) == len(value) else None
    for index, item in enumerate(value):
        yield item, _ItemPath(name, index), None if kinds is None else kinds[index]


# -- scalars -----------------------------------------------------------------------------------
def _extend(value: Any) -> bytes:
    """Return a NumPy scalar as 64 bits: integers extended, floats in the lowest bits."""
    kind = value.dtype.kind
    if kind in "iu":
        return struct.pack("=Q", int(value) % 2**64)
    return value.tobytes().ljust(8, b"\0")


def _number(value: bool | int | float, name: str, wanted: DataType | None) -> int:
    """Make a scalar of a Python number, in the wanted dtype if that is of the same kind."""
    dtype = DataType("float64")
    if isinstance(value, bool):
        dtype = DataType("bool")
    elif isinstance(value, int):
        dtype = DataType("int64")
    flags = at.UNTYPED
    if wanted is not None and _is_like(dtype, wanted):
        dtype, flags = wanted, 0
    if dtype.is_float:
        number = numpy_of(dtype).type(_float(value))
        return new(at.PRIM, struct.pack("=q", _word_of(dtype)) + _extend(number), flags)
    if not dtype.min_value <= value <= dtype.max_value:
        raise _too_large(name, int(value), dtype)
    return new(at.PRIM, struct.pack("=qQ", _word_of(dtype), int(value) % 2**64), flags)


def retype(address: int, wanted: DataType, name: str) -> bool:
    """Change the dtype of a scalar from a Python number; tell whether that is possible.

    Errors: RUN0009 for a number that does not fit.
    """
    dtype = dtype_at(word(address, at.DTYPE_WORD))
    if not _is_like(dtype, wanted):
        return False
    made = _number(scalar_of(address).item(), name, wanted)
    start = at.DTYPE_WORD
    ctypes.memmove(address + start, made + start, at.PRIM_VALUE + 8 - start)
    functions().release(made)
    ctypes.c_int32.from_address(address + at.FLAGS).value = 0
    return True


def _is_like(dtype: DataType, wanted: DataType) -> bool:
    """Tell whether a Python number of one dtype may become one of another."""
    if dtype.is_bool or wanted.is_bool:
        return dtype is wanted
    return wanted.is_float or (dtype.is_int and wanted.is_integer)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _too_large(name: str, value: int, dtype: DataType) -> RunOverflowError:
    digits = str(value) if abs(value) < 10**40 else f"an integer of {value.bit_length()} bits"
    return RunOverflowError(
        Diagnostic(
            "RUN0009",
            f"{name} is {digits}, which does not fit {dtype}",
            help=f"pass a number from {dtype.min_value} to {dtype.max_value}",
        )
    )


def reference_to(address: int, keep: object) -> Reference:
    """Take a reference to an object; ``keep`` is the program that it comes from."""
    functions().retain(address)
    return Reference(address, keep)
