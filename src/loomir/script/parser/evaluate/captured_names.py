"""Values around a decorated function, which are read but never run.

Numbers, strings, dtypes, tuples, lists and dicts of them, variables and buffers become values of
the program; attributes of other objects are looked up without calling anything.
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from loomir.ir.node import Node
from loomir.script.builder.arguments import add_describer
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.mistakes import mistake
from loomir.script.parser.evaluate.namespaces import Macro, is_exported, namespace_of, operator_of
from loomir.support.diagnostics import with_article
from loomir.support.dtype import DataType, dtype_of_numpy

__all__ = [
    "MISSING",
    "CapturedNames",
    "ForeignValue",
    "attribute_of",
    "items_of",
    "literal",
    "static",
]

MAX_LITERAL_BITS: Final = 10_000


class MissingMarker:
    """No value."""


MISSING: Final = MissingMarker()


class ForeignValue:
    """A value of Python's that is not a value of a program; its attributes may be."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    @property
    def kind(self) -> str:
        """Name the kind for an error message."""
        value = self.value
        if isinstance(value, types.ModuleType):
            return f"the module {value.__name__}"
        if isinstance(value, type):
            return f"the class {value.__name__}"
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            return f"the Python function {value.__name__}"
        cls = type(value)
        is_tensor = cls.__module__ == "torch"
        return with_article(f"torch.{cls.__name__}" if is_tensor else cls.__name__)


add_describer(lambda value: value.kind if isinstance(value, ForeignValue) else None)


class CapturedNames:
    """Names from around a program, looked up in the given order."""

    def __init__(self, *scopes: Mapping[str, object]) -> None:
        self.scopes = scopes

    def get(self, name: str) -> object:
        """Find a value, or MISSING."""
        for scope in self.scopes:
            found = scope.get(name, MISSING)
            if found is not MISSING and type(found) is not TypeVar:  # that only names an extent
                return static(found)
        return MISSING

    def names(self) -> list[str]:
        """List the names, for guesses."""
        return [name for scope in self.scopes for name in scope if not name.startswith("__")]


def _identity(value: Any) -> object:
    return value


def literal(value: int) -> int:
    """Refuse a number that Python could not print again.

    Errors: SCR0020.
    """
    if value.bit_length() > MAX_LITERAL_BITS:
        help_ = f"stay below {MAX_LITERAL_BITS} bits"
        raise mistake("SCR0020", "the number is too large", help=help_)
    return value


# By exact type first: nothing of the value's own class is called.
_PLAIN: Final[dict[type, Callable[[Any], object]]] = {
    bool: _identity,
    int: literal,
    float: _identity,
    str: _identity,
    type(None): _identity,
    DataType: _identity,
    range: _identity,
    tuple: lambda v: tuple([static(item) for item in v]),
    list: lambda v: [static(item) for item in v],
    dict: lambda v: {static(key): static(item) for key, item in v.items()},
}


def static(value: object) -> object:
    """Return the value as the parser sees it."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain(value)
    if isinstance(value, (Node, DTypeFunction, BufferSpec, Macro)) or is_exported(value):
        return value
    operator = operator_of(value)
    if operator is not None:
        return operator
    special = namespace_of(value)
    if special is not None:
        return special
    numpy: Any = sys.modules.get("numpy")  # where it is not loaded, nothing is of it
    if numpy is not None and isinstance(value, numpy.generic):
        return _number(value)
    for base, convert in _SUBCLASSES:
        if isinstance(value, base):
            return convert(value)
    if numpy is not None and isinstance(value, numpy.dtype):
        return dtype_of_numpy(cast("Any", value)) or ForeignValue(value)
    return ForeignValue(value)


def _number(value: Any) -> object:
    """Return the number in a scalar of NumPy's."""
    item: object = value.item()
    return item if isinstance(item, (bool, int, float)) else ForeignValue(value)


# Values of derived classes lose what the class adds.
_SUBCLASSES: Final[tuple[tuple[type[Any], Callable[[Any], object]], ...]] = (
    (int, lambda v: literal(int.__int__(v))),
    (float, float.__float__),
    (str, str.__str__),
)


class _Sample(NamedTuple):
    field: int


_FIELD: Final = cast("type[Any]", type(inspect.getattr_static(_Sample, "field")))


def items_of(value: tuple[object, ...]) -> tuple[object, ...]:
    """List what a named tuple holds, whatever its class does about that."""
    base: Any = tuple
    return tuple([static(item) for item in base.__iter__(value)])


def attribute_of(value: object, name: str) -> object:
    """Look up an attribute without running code of the object's class, or give MISSING."""
    if isinstance(value, enum.Enum) and name in ("value", "name"):
        return static(inspect.getattr_static(value, f"_{name}_", MISSING))
    found = inspect.getattr_static(value, name, MISSING)
    if found is MISSING:
        return MISSING
    if isinstance(found, (types.MemberDescriptorType, _FIELD)):  # a slot, a named tuple's field
        reader = cast("types.MemberDescriptorType", found)
        return static(reader.__get__(value, type(value)))
    if isinstance(found, (property, types.GetSetDescriptorType)):
        return MISSING
    return static(found)
