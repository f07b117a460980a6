"""Check arguments of public functions against their signatures."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final, TypeVar, cast

from loomir.support.argument_errors import explain_exported, misfit, refuse_signature
from loomir.support.diagnostics import CompileError

__all__ = ["check_arguments", "explain_failures"]

_F = TypeVar("_F", bound=Callable[..., Any])
_CODE: Final = "TE0104"
_AXES: Final = 64
"""Elements of the largest array that is read as a list: as many axes as an array of NumPy has."""


def check_arguments(names: Mapping[str, Any], exported: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the exported functions of a package, wrapped to refuse undeclared arguments."""
    for name in exported:
        if inspect.isfunction(names[name]):
            yield name, _check_calls(cast("Callable[..., Any]", names[name]))


def explain_failures(
    names: Mapping[str, Any], exported: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the exported functions, wrapped to explain failures by undeclared arguments.

    For functions that refuse most by themselves, in better words.
    """
    return explain_exported(names, exported, _CODE)


def _check_calls(function: _F) -> _F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        args = tuple(map(_plain, args))
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        try:
            misfit(function, args, kwargs, _CODE)
        except CompileError as error:
            raise _explain_array(error, given) from None
        try:
            return function(*args, **kwargs)
        except TypeError:
            refuse_signature(function, args, kwargs, _CODE)
            raise

    return cast("_F", call)


def _explain_array(error: CompileError, given: Sequence[Any]) -> CompileError:
    """Say how to give a program an array, if one was given in place of a tensor."""
    numpy: Any = sys.modules.get("numpy")
    (diagnostic,) = error.diagnostics
    if numpy is None or "tensor" not in diagnostic.help:
        return error
    items: list[Any] = []
    for value in given:
        items += cast("list[Any]", value) if isinstance(value, list) else [value]
    array: Any = next((item for item in items if isinstance(item, numpy.ndarray)), None)
    if array is None:
        return error
    placeholder = f'te.placeholder({array.shape}, "{array.dtype}")'
    help_ = f"write {placeholder} here, and give the array to the compiled program"
    return CompileError(replace(diagnostic, help=help_))


def _plain(value: Any) -> Any:
    """Return numbers of NumPy, and short lists of them, as those of Python."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:  # then there is none of them
        return value
    if isinstance(value, numpy.ndarray):
        given: Any = value
        return given.tolist() if given.ndim < 2 and given.size <= _AXES else given
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        if any(isinstance(item, numpy.generic) for item in items):
            return [_plain(item) for item in items]
        return items
    return value.item() if isinstance(value, numpy.generic) else value
