"""Lower expression trees to TIR, with the types and conversions of C.

Integer division rounds down, as index arithmetic needs it. Conditional expressions, ``&&`` and
``||`` short-circuit as in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.arith.fold import fold_node
from loomir.support.diagnostics import with_article, with_count
from loomir.support.dtype import DataType
from loomir.tc.functions import FUNCTIONS
from loomir.tc.literals import read_number
from loomir.tc.mistakes import Mistakes, guess
from loomir.tc.scope import BrokenName, Indices, Names, Size, Tensor
from loomir.tc.syntax import Apply, Binary, Expr, Name, Number, SizeOf, Ternary, Unary, fold
from loomir.tc.types import SCALARS, as_index, as_truth, common_dtype, convert, promote
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    const,
)

__all__ = ["Expressions"]

_COMPARE: Final[dict[str, Callable[..., PrimExpr]]] = {
    "==": Eq,
    "!=": NE,
    "<": LT,
    "<=": LE,
    ">": GT,
    ">=": GE,
}
_COMPUTE: Final[dict[str, Callable[..., PrimExpr]]] = {
    "+": Add,
    "-": Sub,
    "*": Mul,
    "/": Div,
    "%": FloorMod,
}
_CAST: Final = "write the type before it, as in float(x)"

Value = PrimExpr | None
"""The value of an expression; None if it has a mistake, which was reported."""

_INSTEAD: Final = {
    "clamp": "min(max(x, low), high)",
    "maximum": "max(a, b)",
    "mean": "a sum, y(i) +=! x(i, k), and y(i) / K in the next statement",
    "minimum": "min(a, b)",
    "relu": "max(x, 0)",
    "sum": "the sum as a statement: y(i) +=! x(i, k)",
}
"""What is written for functions that others have."""


class Expressions:
    """Turns the expressions of one statement into TIR.

    With ``indices`` None these are size expressions, which have neither index variables nor reads
    of tensors.
    """

    def __init__(self, names: Names, indices: Indices | None, mistakes: Mistakes) -> None:
        self.names, self.indices, self.mistakes = names, indices, mistakes

    def make(self, expr: Expr) -> Value:
        """Return the TIR of an expression, or None after a mistake."""
        return fold(expr, self._node)

    def integer(self, expr: Expr) -> Value:
        """Return an expression that must be an integer as an index."""
        return self._index(expr, self.make(expr))

    def _index(self, expr: Expr, value: Value) -> Value:
        if value is None:
            return None
        if not (value.dtype.is_integer or value.dtype.is_bool):
            self.mistakes.add(
                "TC0201",
                f"an integer is needed here, not {with_article(value.dtype)}",
                expr.span,
                f"this is {value.dtype}",
                help="convert it with int64(…)",
            )
            return None
        return as_index(value)

    def _node(self, expr: Expr, parts: list[Value]) -> Value:
        if isinstance(expr, Number):
            return self._number(expr)
        if isinstance(expr, Name):
            return self._name(expr)
        if isinstance(expr, SizeOf):
            return self._size_of(expr)
        if isinstance(expr, Apply):
            return self._apply(expr, parts)
        values = [p for p in parts if p is not None]
        if len(values) < len(parts):
            return None
        if isinstance(expr, Unary):
            return self._unary(expr, values[0])
        if isinstance(expr, Binary):
            return self._binary(expr, values[0], values[1])
        return self._ternary(expr, *values)

    # -- what stands for itself --------------------------------------------------------------------
    def _number(self, expr: Number) -> Value:
        made = read_number(expr.text)
        if isinstance(made, str):
            self.mistakes.add(
                "TC0002",
                f"{expr.text} is not a number",
                expr.span,
                made,
                help="write it as in C: 12, 0x1f, 1.5, 1e-5f",
            )
            return None
        return made

    def _name(self, expr: Name) -> Value:
        entry = self.names.get(expr.name)
        if isinstance(entry, Size):
            return entry.value
        if isinstance(entry, Tensor):
            return self._read(expr, entry, ())
        if isinstance(entry, BrokenName):
            return None
        if self.indices is None:
            sizes = [n for n, e in self.names.items() if isinstance(e, Size)]
            self.mistakes.add(
                "TC0110",
                f"{expr.name!r} is not a size",
                expr.span,
                "the ends of a range are made of sizes and numbers",
                help=guess(expr.name, sizes, "use a size variable, T.0, or a number"),
            )
            return None
        return self.indices.use(expr.name, expr.span)

    def _size_of(self, expr: SizeOf) -> Value:
        entry = self.names.get(expr.name)
        if isinstance(entry, BrokenName):
            return None
        if not isinstance(entry, Tensor):
            tensors = [n for n, e in self.names.items() if isinstance(e, Tensor)]
            self.mistakes.add(
                "TC0101",
                f"there is no tensor {expr.name!r} here",
                expr.span,
                "only a tensor that has its values already has sizes",
                help=guess(
                    expr.name, tensors, "name a parameter, or what an earlier statement defines"
                ),
            )
            return None
        if expr.axis >= len(entry.dims):
            self.mistakes.add(
                "TC0105",
                f"{expr.name!r} has {with_count(len(entry.dims), 'axis', 'axes')}, and none "
                f"of number {expr.axis}",
                expr.span,
                secondary=((entry.span, "defined here"),),
                help="count axes from 0",
            )
            return None
        return entry.dims[expr.axis]

    # -- reads and calls ---------------------------------------------------------------------------
    def _apply(self, expr: Apply, parts: list[Value]) -> Value:
        entry = self.names.get(expr.name)
        if isinstance(entry, Tensor):
            indices = [self._index(e, v) for e, v in zip(expr.args, parts, strict=True)]
            found = [i for i in indices if i is not None]
            return self._read(expr, entry, tuple(found)) if len(found) == len(indices) else None
        if isinstance(entry, Size):
            self.mistakes.add(
                "TC0103",
                f"{expr.name!r} is a size, which has no elements",
                expr.span,
                secondary=((entry.span, "defined here"),),
                help=f"write {expr.name} by itself",
            )
            return None
        if isinstance(entry, BrokenName):
            return None
        values = [p for p in parts if p is not None]
        if expr.name in SCALARS:
            return self._cast(expr, values)
        return self._call(expr, values)

    def _read(self, expr: Name | Apply, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> Value:
        if self.indices is None:
            self.mistakes.add(
                "TC0110",
                f"{expr.name!r} is a tensor, and the ends of a range are known before any is read",
                expr.span,
                help=f"use a size variable, {expr.name}.0, or a number",
            )
            return None
        given = len(expr.args) if isinstance(expr, Apply) else 0
        if given != len(tensor.dims):
            self.mistakes.add(
                "TC0104",
                f"{expr.name!r} has {with_count(len(tensor.dims), 'axis', 'axes')} and is read "
                f"with {with_count(given, 'index', 'indices')}",
                expr.span,
                secondary=((tensor.span, "defined here"),),
                help="give one index for each axis",
            )
            return None
        return BufferLoad(tensor.buffer, indices, span=expr.span)

    def _cast(self, expr: Apply, values: list[PrimExpr]) -> Value:
        if len(expr.args) != 1:
            self.mistakes.add(
                "TC0104",
                f"{expr.name}(…) converts one number, not {len(expr.args)}",
                expr.span,
                help=f"write {expr.name}(x)",
            )
            return None
        return convert(values[0], SCALARS[expr.name]) if values else None

    def _call(self, expr: Apply, values: list[PrimExpr]) -> Value:
        function = FUNCTIONS.get(expr.name)
        if function is None:
            known = [
                *FUNCTIONS,
                *SCALARS,
                *(n for n, e in self.names.items() if isinstance(e, Tensor)),
            ]
            self.mistakes.add(
                "TC0101",
                f"{expr.name!r} is neither a tensor here nor a function on numbers",
                expr.span,
                "a statement can read what earlier ones define",
                help=f"write {_INSTEAD[expr.name]}"
                if expr.name in _INSTEAD
                else guess(expr.name, known, "define it first, or make it a parameter"),
            )
            return None
        if function.arity != len(expr.args):
            self.mistakes.add(
                "TC0104",
                f"{expr.name} takes {with_count(function.arity, 'number')}, not {len(expr.args)}",
                expr.span,
                help=f"{expr.name}: {function.summary}",
            )
            return None
        if len(values) < len(expr.args):
            return None
        dtype: DataType | None = function.fixed or promote(values[0].dtype)
        for value in values[1:]:
            dtype = dtype and (function.fixed or common_dtype(dtype, value.dtype))
        if function.chooses and len({value.dtype for value in values}) == 1:
            dtype = dtype if values[0].dtype.is_bool else values[0].dtype
        if dtype is None:
            return self._clash(expr, values)
        if function.floats and not dtype.is_float:
            dtype = DataType("float64")
        return function.make(tuple(convert(v, dtype) for v in values), expr.span)

    def _clash(self, expr: Expr, values: list[PrimExpr]) -> None:
        kinds = " and ".join(str(v.dtype) for v in values)
        self.mistakes.add(
            "TC0201",
            f"{kinds} have no common type",
            expr.span,
            "neither type holds the numbers of the other",
            help="convert one of them, as in float(x)",
        )

    # -- operators ---------------------------------------------------------------------------------
    def _unary(self, expr: Unary, value: PrimExpr) -> Value:
        if expr.op == "!":
            return Not(as_truth(value), span=expr.span)
        dtype = promote(value.dtype)
        value = convert(value, dtype)
        if isinstance(value, FloatImm):
            return FloatImm(-value.value, dtype, span=expr.span)
        if dtype.is_float:
            return Mul(value, const(-1.0, dtype), span=expr.span)
        return _fold(Sub(const(0, dtype), value, span=expr.span))

    def _binary(self, expr: Binary, left: PrimExpr, right: PrimExpr) -> Value:
        if expr.op in ("&&", "||"):
            kind = And if expr.op == "&&" else Or
            return kind(as_truth(left), as_truth(right), span=expr.span)
        dtype = common_dtype(left.dtype, right.dtype)
        if dtype is None:
            return self._clash(expr, [left, right])
        if dtype.is_float and expr.op == "%":
            self.mistakes.add(
                "TC0201",
                f"% is for integers, not for {dtype}",
                expr.span,
                f"{left.dtype} % {right.dtype}",
                help="use fmod(x, y)",
            )
            return None
        a, b = convert(left, dtype), convert(right, dtype)
        if expr.op in _COMPARE:
            return _COMPARE[expr.op](a, b, span=expr.span)
        if dtype.is_float:
            return _COMPUTE[expr.op](a, b, span=expr.span)
        make = FloorDiv if expr.op == "/" else _COMPUTE[expr.op]
        return _fold(make(a, b, span=expr.span))

    def _ternary(
        self, expr: Ternary, condition: PrimExpr, then: PrimExpr, otherwise: PrimExpr
    ) -> Value:
        same = then.dtype is otherwise.dtype
        dtype = then.dtype if same else common_dtype(then.dtype, otherwise.dtype)
        if dtype is None:
            return self._clash(expr, [then, otherwise])
        return call_builtin(
            "if_then_else",
            as_truth(condition),
            convert(then, dtype),
            convert(otherwise, dtype),
            span=expr.span,
        )


def _fold(made: PrimExpr) -> PrimExpr:
    """Compute with constants; what has variables stays, since each access in it tells ranges."""
    if not isinstance(made, BinaryOp):
        return made
    constant = isinstance(made.a, IntImm) and isinstance(made.b, IntImm)
    return fold_node(made) if constant else made
