"""Arguments of functions that users call, held to what their signatures declare."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from numbers import Integral, Real
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from loomir.support.diagnostics import CompileError, with_article
from loomir.te.place import user_span
from loomir.te.tensor import Tensor
from loomir.tir.expr import PrimExpr
from loomir.tir.rules import refuse

__all__ = ["check_arguments", "explain_failures"]

_F = TypeVar("_F", bound=Callable[..., Any])
_SHORT: Final = 40
"""Characters up to which a value is shown, and not what it is."""

_NAMED: Final[dict[Any, str]] = {
    Tensor: "a tensor",
    PrimExpr: "an expression",
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
}
_PART_OF: Final = {
    "an expression": ("an integer", "a number"),
    "an integer": ("a number",),
    "True or False": ("a number",),
}
"""Words that say nothing more where one of those is said."""


class _Kind(NamedTuple):
    """What a parameter takes: how to tell, and in words."""

    accepts: Callable[[Any], bool]
    words: tuple[str, ...]


_Named: TypeAlias = tuple[str, _Kind]
_Parameters: TypeAlias = tuple[list[_Named], _Named | None, dict[str, _Kind]]


def check_arguments(names: Mapping[str, Any], exported: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Give the exported functions of a package again, which refuse what they do not declare."""
    for name in exported:
        if inspect.isfunction(names[name]):
            yield name, _checked(cast("Callable[..., Any]", names[name]))


def explain_failures(
    names: Mapping[str, Any], exported: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Give the exported functions again, which say what they declare where they fail otherwise.

    For functions that refuse most by themselves, in better words.
    """
    for name in exported:
        if inspect.isfunction(names[name]):
            yield name, _explained(cast("Callable[..., Any]", names[name]))


def _checked(function: _F) -> _F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(map(_plain, args))
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        _check(function, args, kwargs)
        return function(*args, **kwargs)

    return cast("_F", call)


def _plain(value: Any) -> Any:
    """Give numbers of NumPy, and lists of them, as those of Python."""
    if isinstance(value, np.ndarray):
        return cast("Any", value).tolist()
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return list(map(_plain, items)) if any(isinstance(v, np.generic) for v in items) else items
    return cast("Any", value).item() if isinstance(value, np.generic) else value


def _explained(function: _F) -> _F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except CompileError:
            raise
        except Exception:
            _check(function, args, kwargs)
            raise

    return cast("_F", call)


def _check(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    positional, rest, named = _kinds_of(function)
    for place, value in enumerate(args):
        if place >= len(positional) and rest is None:
            return  # Python counts them
        name, kind = positional[place] if place < len(positional) else cast("_Named", rest)
        if not kind.accepts(value):
            _refuse(function.__name__, name, value, kind)
    for name, value in kwargs.items():
        if name in named and not named[name].accepts(value):
            _refuse(function.__name__, name, value, named[name])


def _refuse(function: str, name: str, value: Any, kind: _Kind) -> None:
    wanted = _joined(kind.words)
    refuse(
        "TE0104",
        f"{function}: {name} is {_shown(value)}, not {wanted}",
        help=f"give {wanted}",
        span=user_span(),
    )


def _joined(words: Sequence[str]) -> str:
    told = [w for w in dict.fromkeys(words) if not any(p in words for p in _PART_OF.get(w, ()))]
    return " or ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)


def _shown(value: Any) -> str:
    """Show a small value of plain data, and say of what class another one is."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, list, tuple)):
        said = repr(cast("object", value))
        if len(said) <= _SHORT:
            return said
    return with_article(type(cast("object", value)).__name__)


@cache
def _kinds_of(function: Callable[..., Any]) -> _Parameters:
    """Read a signature: parameters by place, those of which there are any number, and by name."""
    hints = typing.get_type_hints(function)
    positional: list[_Named] = []
    rest: _Named | None = None
    named: dict[str, _Kind] = {}
    for param in inspect.signature(function).parameters.values():
        kind = _kind(hints.get(param.name, Any))
        if param.kind is param.VAR_POSITIONAL:
            rest = param.name, kind
        elif param.kind is not param.VAR_KEYWORD:
            named[param.name] = kind
            if param.kind is not param.KEYWORD_ONLY:
                positional.append((param.name, kind))
    return positional, rest, named


# -- kinds ---------------------------------------------------------------------------------------
def _kind(hint: Any) -> _Kind:
    """Give what a declared type stands for."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        every = [_kind(arg) for arg in args]
        words = tuple(word for kind in every for word in kind.words)
        return _Kind(partial(_is_any, every), words)
    if origin is typing.Literal:
        return _Kind(partial(_is_one, args), tuple(map(repr, args)))
    if origin is Sequence or (origin is tuple and args[1:] == (...,)):
        item = _kind(args[0])
        many = _MANY.get(_joined(item.words))
        return _Kind(partial(_is_list, item), (f"a list of {many}" if many else "a list",))
    if origin is tuple:
        return _Kind(partial(_is_tuple, [_kind(arg) for arg in args]), (f"a tuple of {len(args)}",))
    if origin is Callable:
        return _Kind(callable, ("a function",))
    wanted = _CLASSES.get(hint, hint if origin is None else origin)
    if hint is Any or not isinstance(wanted, (type, tuple)):
        return _Kind(_is_anything, ("anything",))
    words = _NAMED.get(hint) or with_article(getattr(cast("object", wanted), "__name__", hint))
    return _Kind(partial(_is_instance, wanted, hint is int), (words,))


_CLASSES: Final[dict[Any, Any]] = {bool: (bool, np.bool_), int: Integral, float: Real}


def _is_anything(value: Any) -> bool:
    return True


def _is_any(kinds: Sequence[_Kind], value: Any) -> bool:
    return any(kind.accepts(value) for kind in kinds)


def _is_one(values: Sequence[Any], value: Any) -> bool:
    return any(type(value) is type(each) and value == each for each in values)


def _is_instance(wanted: type | tuple[type, ...], counts: bool, value: Any) -> bool:
    return isinstance(value, wanted) and not (counts and isinstance(value, bool))


def _is_list(item: _Kind, value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return False
    return all(map(item.accepts, cast("Sequence[Any]", value)))


def _is_tuple(items: Sequence[_Kind], value: Any) -> bool:
    if not isinstance(value, (tuple, list)):
        return False
    given = cast("Sequence[Any]", value)
    return len(given) == len(items) and all(k.accepts(v) for k, v in zip(items, given))
