"""Types of LLVM IR.

Equal types are one object, so types are compared with ``is``. Queries on a vector type
(``is_int``, ``bits``, ``element``) answer for its elements; a scalar is its own element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from loomir.codegen.llvm.assembler.names import global_name
from loomir.support.diagnostics import InternalError
from loomir.support.fork_safe import ForkSafeLock

__all__ = [
    "AMX",
    "BFLOAT",
    "BOOL",
    "DOUBLE",
    "FLOAT",
    "HALF",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "I128",
    "PTR",
    "VOID",
    "Type",
    "array",
    "function",
    "integer",
    "name_struct",
    "struct",
    "vector",
]

_TILE: Final = 1024
"""Bytes of the largest register: an AMX tile."""

Kind = Literal["int", "float", "ptr", "void", "tile", "vector", "array", "struct", "function"]


class Type:
    """One LLVM type; make it with the functions and constants of this module.

    - ``text`` is how IR writes it, ``code`` how names of intrinsics write it (``v4f32``).
    - ``bits`` is the width of one element; 0 for void, arrays, structs and functions.
    - ``lanes`` is 1 for everything but vectors; ``count`` is the length of an array.
    - ``element`` is what a vector or an array holds, and the type itself otherwise.
    - ``mask`` is ``i1`` with as many lanes, the type of a comparison.
    - ``align`` is the alignment of one element in bytes, which any pointer to it has.
    """

    __slots__ = (
        "_vectors",
        "align",
        "bits",
        "code",
        "count",
        "element",
        "fields",
        "is_float",
        "is_int",
        "is_ptr",
        "kind",
        "lanes",
        "mask",
        "result",
        "text",
        "varargs",
    )

    text: str
    code: str
    kind: Kind
    bits: int
    lanes: int
    count: int
    align: int
    is_int: bool
    is_float: bool
    is_ptr: bool
    varargs: bool
    element: Type
    mask: Type
    result: Type
    fields: tuple[Type, ...]
    _vectors: dict[int, Type]

    def __init__(self, text: str, kind: Kind, *, code: str = "", bits: int = 0) -> None:
        self.text = text
        self.code = code
        self.kind = kind
        self.bits = bits
        self.lanes = 1
        self.count = 0
        self.align = max(1, bits // 8)
        self.is_int = kind == "int"
        self.is_float = kind == "float"
        self.is_ptr = kind == "ptr"
        self.varargs = False
        self.element = self.mask = self.result = self
        self.fields = ()
        self._vectors = {}

    def with_lanes(self, lanes: int) -> Type:
        """Return the vector of ``lanes`` such elements, or the element itself for one lane."""
        if lanes == self.lanes:
            return self
        element = self.element if self.kind == "vector" else self
        return element if lanes == 1 else vector(element, lanes)

    @property
    def is_first_class(self) -> bool:
        """Whether values can have this type."""
        return self.kind != "void" and self.kind != "function"

    @property
    def store_size(self) -> int:
        """The bytes that a value takes in memory, without padding at its end.

        Errors: InternalError for void, functions and structs.
        """
        if self.kind == "array":
            return self.count * self.element.store_size
        if not self.bits:
            raise InternalError(f"the size of {self.text} is the data layout's to say")
        return (self.bits * self.lanes + 7) // 8

    @property
    def room(self) -> int:
        """The most bytes that a value takes in memory, padding included."""
        if self.kind == "struct":
            return sum((field.room + 7) // 8 * 8 for field in self.fields)
        if self.kind == "array":
            return self.count * self.element.room
        return _TILE if self.kind == "tile" else self.lanes * max(self.bits, 8) // 8

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<type {self.text}>"


_lock: Final = ForkSafeLock()
_interned: Final[dict[str, Type]] = {}


def _intern(made: Type) -> Type:
    return _interned.setdefault(made.text, made)


def _scalar(text: str, kind: Kind, code: str, bits: int) -> Type:
    return _intern(Type(text, kind, code=code, bits=bits))


VOID: Final = _scalar("void", "void", "isVoid", 0)
I1: Final = _scalar("i1", "int", "i1", 1)
I8: Final = _scalar("i8", "int", "i8", 8)
I16: Final = _scalar("i16", "int", "i16", 16)
I32: Final = _scalar("i32", "int", "i32", 32)
I64: Final = _scalar("i64", "int", "i64", 64)
I128: Final = _scalar("i128", "int", "i128", 128)
HALF: Final = _scalar("half", "float", "f16", 16)
BFLOAT: Final = _scalar("bfloat", "float", "bf16", 16)
FLOAT: Final = _scalar("float", "float", "f32", 32)
DOUBLE: Final = _scalar("double", "float", "f64", 64)
PTR: Final = _scalar("ptr", "ptr", "p0", 64)
AMX: Final = _scalar("x86_amx", "tile", "x86amx", 0)
BOOL: Final = I1

for _type in (I1, I8, I16, I32, I64, I128, HALF, BFLOAT, FLOAT, DOUBLE, PTR):
    _type.mask = I1

_INTEGERS: Final = {t.bits: t for t in (I1, I8, I16, I32, I64, I128)}


def integer(bits: int) -> Type:
    """Return the integer type of that width.

    Errors: InternalError for a width other than 1, 8, 16, 32, 64 and 128.
    """
    found = _INTEGERS.get(bits)
    if found is None:
        raise InternalError(f"no integer type of {bits} bits is used")
    return found


def vector(element: Type, lanes: int) -> Type:
    """Return the fixed vector of ``lanes`` elements; one lane stays a vector, ``<1 x T>``.

    Errors: InternalError unless ``element`` is an integer, a float or a pointer.
    """
    found = element._vectors.get(lanes)  # pyright: ignore[reportPrivateUsage]
    if found is not None:
        return found
    if element.kind not in ("int", "float", "ptr") or lanes < 1:
        raise InternalError(f"no vector of {lanes} x {element.text} exists")
    made = Type(
        f"<{lanes} x {element.text}>", "vector", code=f"v{lanes}{element.code}", bits=element.bits
    )
    made.lanes = lanes
    made.element = element
    made.align = element.align
    made.is_int, made.is_float, made.is_ptr = element.is_int, element.is_float, element.is_ptr
    made.mask = made if element is I1 else vector(I1, lanes)
    with _lock:
        return element._vectors.setdefault(lanes, _intern(made))  # pyright: ignore[reportPrivateUsage]


def array(element: Type, count: int) -> Type:
    """Return the array of ``count`` elements."""
    if not element.is_first_class or count < 0:
        raise InternalError(f"no array of {count} x {element.text} exists")
    made = Type(f"[{count} x {element.text}]", "array")
    made.element = element
    made.count = count
    made.align = element.align
    return _intern(made)


def struct(fields: Sequence[Type]) -> Type:
    """Return the literal struct of these fields, laid out as in C."""
    _check_fields(fields)
    made = Type("{ " + ", ".join(f.text for f in fields) + " }" if fields else "{}", "struct")
    made.fields = tuple(fields)
    made.align = max((f.align for f in fields), default=1)
    return _intern(made)


def name_struct(name: str, fields: Sequence[Type]) -> Type:
    """Return a named struct; ``Module.struct`` makes its name unique."""
    _check_fields(fields)
    made = Type(global_name(name, "%"), "struct")
    made.fields = tuple(fields)
    made.align = max((f.align for f in fields), default=1)
    return made


def function(result: Type, params: Sequence[Type], *, varargs: bool = False) -> Type:
    """Return the type of a function; its ``fields`` are the types of the parameters."""
    _check_fields(params)
    if result.kind == "function":
        raise InternalError("a function cannot return a function")
    listed = [p.text for p in params] + (["..."] if varargs else [])
    made = Type(f"{result.text} ({', '.join(listed)})", "function")
    made.result = result
    made.fields = tuple(params)
    made.varargs = varargs
    return _intern(made)


def _check_fields(fields: Sequence[Type]) -> None:
    for field in fields:
        if not field.is_first_class:
            raise InternalError(f"no value has type {field.text}")
