"""Scalar and vector dtypes.

- ``code`` and ``bits`` describe one element, ``lanes`` is the number of elements in a value.
- Bool is a dtype of its own, written ``bool`` (``uint1`` is read as the same), one byte in memory.
- A handle has one lane and 64 bits; ``void`` is the handle of 0 bits.
- A dtype outside of the language (``int7``, 5 lanes) is refused, never truncated.
"""

from __future__ import annotations

import enum
import functools
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, cast

from loomir.support.caller_span import user_span
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.fork_safe import import_module
from loomir.support.runtime_types import show_value

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BOOL",
    "HANDLE",
    "LANES",
    "VOID",
    "DataType",
    "TypeCode",
    "dtype_elsewhere",
    "dtype_of_numpy",
    "dtype_text",
    "numpy_of",
    "refuse_dtype",
    "to_dtype",
]


class TypeCode(enum.IntEnum):
    """Kinds of elements; the numbers are DLPack's type codes."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
    BOOL = 6


LANES: Final = (1, 2, 3, 4, 8, 16, 32, 64)

_BITS: Final[dict[TypeCode, tuple[int, ...]]] = {
    TypeCode.INT: (8, 16, 32, 64),
    TypeCode.UINT: (8, 16, 32, 64),
    TypeCode.FLOAT: (16, 32, 64),
    TypeCode.BFLOAT: (16,),
    TypeCode.BOOL: (1,),
    TypeCode.HANDLE: (0, 64),
}
_NAMES: Final = {
    TypeCode.INT: "int",
    TypeCode.UINT: "uint",
    TypeCode.FLOAT: "float",
    TypeCode.BFLOAT: "bfloat",
    TypeCode.BOOL: "bool",
    TypeCode.HANDLE: "handle",
}
_PATTERN: Final = re.compile(r"(int|uint|float|bfloat|bool|handle)(\d+)?(?:x(\d+))?")


class DataType:
    """A kind of element, its width in bits, and the number of lanes; equal dtypes are identical.

    Errors: TIR0001 for a name, width or lane count outside the language.
    """

    __slots__ = (
        "_hash",
        "_text",
        "bits",
        "code",
        "is_bool",
        "is_float",
        "is_handle",
        "is_int",
        "is_integer",
        "is_uint",
        "is_void",
        "lanes",
        "max_value",
        "min_value",
    )

    in_words: ClassVar = "a dtype"
    written_as: ClassVar = (str,)

    code: TypeCode
    bits: int
    lanes: int
    is_bool: bool
    """Whether the elements are truth values."""
    is_int: bool
    """Whether the elements are signed integers."""
    is_uint: bool
    """Whether the elements are unsigned integers; Bool is one (TIR-DT-06)."""
    is_integer: bool
    """Whether the elements are signed or unsigned integers, Bool excluded."""
    is_float: bool
    """Whether the elements are floats, bfloat16 included."""
    is_handle: bool
    """Whether this is a pointer; void is not."""
    is_void: bool
    """Whether this is the type of no value."""
    min_value: int
    """The smallest integer of this integer dtype."""
    max_value: int
    """The largest integer of this integer dtype."""
    _hash: int
    _text: str

    _interned: dict[tuple[TypeCode, int, int], DataType] = {}
    _by_text: dict[str, DataType] = {}

    def __new__(cls, code: TypeCode | str, bits: int | None = None, lanes: int = 1) -> DataType:
        """Find or make the dtype; a single string is parsed."""
        if isinstance(code, str):
            return cls.parse(code)
        if code is TypeCode.UINT and bits == 1:
            code = TypeCode.BOOL
        width = _BITS[code][-1] if bits is None else bits
        key = (code, width, lanes)
        found = cls._interned.get(key)
        if found is not None:
            return found
        _check(code, width, lanes)
        self = object.__new__(cls)
        self.code, self.bits, self.lanes = key
        self._text = _text(code, width, lanes)
        self._hash = hash(self._text)
        self._answer()
        return cls._interned.setdefault(key, self)

    def _answer(self) -> None:
        """Precompute the properties that a compilation reads millions of times."""
        code, bits = self.code, self.bits
        self.is_bool = code is TypeCode.BOOL
        self.is_int = code is TypeCode.INT
        self.is_uint = code in (TypeCode.UINT, TypeCode.BOOL)
        self.is_integer = code in (TypeCode.INT, TypeCode.UINT)
        self.is_float = code in (TypeCode.FLOAT, TypeCode.BFLOAT)
        self.is_handle = code is TypeCode.HANDLE and bits != 0
        self.is_void = code is TypeCode.HANDLE and bits == 0
        self.min_value = -(1 << (bits - 1)) if self.is_int else 0
        self.max_value = (1 << (bits - 1)) - 1 if self.is_int else (1 << bits) - 1

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Read a dtype such as ``int32``, ``float16x4``, ``bool`` or ``handle``."""
        found = cls._by_text.get(text)
        if found is not None:
            return found
        if text == "void":
            made = cls(TypeCode.HANDLE, 0)
        else:
            hit = _PATTERN.fullmatch(text)
            if hit is None:
                raise _unknown(text)
            name, bits, lanes = hit.groups()
            code = next(c for c, n in _NAMES.items() if n == name)
            if bits is None and code in (TypeCode.INT, TypeCode.UINT, TypeCode.FLOAT):
                bits = "32"  # as in other languages
            if bits is None and code is TypeCode.BFLOAT:
                raise _unknown(text)
            if code is TypeCode.BOOL and bits is not None:
                raise _unknown(text)
            made = cls(code, int(bits) if bits is not None else None, int(lanes or 1))
        cls._by_text[text] = made
        return made

    # -- questions -----------------------------------------------------------------------------
    @property
    def is_scalar(self) -> bool:
        """Whether this is one number (not a vector, handle or void)."""
        return self.lanes == 1 and self.code is not TypeCode.HANDLE

    @property
    def is_vector(self) -> bool:
        """Whether this holds more than one lane."""
        return self.lanes > 1

    @property
    def is_bfloat(self) -> bool:
        """Whether the elements are bfloat16."""
        return self.code is TypeCode.BFLOAT

    @property
    def element(self) -> DataType:
        """The dtype of one lane."""
        return self if self.lanes == 1 else DataType(self.code, self.bits)

    def with_lanes(self, lanes: int) -> DataType:
        """Return the same element in ``lanes`` lanes."""
        if lanes == self.lanes:
            return self
        found = self._interned.get((self.code, self.bits, lanes))
        return DataType(self.code, self.bits, lanes) if found is None else found

    @property
    def itemsize(self) -> int:
        """Bytes that one value takes in memory, all lanes together."""
        return (self.bits + 7) // 8 * self.lanes

    @property
    def max_finite(self) -> float:
        """The largest finite value of this float dtype (T21 for bfloat16)."""
        return _MAX_FINITE[(self.code, self.bits)]

    # -- identity ------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and _reads_as(other, self))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"DataType({self._text!r})"

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return (DataType, (self._text,))


