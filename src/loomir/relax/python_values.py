"""Python syntax on graph values: operators, items, ``shape`` and ``dtype``.

The meaning is in ``relax.normal.python_operators``, which builds expressions and fills the hooks
here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from loomir.tir.numpy_operands import build_by_ufunc
from loomir.tir.rules import refuse

__all__ = ["PythonMeaning", "PythonValue", "set_meaning"]


class PythonMeaning(NamedTuple):
    """The functions that make calls, items, fields, shapes and dtypes of values, and constants."""

    apply: Callable[[str, Sequence[object]], Any]
    item: Callable[[Any, Any], Any]
    fields: Callable[[Any], Sequence[Any]]
    shape: Callable[[Any], tuple[Any, ...]]
    dtype: Callable[[Any], str]
    constant: Callable[[Any], Any]


_meaning: list[PythonMeaning] = []
_COMPARISONS: Final = frozenset(
    f"relax.{name}" for name in ("less", "less_equal", "greater", "greater_equal")
)


def set_meaning(meaning: PythonMeaning) -> None:
    """Let ``meaning`` define what Python's operators do with values."""
    _meaning[:] = [meaning]


def _apply(name: str, operands: Sequence[object]) -> Any:
    return _meaning[0].apply(name, operands)


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
        if name in _COMPARISONS:
            asks = str(sys._getframe(1).f_globals.get("__name__", ""))  # pyright: ignore[reportPrivateUsage]
            if not asks.startswith("loomir."):
                refuse(
                    "RLX0006",
                    "what a comparison gives is not known before the graph runs",
                    help="choose for each element with op.where(c, a, b), or write relax.If",
                )
        return True

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Build calls for NumPy's operators; refuse its functions. Errors: TIR0115."""
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
