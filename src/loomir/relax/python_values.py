"""Python syntax on graph values: operators, items, ``shape`` and ``dtype``.

The meaning is in ``relax.normal.python_operators``, which builds expressions and fills the hooks
here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from loomir.support.caller_span import read_call, user_span
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.numpy_operands import as_number, build_by_ufunc, is_numpy_value
from loomir.tir.rules import refuse

__all__ = ["PythonMeaning", "PythonValue", "set_meaning"]


class PythonMeaning(NamedTuple):
    """The functions that make calls, items, fields, shapes and dtypes of values, and constants.

    ``attribute`` refuses a name that values lack, with what to write instead.
    """

    apply: Callable[[str, Sequence[object]], Any]
    item: Callable[[Any, Any], Any]
    fields: Callable[[Any], Sequence[Any]]
    shape: Callable[[Any], tuple[Any, ...]]
    dtype: Callable[[Any], str]
    constant: Callable[[Any], Any]
    attribute: Callable[[Any, str], NoReturn]


_meaning: list[PythonMeaning] = []
_COMPARISONS: Final = frozenset(
    f"relax.{name}" for name in ("less", "less_equal", "greater", "greater_equal")
)


def set_meaning(meaning: PythonMeaning) -> None:
    """Let ``meaning`` define what Python's operators do with values."""
    _meaning[:] = [meaning]


def _apply(name: str, operands: Sequence[object]) -> Any:
    return _meaning[0].apply(name, operands)


def _is_asked_by_user(depth: int = 2) -> bool:
    """Whether the code that uses a value, so many calls up from here, is not Loomir's."""
    asks = str(sys._getframe(depth).f_globals.get("__name__", ""))  # pyright: ignore[reportPrivateUsage]
    return not asks.startswith("loomir.")


class NoNumberError(CompileError, TypeError):
    """A value of a graph was asked for a number."""


def _suggest_condition() -> str:
    called = read_call(user_span())
    name = {"max": "maximum", "min": "minimum"}.get(called.name) if called is not None else None
    if called is not None and name is not None:
        return f"write op.{name}({called.arguments})"
    return "choose for each element with op.where(c, a, b), or write relax.If"


def _refuse_number(function: str) -> NoReturn:
    span = user_span()
    called = read_call(span)
    help_ = "compile the program, call it, and use what it returns"
    if called is not None and called.module == "math":
        help_ = f"write op.{called.name}({called.arguments})"
    message = f"{function}() of a value of a graph: its numbers are known when the program runs"
    raise NoNumberError(Diagnostic("RLX0006", message, span, help=help_))


def _compare(value: PythonValue, other: object, name: str) -> Any:
    is_number = isinstance(other, (int, float)) or is_numpy_value(other)
    if is_number and _is_asked_by_user(3):
        _refuse_comparison(value, other, name)
    return NotImplemented


def _refuse_comparison(value: PythonValue, other: object, name: str) -> NoReturn:
    shown = getattr(value, "name_hint", "x")
    number = "the array" if getattr(other, "ndim", 0) else as_number(other)
    sign = {"equal": "==", "not_equal": "!="}[name]
    refuse(
        "RLX0006",
        f"{sign} asks whether two values of a graph are the same, and does not compare elements",
        help=f"write op.{name}({shown}, {number})",
        span=user_span(),
    )


