"""What pyright takes ``T.macro`` for: ``no_type_check``, with a result that is not a function.

With nothing but options, it is what its first parameter holds: a decorator of the same kind. A
type variable says which, because a decorator with overloads would not be taken for
``no_type_check``. The file must have this name.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from typing_extensions import TypeVar as DefaultTypeVar

from loomir.script.parser.evaluate.namespaces import Macro

_Given = TypeVar("_Given")
_Result = DefaultTypeVar("_Result", default=Macro)

class _Holder(Generic[_Result]): ...

def _hold(value: _Given) -> _Holder[_Given]: ...

class _WithOptions:
    @staticmethod
    def no_type_check(func: Callable[..., Any]) -> Macro:
        """Read a macro."""

def no_type_check(
    func: Callable[..., Any] | _Holder[_Result] = _hold(_WithOptions.no_type_check),
    *,
    hygienic: bool = True,
) -> _Result:
    """Read statements with parameters, to be put where a program calls them.

    Names that are no parameters mean what they mean here; with ``hygienic=False``, at the call.
    """
