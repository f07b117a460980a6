"""Arguments of functions that users call, held to what their signatures declare."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from loomir.support.declared import Declared, declared, shown
from loomir.support.diagnostics import CompileError
from loomir.te.place import user_span
from loomir.te.tensor import Tensor
from loomir.tir.expr import PrimExpr
from loomir.tir.rules import refuse

__all__ = ["check_arguments", "explain_failures"]

_F = TypeVar("_F", bound=Callable[..., Any])
_AXES: Final = 64
"""Elements of the largest array that is read as a list: as many axes as an array of NumPy has."""
_WORDS: Final = {Tensor: "a tensor", PrimExpr: "an expression"}

_Named: TypeAlias = tuple[str, Declared]
_Parameters: TypeAlias = tuple[list[_Named], _Named | None, dict[str, Declared]]


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
    """Give numbers of NumPy, and short lists of them, as those of Python."""
    if isinstance(value, np.ndarray):
        given = cast("np.ndarray[Any, Any]", value)
        return given.tolist() if given.ndim < 2 and given.size <= _AXES else given
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


def _refuse(function: str, name: str, value: Any, kind: Declared) -> None:
    wanted = kind.wanted
    if isinstance(value, int) and kind.accepts(1):
        wanted = "an integer of 64 bits"
    refuse(
        "TE0104",
        f"{function}: {name} is {shown(value)}, not {wanted}",
        help=f"give {wanted}",
        span=user_span(),
    )


@cache
def _kinds_of(function: Callable[..., Any]) -> _Parameters:
    """Read a signature: parameters by place, those of which there are any number, and by name."""
    hints = typing.get_type_hints(function)
    positional: list[_Named] = []
    rest: _Named | None = None
    named: dict[str, Declared] = {}
    for param in inspect.signature(function).parameters.values():
        kind = declared(hints.get(param.name, Any), _WORDS)
        if param.kind is param.VAR_POSITIONAL:
            rest = param.name, kind
        elif param.kind is not param.VAR_KEYWORD:
            named[param.name] = kind
            if param.kind is not param.KEYWORD_ONLY:
                positional.append((param.name, kind))
    return positional, rest, named
