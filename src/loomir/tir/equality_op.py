"""``==`` between expressions in Python, which means an expression or a truth value by its use.

Used as an expression it becomes ``Eq`` or ``NE``, which compare values. Used as a condition, as in
``if a == b`` or as a dictionary key, it tells whether both are the same object.
"""

from __future__ import annotations

from typing import Any

from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.tir.numpy_operands import build_by_ufunc

__all__ = ["Comparable", "Equality"]


class Equality:
    """``a == b``, or ``a != b`` where not ``equal``."""

    __slots__ = ("a", "b", "equal")

    def __init__(self, a: Any, b: object, equal: bool) -> None:
        self.a = a
        self.b = b
        self.equal = equal

    def __bool__(self) -> bool:
        return (self.a is self.b) == self.equal

    def as_expr(self) -> Any:
        """Return the expression that compares the values."""
        return self.a.equal(self.b) if self.equal else self.a.not_equal(self.b)


class Comparable(Node):
    """The root of nodes that ``==`` compares by value in programs, and by identity in Python."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Build what NumPy's operators mean; refuse its functions. Errors: TIR0115."""
        return build_by_ufunc(ufunc, method, operands, _as_builtin)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (Comparable, int, float)):
            return Equality(self, other, equal=True)
        return NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, (Comparable, int, float)):
            return Equality(self, other, equal=False)
        return NotImplemented

    __hash__ = Node.__hash__


def _as_builtin(name: str) -> str | None:
    known = name in ("max", "min") or Op.get(f"tir.{name}") is not None
    return f"T.{name}(...)" if known else None
