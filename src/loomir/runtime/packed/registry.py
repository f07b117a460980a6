"""The registry of packed functions: Python functions that programs call by name.

There is one table for the process; every function here may be used from any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, overload

from loomir.runtime.errors import RunKeyError, RunTypeError, RunValueError
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import Diagnostic, nearest
from loomir.support.fork_safe import ForkSafeLock
from loomir.support.runtime_types import quote_name
from loomir.support.uncompiled_call import is_callable

__all__ = ["find_func", "get_func", "list_funcs", "register_func", "remove_func"]

F = TypeVar("F", bound=Callable[..., Any])

_lock: Final = ForkSafeLock()
_table: Final[dict[str, Callable[..., Any]]] = {}


@overload
@explain_arguments
def register_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
def register_func(name: str, f: F | None = None, override: bool = False) -> F | Callable[[F], F]:
    """Make ``f`` callable from programs as ``name``; without ``f``, return a decorator.

    Errors: RUN0301 for a name that is taken, unless ``override``; RUN0302 for a name that is empty
    or no string; RUN0303 for an object that cannot be called.
    """
    _check_name(name)
    if f is None:
        return lambda function: register_func(name, function, override)
    if not is_callable(f):
        raise RunTypeError(
            Diagnostic("RUN0303", f"{name!r} cannot be registered: {f!r} cannot be called")
        )
    with _lock:
        if name in _table and not override:
            raise RunValueError(
                Diagnostic(
                    "RUN0301",
                    f"a function named {name!r} is registered already",
                    notes=(f"it is {_table[name]!r}",),
                    help="choose another name, or pass override=True",
                )
            )
        _table[name] = f
    return f


@explain_arguments
def get_func(name: str) -> Callable[..., Any]:
    """Return the function registered under ``name``.

    Errors: RUN0304 if there is none.
    """
    _check_name(name)
    with _lock:
        found = _table.get(name)
        known = () if found is not None else tuple(_table)
    if found is None:
        raise _unknown(name, known)
    return found


def find_func(name: str) -> Callable[..., Any] | None:
    """Return the function registered under ``name``, or None."""
    return _table.get(name)


@explain_arguments
def remove_func(name: str) -> None:
    """Remove the function registered under ``name``.

    Errors: RUN0304 if there is none.
    """
    _check_name(name)
    with _lock:
        found = _table.pop(name, None)
        known = tuple(_table)
    if found is None:
        raise _unknown(name, known)


def list_funcs() -> tuple[str, ...]:
    """Return the names of all registered functions in alphabetical order."""
    with _lock:
        return tuple(sorted(_table))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise RunTypeError(
            Diagnostic(
                "RUN0302",
                f"a packed function's name is a string, not {quote_name(name)}",
                help=f'write @loomir.register_func("{name.__name__}")'
                if isinstance(name, FunctionType)
                else 'write @loomir.register_func("name")',
            )
        )


def _unknown(name: str, known: tuple[str, ...]) -> RunKeyError:
    guess = nearest(name, known)
    return RunKeyError(
        Diagnostic(
            "RUN0304",
            f"no function is registered as {name!r}",
            help=f"did you mean {guess!r}?"
            if guess
            else f"register it with loomir.register_func({name!r}, f)",
        )
    )