_MAX_FINITE: Final = {
    (TypeCode.FLOAT, 16): 65504.0,
    (TypeCode.FLOAT, 32): 3.4028234663852886e38,
    (TypeCode.FLOAT, 64): 1.7976931348623157e308,
    (TypeCode.BFLOAT, 16): 3.3895313892515355e38,
}


def _reads_as(text: str, dtype: DataType) -> bool:
    return text == str(dtype) or (text == "uint1" and dtype.is_bool and dtype.lanes == 1)


def _text(code: TypeCode, bits: int, lanes: int) -> str:
    if code is TypeCode.HANDLE:
        return "void" if bits == 0 else "handle"
    base = "bool" if code is TypeCode.BOOL else f"{_NAMES[code]}{bits}"
    return base if lanes == 1 else f"{base}x{lanes}"


_SHORT: Final = re.compile(r"(e\dm\d_)?float[468]_?(e\dm\d)?\w*")


def _unknown(text: str) -> CompileError:
    if _SHORT.fullmatch(text):
        return CompileError(
            Diagnostic(
                "TIR0001",
                f"{text!r} is not a dtype of Loomir: floats have 16, 32 or 64 bits",
                help='keep the bytes as "uint8" and convert them by T.reinterpret and shifts, '
                'or use "float16"',
            )
        )
    known = ["bool", "bfloat16", "float16", "float32", "float64", "handle", "void"]
    known += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    guess = nearest(text.split("x")[0], known)
    return CompileError(
        Diagnostic(
            "TIR0001",
            f"unknown dtype {text!r}",
            help=f"did you mean {guess!r}?" if guess else f"the dtypes are {', '.join(known)}",
        )
    )