class PythonValue:
    """A value of a graph in Python: Python's operators on it make calls of Loomir's."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of a tensor: numbers, or expressions. Errors: RLX0006 where unknown."""
        return _meaning[0].shape(self)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements. Errors: RLX0006 where it is unknown."""
        return _meaning[0].dtype(self)

    def __getitem__(self, index: Any) -> Any:
        """Return a field of a tuple, or a part of a tensor. Errors: RLX0006."""
        return _meaning[0].item(self, index)

    def __iter__(self) -> Iterator[Any]:
        """Return the fields of a tuple. Errors: RLX0006 for any other value."""
        return iter(_meaning[0].fields(self))

    def __bool__(self) -> bool:
        """Refuse the truth of a comparison, if a user asks for it; any other value is true.

        Errors: RLX0006.
        """
        name: str = getattr(getattr(self, "op", None), "name", "")
        if name in _COMPARISONS and _is_asked_by_user():
            refuse(
                "RLX0006",
                "what a comparison gives is not known before the graph runs",
                help=_suggest_condition(),
            )
        return True

    def __eq__(self, other: object) -> Any:
        """Tell whether both are the same value; refuse numbers and arrays. Errors: RLX0006."""
        return _compare(self, other, "equal")

    def __ne__(self, other: object) -> Any:
        """Tell whether both are different values; refuse numbers and arrays. Errors: RLX0006."""
        return _compare(self, other, "not_equal")

    __hash__ = object.__hash__

    def __len__(self) -> int:
        """Return how many fields a tuple has. Errors: RLX0006 for other values."""
        return len(_meaning[0].fields(self))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        """Refuse to change a value. Errors: RLX0006."""
        refuse(
            "RLX0006",
            "values of a graph do not change",
            help="make a new one: op.scatter_elements(x, indices, updates), or op.where(c, a, x)",
            span=user_span(),
        )

    def __float__(self) -> float:
        """Refuse a number. Errors: RLX0006."""
        _refuse_number("float")

    def __int__(self) -> int:
        """Refuse a number. Errors: RLX0006."""
        _refuse_number("int")

    def __round__(self, digits: int = 0) -> Any:
        """Round the elements to whole numbers. Errors: RLX0006 for digits."""
        return _refuse_number("round") if digits else _apply("round", (self,))

    if not TYPE_CHECKING:  # checkers know the names that there are

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or not _is_asked_by_user(2):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            _meaning[0].attribute(self, name)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Build calls for NumPy's operators; refuse its functions. Errors: TIR0115."""
        if ufunc.__name__ in ("equal", "not_equal"):
            (other,) = [operand for operand in operands if operand is not self] or [self]
            _refuse_comparison(self, other, ufunc.__name__)
        take = _meaning[0].constant
        return build_by_ufunc(ufunc, method, operands, lambda name: f"R.{name}(...)", take)

    def __add__(self, other: object) -> Any:
        return _apply("add", (self, other))

    def __radd__(self, other: object) -> Any:
        return _apply("add", (other, self))

    def __sub__(self, other: object) -> Any:
        return _apply("subtract", (self, other))

    def __rsub__(self, other: object) -> Any:
        return _apply("subtract", (other, self))

    def __mul__(self, other: object) -> Any:
        return _apply("multiply", (self, other))

    def __rmul__(self, other: object) -> Any:
        return _apply("multiply", (other, self))

    def __truediv__(self, other: object) -> Any:
        return _apply("divide", (self, other))

    def __rtruediv__(self, other: object) -> Any:
        return _apply("divide", (other, self))

    def __floordiv__(self, other: object) -> Any:
        return _apply("floor_divide", (self, other))

    def __rfloordiv__(self, other: object) -> Any:
        return _apply("floor_divide", (other, self))

    def __mod__(self, other: object) -> Any:
        return _apply("floor_mod", (self, other))

    def __rmod__(self, other: object) -> Any:
        return _apply("floor_mod", (other, self))

    def __pow__(self, other: object) -> Any:
        return _apply("power", (self, other))

    def __rpow__(self, other: object) -> Any:
        return _apply("power", (other, self))

    def __matmul__(self, other: object) -> Any:
        return _apply("matmul", (self, other))

    def __rmatmul__(self, other: object) -> Any:
        return _apply("matmul", (other, self))

    def __and__(self, other: object) -> Any:
        return _apply("bitwise_and", (self, other))

    def __rand__(self, other: object) -> Any:
        return _apply("bitwise_and", (other, self))

    def __or__(self, other: object) -> Any:
        return _apply("bitwise_or", (self, other))

    def __ror__(self, other: object) -> Any:
        return _apply("bitwise_or", (other, self))

    def __xor__(self, other: object) -> Any:
        return _apply("bitwise_xor", (self, other))

    def __rxor__(self, other: object) -> Any:
        return _apply("bitwise_xor", (other, self))

    def __lshift__(self, other: object) -> Any:
        return _apply("left_shift", (self, other))

    def __rlshift__(self, other: object) -> Any:
        return _apply("left_shift", (other, self))

    def __rshift__(self, other: object) -> Any:
        return _apply("right_shift", (self, other))

    def __rrshift__(self, other: object) -> Any:
        return _apply("right_shift", (other, self))

    def __lt__(self, other: object) -> Any:
        return _apply("less", (self, other))

    def __le__(self, other: object) -> Any:
        return _apply("less_equal", (self, other))

    def __gt__(self, other: object) -> Any:
        return _apply("greater", (self, other))

    def __ge__(self, other: object) -> Any:
        return _apply("greater_equal", (self, other))

    def __neg__(self) -> Any:
        return _apply("negative", (self,))

    def __invert__(self) -> Any:
        return _apply("bitwise_not", (self,))

    def __abs__(self) -> Any:
        return _apply("abs", (self,))
