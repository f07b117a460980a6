"""What pyright takes ``loomir.jit`` for: ``no_type_check``, with a result that is not a function.

With nothing but options, it is what its first parameter holds: a decorator of the same kind. See
``loomir.checkers.prim_func``, and ``loomir.specialize`` for what runs.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from typing_extensions import TypeVar as DefaultTypeVar

from loomir.build import Program
from loomir.specialize.function import JitFunction
from loomir.target import Target

_Given = TypeVar("_Given")
_Result = DefaultTypeVar("_Result", default=JitFunction)

class _Holder(Generic[_Result]): ...

def _hold(value: _Given) -> _Holder[_Given]: ...

class _WithOptions:
    @staticmethod
    def no_type_check(func: Callable[..., Any] | Program) -> JitFunction:
        """Compile a function at its first call."""

def no_type_check(
    func: Callable[..., Any] | Program | _Holder[_Result] = _hold(_WithOptions.no_type_check),
    *,
    target: str | Target = "native",
    opt_level: int = 2,
    threads: int | None = None,
    cache: bool = True,
    schedule: bool = True,
    check_bounds: bool | None = None,
    allow_alias: bool = False,
) -> _Result:
    """Compile a function at its first call, once for each set of dtypes and ranks.

    The body is TVMScript, read and not run. Parameters without an annotation take dtype and rank
    from the arguments, as does a bare ``T.Buffer``; ``T.Buffer(("n", "m"), ...)`` leaves the dtype
    open, ``T.Buffer(dtype="float32")`` the shape. ``threads`` is how many threads a call may use at
    most; the other options are those of ``loomir.compile``.
    """