def _check(code: TypeCode, bits: int, lanes: int) -> None:
    if bits not in _BITS[code]:
        widths = ", ".join(str(b) for b in _BITS[code])
        raise CompileError(
            Diagnostic(
                "TIR0001",
                f"no {_NAMES[code]} dtype has {bits} bits",
                help=f"{_NAMES[code]} comes in {widths} bits",
            )
        )
    if lanes not in LANES or (code is TypeCode.HANDLE and lanes != 1):
        allowed = "1" if code is TypeCode.HANDLE else ", ".join(str(n) for n in LANES)
        raise CompileError(
            Diagnostic(
                "TIR0001",
                f"no dtype has {lanes} lanes of {_NAMES[code]}{bits}",
                help=f"the lane counts are {allowed}",
            )
        )


BOOL: Final = DataType(TypeCode.BOOL, 1)
HANDLE: Final = DataType(TypeCode.HANDLE, 64)
VOID: Final = DataType(TypeCode.HANDLE, 0)


def to_dtype(value: DataType | str | None) -> DataType:
    """Return the dtype of a name; None is ``void``. Errors: TIR0001."""
    if value is None or isinstance(value, DataType):
        return value or VOID
    given = cast("object", value)
    return DataType(given) if isinstance(given, str) else refuse_dtype(given)


def refuse_dtype(value: object) -> NoReturn:
    """Refuse what is no dtype, and name the dtype that Python, NumPy or PyTorch mean by it."""
    meant = dtype_elsewhere(value)
    shown = show_value(value) if meant is None else getattr(value, "__name__", str(value))
    help_ = 'name one, as in "float32"' if meant is None else f'write "{meant}"'
    raise CompileError(
        Diagnostic("TIR0001", f"a dtype is named by a string, not {shown}", user_span(), help=help_)
    )


_OF_PYTHON: Final = {bool: "bool", int: "int32", float: "float32"}


def dtype_elsewhere(value: object) -> str | None:
    """Return the name of the dtype that a type or dtype of Python, NumPy or PyTorch stands for."""
    given: Any = value
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    if type(value) is type and value in _OF_PYTHON:
        return _OF_PYTHON[given]
    # Types of values are compared, which runs no code of theirs.
    homes = (numpy, sys.modules.get("ml_dtypes"))
    is_scalar = type(value) is type and issubclass(given, getattr(numpy, "generic", ()))
    is_scalar = is_scalar and any(getattr(m, given.__name__, None) is value for m in homes)
    if is_scalar or (numpy is not None and issubclass(type(value), numpy.dtype)):
        text = str(numpy.dtype(given))
    elif torch is not None and type(value) is torch.dtype:
        text = str(given).rpartition(".")[2]
    else:
        return None
    try:
        return str(DataType(text))
    except CompileError:
        return None


def dtype_text(dtype: object) -> str:
    """Write a dtype as a program names it, between quotes."""
    return f'"{dtype_elsewhere(dtype) or dtype}"'


@functools.cache
def _numpy_dtypes() -> dict[str, np.dtype[np.generic]]:
    """Return NumPy's dtypes by Loomir's names.

    NumPy is imported on first use: parsing and printing programs works without it.
    """
    numpy: Any = import_module("numpy")
    bfloat16: Any = import_module("ml_dtypes").bfloat16
    names = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    names += ["float16", "float32", "float64", "bool"]
    return {**{name: numpy.dtype(name) for name in names}, "bfloat16": numpy.dtype(bfloat16)}


@functools.cache
def _our_dtypes() -> dict[np.dtype[np.generic], DataType]:
    return {np_dtype: DataType(name) for name, np_dtype in _numpy_dtypes().items()}


def numpy_of(dtype: DataType) -> np.dtype[np.generic]:
    """Return the NumPy dtype of one lane; bfloat16 is ``ml_dtypes.bfloat16``."""
    return _numpy_dtypes()[str(dtype.element)]


def dtype_of_numpy(dtype: np.dtype[np.generic]) -> DataType | None:
    """Return the dtype of a NumPy array's elements, or None if the language has none."""
    return _our_dtypes().get(dtype)
