"""What pyright takes ``R.function`` for: ``no_type_check``, with a result that is not a function.

With nothing but options, it is what its first parameter holds: a decorator of the same kind. A
type variable says which, because a decorator with overloads would not be taken for
``no_type_check``. The file must have this name.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from typing_extensions import TypeVar as DefaultTypeVar

from loomir.relax.expr import Function

_Given = TypeVar("_Given")
_Result = DefaultTypeVar("_Result", default=Function)

class _Holder(Generic[_Result]): ...

def _hold(value: _Given) -> _Holder[_Given]: ...

class _WithOptions:
    @staticmethod
    def no_type_check(func: Callable[..., Any]) -> Function:
        """Read a function."""

def no_type_check(
    func: Callable[..., Any] | _Holder[_Result] = _hold(_WithOptions.no_type_check),
    *,
    private: bool = False,
    pure: bool = True,
    name: object = None,
    check_well_formed: bool = True,
    s_tir: bool = False,
) -> _Result:
    """Read a function as a program of Relax; its body is not run by Python.

    ``private``: callers outside cannot name it. ``pure=False``: it may have
    side effects.
    """
