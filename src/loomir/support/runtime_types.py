"""Check values against declared types, and describe types in words."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Final, NamedTuple, TypeVar, cast

from loomir.support.diagnostics import with_article

__all__ = ["DeclaredType", "quote_name", "read_declared", "show_value"]

_WIDEST: Final = 64
"""Bits of the largest integer of a program, that of uint64."""
_ANYTHING: Final = "anything"
_SHORT: Final = 40
"""The most characters of a value that is shown itself, rather than by its type."""

_NAMED: Final[dict[Any, str]] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string",
    type(None): "None",
}
_MANY: Final = {
    "a tensor": "tensors",
    "an integer": "integers",
    "a number": "numbers",
    "a string": "strings",
    "an expression": "expressions",
    "a variable": "variables",
    "a statement": "statements",
    "a buffer": "buffers",
    "a value of a graph": "values of a graph",
    "structural information": "structural information",
}
_PART_OF: Final = {
    "an expression": ("an integer", "a number"),
    "an integer": ("a number",),
    "True or False": ("a number",),
}
"""Words that are omitted beside another one that includes them."""


class DeclaredType(NamedTuple):
    """A declared type: which values it accepts, and their description."""

    accepts: Callable[[Any], bool]
    words: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """The accepted values, in words."""
        return _join_words(self.words)


def read_declared(hint: Any, *, plain: bool = False) -> DeclaredType:
    """Read a type.

    A class may describe itself (``in_words``), and list plain values that constructors convert to
    it (``written_as``), which are accepted with ``plain``.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        origin, args = typing.Union, hint.__constraints__ or (hint.__bound__ or Any,)
    if origin in (typing.Union, types.UnionType):
        every = [read_declared(arg, plain=plain) for arg in args]
        told = tuple(word for kind in every for word in kind.words)
        return DeclaredType(partial(_is_any, every), told)
    if origin is typing.Literal:
        return DeclaredType(partial(_is_one, args), tuple(map(repr, args)))
    if origin is Sequence or (origin is tuple and args[1:] == (...,)):
        item = read_declared(args[0], plain=plain)
        return DeclaredType(partial(_is_list, item), (_list_of(item.wanted),))
    if origin is tuple:
        parts = [read_declared(arg, plain=plain) for arg in args]
        return DeclaredType(partial(_is_tuple, parts), (f"a tuple of {len(args)}",))
    if hint is bool:
        return DeclaredType(_is_truth, (_NAMED[bool],))
    if origin is Callable:
        return DeclaredType(callable, ("a function",))
    if origin is Mapping:
        parts = [read_declared(arg, plain=plain) for arg in args]
        key, value = (part.wanted for part in parts)
        values = "" if value == _ANYTHING else f" and each value {value}"
        return DeclaredType(
            partial(_is_mapping, parts), (f"a dictionary of which each key is {key}{values}",)
        )
    wanted = _CLASSES.get(hint, hint if origin is None else origin)
    if hint is Any or not isinstance(wanted, (type, tuple)):
        return DeclaredType(_is_anything, (_ANYTHING,))
    what = _NAMED.get(hint) or _name_class(cast("Any", wanted))
    classes: tuple[Any, ...] = (cast("Any", wanted),)
    if plain:
        classes += getattr(cast("object", wanted), "written_as", ())
    return DeclaredType(partial(_is_instance, classes, hint is int), (what,))


def _list_of(item: str) -> str:
    if item == _ANYTHING:
        return "a list"
    many = _MANY.get(item)
    return f"a list of {many}" if many else f"a list of which each item is {item}"


def _name_class(cls: Any) -> str:
    """Return the description of a class: its own ``in_words``, which is not inherited."""
    own = cast("dict[str, Any]", vars(cls))
    return own.get("in_words") or with_article(cls.__name__)


_CLASSES: Final[dict[Any, Any]] = {int: Integral, float: Real}


