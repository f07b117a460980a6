"""The roots of Relax's nodes: expressions, and what is known of the structure of their values."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.support.span import Span
from loomir.tir.numpy_operands import build_by_ufunc

__all__ = ["Callee", "Expr", "RelaxExpr", "StructInfo"]


class Expr(Node):
    """The root of expressions that are Relax's own."""

    __slots__ = ()

    in_words: ClassVar[str] = "a value of a graph"

    span: Span | None

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Refuse functions of NumPy. Errors: TIR0115."""
        return build_by_ufunc(ufunc, method, operands, lambda name: f"R.{name}(...)")


class StructInfo(Node):
    """The root of structural information: what is known of a value before the program runs."""

    __slots__ = ()

    in_words: ClassVar[str] = "structural information"


RelaxExpr: TypeAlias = Expr | GlobalVar
"""What can be an argument: an expression, or a function of the module."""
Callee: TypeAlias = Expr | GlobalVar | Op
"""What a call can name."""
