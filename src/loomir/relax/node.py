"""Base classes of Relax nodes: expressions, and structural information."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.relax.python_values import PythonValue
from loomir.support.span import Span

__all__ = ["Callee", "Expr", "RelaxExpr", "StructInfo"]


class Expr(PythonValue, Node):
    """The base class of Relax expressions."""

    __slots__ = ()

    in_words: ClassVar[str] = "a value of a graph"

    span: Span | None


class StructInfo(Node):
    """The base class of structural information: what is known of a value statically."""

    __slots__ = ()

    in_words: ClassVar[str] = "structural information"


RelaxExpr: TypeAlias = Expr | GlobalVar
"""An argument of a call: an expression, or a function of the module."""
Callee: TypeAlias = Expr | GlobalVar | Op
"""The callee of a call: an expression, a function of the module, or an operator."""