def _is_truth(value: Any) -> bool:
    """Recognise truth values; NumPy's by class name, since NumPy may not be imported."""
    cls = cast("type[object]", type(value))
    return cls is bool or (cls.__module__ == "numpy" and cls.__name__ in ("bool", "bool_"))


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_anything(value: Any) -> bool:
    return True


def _is_any(kinds: Sequence[DeclaredType], value: Any) -> bool:
    return any(kind.accepts(value) for kind in kinds)


def _is_one(values: Sequence[Any], value: Any) -> bool:
    return any(type(value) is type(each) and value == each for each in values)


def _is_instance(wanted: type | tuple[Any, ...], counts: bool, value: Any) -> bool:
    if not isinstance(value, wanted) or (counts and isinstance(value, bool)):
        return False
    return not isinstance(value, int) or value.bit_length() <= _WIDEST


def _is_list(item: DeclaredType, value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return False
    return all(map(item.accepts, cast("Sequence[Any]", value)))


def _is_mapping(kinds: Sequence[DeclaredType], value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    keys, values = kinds
    given = cast("Mapping[Any, Any]", value)
    return all(keys.accepts(k) and values.accepts(v) for k, v in given.items())


def _is_tuple(items: Sequence[DeclaredType], value: Any) -> bool:
    if not isinstance(value, (tuple, list)):
        return False
    given = cast("Sequence[Any]", value)
    return len(given) == len(items) and all(k.accepts(v) for k, v in zip(items, given))


def _join_words(words: Sequence[str]) -> str:
    told = [w for w in dict.fromkeys(words) if not any(p in words for p in _PART_OF.get(w, ()))]
    return " or ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)


def show_value(value: Any) -> str:
    """Show a small value of plain data; for any other value, its class."""
    said = _write_plain(value, _SHORT)
    if said is not None:
        return said
    if isinstance(value, int):
        return f"an integer of {value.bit_length()} bits"
    if _is_array(value):
        return f"an array of shape {show_value(value.shape)}"
    return with_article(type(cast("object", value)).__name__)


def quote_name(name: object) -> str:
    """Show what should be a name: a string of any length, or another value if it is small."""
    if isinstance(name, str):
        return repr(name)
    return _write_plain(name, _SHORT) or f"<{type(name).__name__}>"


def _write_plain(value: Any, room: int) -> str | None:
    """Return plain data in at most ``room`` characters, or None.

    Each level of a list takes two characters, which limits the depth; nothing that does not fit is
    formatted.
    """
    if room < 1:
        said = None
    elif isinstance(value, bool) or value is None:
        said = str(value)
    elif isinstance(value, int):
        said = int.__repr__(value) if value.bit_length() < 4 * _SHORT else None
    elif isinstance(value, (str, bytes)):
        said = repr(value) if len(value) <= room else None
    elif isinstance(value, float):
        said = float.__repr__(value)
    elif isinstance(value, (list, tuple)):
        said = _write_list(cast("Sequence[Any]", value), room)
    elif type(value) is dict:
        said = _write_dict(cast("dict[Any, Any]", value), room)
    else:
        said = None
    return said if said is not None and len(said) <= room else None


def _write_list(values: Sequence[Any], room: int) -> str | None:
    left = room - 2
    items: list[str] = []
    for value in values:
        said = _write_plain(value, left)
        if said is None:
            return None
        items.append(said)
        left -= len(said) + 2
    inner = ", ".join(items)
    if isinstance(values, list):
        return f"[{inner}]"
    return f"({inner},)" if len(items) == 1 else f"({inner})"


def _write_dict(table: Mapping[Any, Any], room: int) -> str | None:
    left = room - 2
    items: list[str] = []
    for key, value in table.items():
        name = _write_plain(key, left)
        said = None if name is None else _write_plain(value, left - len(name) - 2)
        if said is None:
            return None
        items.append(f"{name}: {said}")
        left -= len(items[-1]) + 2
    return f"{{{', '.join(items)}}}"
