"""Scalar and vector expressions.

Semantics of all nodes here:

- Integers wrap in every dtype, in two's complement. Floats follow IEEE 754, and are never rewritten
  as if they were reals.
- Vectors act lane by lane; the order among lanes is unspecified.
- ``Div`` and ``Mod`` truncate as in C, ``FloorDiv`` and ``FloorMod`` round towards minus infinity.
  For integers, a zero divisor raises at run time, and ``INT_MIN / -1`` is ``INT_MIN`` with
  remainder 0.
- ``Min`` and ``Max`` are NaN if an operand is NaN.
- Scalar ``And`` and ``Or`` short-circuit; ``Select`` evaluates both values.
- Operands are evaluated from left to right.

Constructors check the typing rules and nothing else: they never fold. Python's operators on
expressions (``a + b``) convert plain numbers, and widen operands if no value can be lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from typing import cast as cast_type

from loomir.ir.module import GlobalVar
from loomir.ir.node import attr, binds, child, meta, node, reset
from loomir.ir.op import Op
from loomir.support.diagnostics import with_article
from loomir.support.dtype import BOOL, HANDLE, VOID, DataType, to_dtype
from loomir.support.span import Span
from loomir.tir.equality_op import Comparable, Equality
from loomir.tir.numpy_operands import as_number
from loomir.tir.rules import bool_dtype, refuse
from loomir.tir.types import VOID_TYPE, Type, dtype_of_type, prim_type
from loomir.tir.unknown_numbers import refuse_number

__all__ = [
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryOp",
    "Broadcast",
    "Call",
    "Cast",
    "CmpOp",
    "Div",
    "Eq",
    "ExprLike",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "Let",
    "LogicalOp",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "Ramp",
    "Select",
    "Shuffle",
    "StringImm",
    "Sub",
    "Var",
    "cast",
    "const",
    "convert",
    "match_dtypes",
]


class PrimExpr(Comparable):
    """The base class of expressions; each has a ``dtype``."""

    __slots__ = ("dtype",)
    in_words: ClassVar[str] = "an expression"
    written_as: ClassVar[tuple[type, ...]] = (int, float)
    dtype: DataType

    def __add__(self, other: ExprLike) -> PrimExpr:
        return Add(*match_dtypes(self, other))

    def __radd__(self, other: ExprLike) -> PrimExpr:
        return Add(*match_dtypes(other, self))

    def __sub__(self, other: ExprLike) -> PrimExpr:
        return Sub(*match_dtypes(self, other))

    def __rsub__(self, other: ExprLike) -> PrimExpr:
        return Sub(*match_dtypes(other, self))

    def __mul__(self, other: ExprLike) -> PrimExpr:
        return Mul(*match_dtypes(self, other))

    def __rmul__(self, other: ExprLike) -> PrimExpr:
        return Mul(*match_dtypes(other, self))

    def __truediv__(self, other: ExprLike) -> PrimExpr:
        return Div(*match_dtypes(self, other))

    def __rtruediv__(self, other: ExprLike) -> PrimExpr:
        return Div(*match_dtypes(other, self))

    def __floordiv__(self, other: ExprLike) -> PrimExpr:
        return FloorDiv(*match_dtypes(self, other))

    def __rfloordiv__(self, other: ExprLike) -> PrimExpr:
        return FloorDiv(*match_dtypes(other, self))

    def __mod__(self, other: ExprLike) -> PrimExpr:
        return FloorMod(*match_dtypes(self, other))

    def __rmod__(self, other: ExprLike) -> PrimExpr:
        return FloorMod(*match_dtypes(other, self))

    def __neg__(self) -> PrimExpr:
        # -x and not 0 - x: for floats they differ at zero.
        if self.dtype.is_float:
            return Mul(self, const(-1.0, self.dtype))
        return Sub(const(0, self.dtype), self)

    def __lt__(self, other: ExprLike) -> PrimExpr:
        return LT(*match_dtypes(self, other))

    def __le__(self, other: ExprLike) -> PrimExpr:
        return LE(*match_dtypes(self, other))

    def __gt__(self, other: ExprLike) -> PrimExpr:
        return GT(*match_dtypes(self, other))

    def __ge__(self, other: ExprLike) -> PrimExpr:
        return GE(*match_dtypes(self, other))

    def equal(self, other: ExprLike) -> PrimExpr:
        """Compare values, as ``==`` does in an expression."""
        return Eq(*match_dtypes(self, other))

    def not_equal(self, other: ExprLike) -> PrimExpr:
        """Compare values, as ``!=`` does in an expression."""
        return NE(*match_dtypes(self, other))

    def astype(self, dtype: DataType | str) -> PrimExpr:
        """Cast to ``dtype``; returns the expression itself if it has that dtype."""
        return cast(self, dtype)

    def __bool__(self) -> bool:
        refuse(
            "TIR0112",
            "the value of an expression is not known before the program runs",
            help="use T.if_then_else, T.Select, or an if statement in the program",
        )

    def __float__(self) -> float:
        """Refuse a number, as for functions of Python's ``math``. Errors: TIR0112."""
        refuse_number()


ExprLike: TypeAlias = PrimExpr | Equality | int | float | bool


@node
class Var(PrimExpr):
    """A variable. Variables are compared by identity; names are hints.

    Made from a dtype or from a type, not both.
    Errors: TIR0111.
    """

    in_words: ClassVar[str] = "a variable"
    is_definition: ClassVar[bool] = True

    name_hint: str = meta()
    dtype: DataType = attr(default=None, converter=to_dtype)
    type_annotation: Type = attr(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    if TYPE_CHECKING:  # mypy knows nothing of converters

        def __init__(
            self,
            name_hint: str,
            dtype: DataType | str | None = None,
            type_annotation: Type | None = None,
            *,
            span: Span | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        given = cast_type("DataType | str | None", self.dtype)
        annotation = cast_type("Type | None", self.type_annotation)
        if given is None:
            if annotation is None:
                refuse(
                    "TIR0111",
                    f"variable {self.name_hint!r} has neither a dtype nor a type",
                    help="give one of them, as in Var('i', 'int32')",
                )
            reset(self, "dtype", dtype_of_type(annotation))
            return
        dtype = DataType(given) if isinstance(given, str) else given
        reset(self, "dtype", dtype)
        if annotation is None:
            reset(self, "type_annotation", VOID_TYPE if dtype is VOID else prim_type(dtype))
        elif dtype_of_type(annotation) is not dtype:
            refuse(
                "TIR0111",
                f"variable {self.name_hint!r} has dtype {dtype} but a type for "
                f"{dtype_of_type(annotation)}",
                help="give only one of dtype and type_annotation",
            )


@node
class IntImm(PrimExpr):
    """An integer constant.

    Errors: TIR0104 for a dtype that is not a scalar integer, TIR0103 for a value that it cannot
    hold.
    """

    value: int = attr()
    dtype: DataType = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        dtype = self.dtype
        if type(self.value) is not int:
            reset(self, "value", int(self.value))
        if dtype.lanes != 1 or not (dtype.is_integer or dtype.is_bool):
            refuse(
                "TIR0104",
                f"an integer constant cannot have dtype {dtype}",
                help="use a scalar integer dtype or bool; T.Broadcast makes vectors",
                span=self.span,
            )
        if not dtype.min_value <= self.value <= dtype.max_value:
            refuse(
                "TIR0103",
                f"{_number(self.value)} does not fit {dtype}",
                notes=(f"{dtype} holds {dtype.min_value} to {dtype.max_value}",),
                help="use a wider dtype, or a value in that range",
                span=self.span,
            )


@node
class FloatImm(PrimExpr):
    """A floating-point constant; ``value`` is rounded to ``dtype`` where it is used.

    Errors: TIR0104 for a dtype that is not a scalar float, TIR0103 for a finite value out of range.
    """

    value: float = attr()
    dtype: DataType = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        dtype = self.dtype
        if type(self.value) is not float:
            reset(self, "value", _as_float(self.value, dtype, self.span))
        if dtype.lanes != 1 or not dtype.is_float:
            refuse(
                "TIR0104",
                f"a floating-point constant cannot have dtype {dtype}",
                help="use a scalar float dtype; T.Broadcast makes vectors",
                span=self.span,
            )
        if math.isfinite(self.value) and abs(self.value) > dtype.max_finite:
            refuse(
                "TIR0103",
                f"{self.value!r} does not fit {dtype}",
                notes=(f"the largest finite {dtype} is {dtype.max_finite!r}",),
                help="use T.infinity, T.max_value, or a wider dtype",
                span=self.span,
            )


@node
class StringImm(PrimExpr):
    """A constant string; evaluates to a handle to its NUL-terminated UTF-8 bytes, never freed."""

    value: str = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = HANDLE


@node
class Cast(PrimExpr):
    """``value`` converted to ``dtype`` lane by lane.

    To a narrower integer drops high bits; float to integer truncates, saturates, and turns NaN into
    0; to Bool is ``value != 0``. Handles convert only to handles.
    Errors: TIR0105.
    """

    value: PrimExpr
    dtype: DataType = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        source, target = self.value.dtype, self.dtype
        if source.lanes != target.lanes:
            refuse(
                "TIR0105",
                f"a cast from {source} to {target} changes the number of lanes",
                help=f"cast to {target.with_lanes(source.lanes)}",
                span=self.span,
            )
        if (source.is_handle or source.is_void) and not target.is_handle:
            refuse(
                "TIR0105",
                f"a {source} cannot be cast to {target}",
                help="a handle can only be cast to a handle",
                span=self.span,
            )
        if target.is_void or (target.is_handle and not (source.is_integer or source.is_handle)):
            refuse(
                "TIR0105",
                f"a {source} cannot be cast to {target}",
                help="only integers and handles can be cast to a handle",
                span=self.span,
            )


@node
class Select(PrimExpr):
    """``true_value`` where ``condition`` holds, else ``false_value``; both are always evaluated.

    Errors: TIR0106.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        condition, dtype = self.condition.dtype, self.true_value.dtype
        if not condition.is_bool:
            refuse(
                "TIR0106",
                f"the condition of Select is {condition}, not bool",
                help="compare with zero, as in x != 0",
                span=self.span,
            )
        if dtype is not self.false_value.dtype:
            refuse(
                "TIR0106",
                f"the values of Select are {dtype} and {self.false_value.dtype}",
                help="cast one of them with T.cast",
                span=self.span,
            )
        if condition.lanes not in (1, dtype.lanes):
            refuse(
                "TIR0106",
                f"the condition of Select has {condition.lanes} lanes, its values {dtype.lanes}",
                help="use a condition of one lane or of as many lanes as the values",
                span=self.span,
            )
        self.dtype = dtype


@node
class Ramp(PrimExpr):
    """The vector ``base, base + stride, base + 2 * stride, …`` of ``lanes`` lanes.

    Errors: TIR0108.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: int = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        dtype = self.base.dtype
        if self.lanes <= 1:
            refuse(
                "TIR0108",
                f"a ramp of {self.lanes} lanes is not a vector",
                help="use at least 2 lanes",
                span=self.span,
            )
        if dtype is not self.stride.dtype or not (dtype.is_integer and dtype.lanes == 1):
            refuse(
                "TIR0108",
                f"a ramp needs base and stride of one scalar integer dtype, not {dtype} and "
                f"{self.stride.dtype}",
                help="cast both to int32 or int64",
                span=self.span,
            )
        self.dtype = dtype.with_lanes(self.lanes)


@node
class Broadcast(PrimExpr):
    """The vector of ``lanes`` lanes that all hold ``value``.

    Errors: TIR0108.
    """

    value: PrimExpr
    lanes: int = attr()
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        dtype = self.value.dtype
        if self.lanes <= 1:
            refuse(
                "TIR0108",
                f"a broadcast to {self.lanes} lanes is not a vector",
                help="use at least 2 lanes",
                span=self.span,
            )
        if dtype.lanes != 1:
            refuse(
                "TIR0108",
                f"a broadcast repeats a scalar, not {with_article(dtype)}",
                help="broadcast one element, or use T.Shuffle",
                span=self.span,
            )
        self.dtype = dtype.with_lanes(self.lanes)


@node
class Let(PrimExpr):
    """``body`` with ``var`` bound to ``value`` in it.

    Errors: TIR0109.
    """

    var: Var = binds()
    value: PrimExpr
    body: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.var.dtype is not self.value.dtype:
            refuse(
                "TIR0109",
                f"variable {self.var.name_hint!r} is {self.var.dtype}, its value "
                f"{self.value.dtype}",
                help="cast the value, or declare the variable with its dtype",
                span=self.span,
            )
        self.dtype = self.body.dtype


@node
class Call(PrimExpr):
    """A call of a builtin (``Op``) or of a function of the module (``GlobalVar``).

    Arguments are evaluated left to right, unless the builtin says otherwise.
    """

    dtype: DataType = attr()
    op: Op | GlobalVar = attr()
    args: tuple[PrimExpr, ...] = child()
    span: Span | None = meta(default=None, kw_only=True)


@node
class Shuffle(PrimExpr):
    """The lanes of ``vectors``, put end to end, picked by ``indices``; one index gives a scalar.

    Errors: TIR0110.
    """

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.vectors or not self.indices:
            refuse(
                "TIR0110",
                "a shuffle needs at least one vector and one index",
                help="use T.Shuffle([v], [0]) to pick a lane",
                span=self.span,
            )
        element = self.vectors[0].dtype.element
        if any(v.dtype.element is not element for v in self.vectors):
            found = ", ".join(str(v.dtype) for v in self.vectors)
            refuse(
                "TIR0110",
                f"the vectors of a shuffle differ in element: {found}",
                help="cast them to one dtype",
                span=self.span,
            )
        total = sum(v.dtype.lanes for v in self.vectors)
        for index in self.indices:
            if not isinstance(index, IntImm) or not 0 <= index.value < total:
                refuse(
                    "TIR0110",
                    f"a shuffle of {total} lanes cannot be indexed so",
                    notes=("each index must be an integer constant",),
                    help=f"use constants from 0 to {total - 1}",
                    span=self.span,
                )
        self.dtype = element.with_lanes(len(self.indices))


# -- operators ---------------------------------------------------------------------------------


class BinaryOp(PrimExpr):
    """The base class of arithmetic on two operands of one dtype, which is the result's."""

    __slots__ = ()

    symbol: ClassVar[str] = ""
    a: PrimExpr
    b: PrimExpr

    def __post_init__(self) -> None:
        self.dtype = _operands(self)


class CmpOp(PrimExpr):
    """The base class of comparisons of two operands of one dtype; the result is Bool."""

    __slots__ = ()

    symbol: ClassVar[str] = ""
    a: PrimExpr
    b: PrimExpr

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_operands(self).lanes)


class LogicalOp(PrimExpr):
    """The base class of logic on Bool operands."""

    __slots__ = ()

    symbol: ClassVar[str] = ""


def _operands(op: Any) -> DataType:
    """Check the rule that binary operators and comparisons share."""
    left: DataType = op.a.dtype
    right: DataType = op.b.dtype
    if left is not right:
        refuse(
            "TIR0101",
            f"{type(op).__name__} needs operands of one dtype, not {left} and {right}",
            label=f"{left} {op.symbol} {right}",
            help=f"cast one of them, as in T.cast(x, {str(right if left.is_bool else left)!r})",
            span=op.span,
        )
    if left.is_handle or left.is_void:
        refuse(
            "TIR0102",
            f"{type(op).__name__} is not defined for a {left}",
            help="handles can only be passed on; load what they point to through a buffer",
            span=op.span,
        )
    return left


@node
class Add(BinaryOp):
    """``a + b``."""

    symbol: ClassVar[str] = "+"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Sub(BinaryOp):
    """``a - b``."""

    symbol: ClassVar[str] = "-"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Mul(BinaryOp):
    """``a * b``."""

    symbol: ClassVar[str] = "*"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Div(BinaryOp):
    """``a / b``; truncates towards zero for integers."""

    symbol: ClassVar[str] = "/"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Mod(BinaryOp):
    """The remainder of ``Div``; takes the sign of ``a``. Integers only (TIR0102)."""

    symbol: ClassVar[str] = "truncmod"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = dtype = _operands(self)
        if not dtype.is_integer and not dtype.is_bool:
            refuse(
                "TIR0102",
                f"Mod is defined for integers, not for {dtype}",
                help="use T.fmod for floats",
                span=self.span,
            )


@node
class FloorDiv(BinaryOp):
    """``a / b`` rounded towards minus infinity."""

    symbol: ClassVar[str] = "//"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class FloorMod(BinaryOp):
    """The remainder of ``FloorDiv``; takes the sign of ``b``."""

    symbol: ClassVar[str] = "%"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Min(BinaryOp):
    """The smaller operand; NaN where one is NaN."""

    symbol: ClassVar[str] = "min"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Max(BinaryOp):
    """The larger operand; NaN where one is NaN."""

    symbol: ClassVar[str] = "max"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class Eq(CmpOp):
    """``a == b``; false where one is NaN."""

    symbol: ClassVar[str] = "=="
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class NE(CmpOp):
    """``a != b``; true where one is NaN."""

    symbol: ClassVar[str] = "!="
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class LT(CmpOp):
    """``a < b``."""

    symbol: ClassVar[str] = "<"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class LE(CmpOp):
    """``a <= b``."""

    symbol: ClassVar[str] = "<="
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class GT(CmpOp):
    """``a > b``."""

    symbol: ClassVar[str] = ">"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class GE(CmpOp):
    """``a >= b``."""

    symbol: ClassVar[str] = ">="
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)


@node
class And(LogicalOp):
    """``a and b``; for scalars ``b`` is evaluated only where ``a`` holds."""

    symbol: ClassVar[str] = "and"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = bool_dtype(type(self), self.span, self.a.dtype, self.b.dtype)


@node
class Or(LogicalOp):
    """``a or b``; for scalars ``b`` is evaluated only where ``a`` does not hold."""

    symbol: ClassVar[str] = "or"
    a: PrimExpr
    b: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = bool_dtype(type(self), self.span, self.a.dtype, self.b.dtype)


@node
class Not(LogicalOp):
    """``not a``."""

    symbol: ClassVar[str] = "not"
    a: PrimExpr
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = bool_dtype(type(self), self.span, self.a.dtype)


# -- plain numbers -----------------------------------------------------------------------------

_INT32 = DataType("int32")
_INT64 = DataType("int64")
_FLOAT32 = DataType("float32")


def _number(value: int | float) -> str:
    if isinstance(value, int) and value.bit_length() > 512:  # more digits than can be read
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def _as_float(value: int | float, dtype: DataType, span: Span | None) -> float:
    try:
        return float(value)
    except OverflowError:
        refuse(
            "TIR0103",
            f"{_number(value)} does not fit {dtype}",
            help="use T.infinity, T.max_value, or a smaller number",
            span=span,
        )


def const(value: int | float | bool, dtype: DataType | str) -> PrimExpr:
    """Make a constant of ``dtype``; a vector dtype gives a broadcast.

    Errors: TIR0103, TIR0104.
    """
    wanted = DataType(dtype) if isinstance(dtype, str) else dtype
    if wanted.lanes > 1:
        return Broadcast(const(value, wanted.element), wanted.lanes)
    if wanted.is_float:
        return FloatImm(_as_float(value, wanted, None), wanted)
    if isinstance(value, float) and not value.is_integer():
        refuse("TIR0103", f"{value!r} does not fit {wanted}", help="use an integer or a float")
    return IntImm(int(value), wanted)


def convert(value: ExprLike | str) -> PrimExpr:
    """Make an expression of a plain value: int32 (or int64), float32, bool, or a string."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, Equality):
        return value.as_expr()
    if isinstance(value, str):
        return StringImm(value)
    number = as_number(value)
    if isinstance(number, bool):
        return IntImm(int(number), BOOL)
    if isinstance(number, int):
        small = _INT32.min_value <= number <= _INT32.max_value
        return IntImm(number, _INT32 if small else _INT64)
    return FloatImm(number, _FLOAT32)


def cast(value: PrimExpr, dtype: DataType | str) -> PrimExpr:
    """Cast if the dtype differs; a constant is converted at once if no value is lost."""
    wanted = DataType(dtype) if isinstance(dtype, str) else dtype
    if value.dtype is wanted:
        return value
    if (
        isinstance(value, IntImm)
        and wanted.is_integer
        and wanted.lanes == 1
        and wanted.min_value <= value.value <= wanted.max_value
    ):
        return IntImm(value.value, wanted, span=value.span)
    return Cast(value, wanted)


def match_dtypes(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Convert two operands to one dtype, if that loses no value.

    A plain number takes the other operand's dtype (a float beside an integer makes both float32). A
    scalar beside a vector is broadcast. The narrower of two integers of one signedness, or of two
    IEEE floats, is widened, and an integer beside a float becomes that float.
    Errors: TIR0101 for signed beside unsigned, float16 beside bfloat16, and other pairs.
    """
    a = a.as_expr() if isinstance(a, Equality) else a
    b = b.as_expr() if isinstance(b, Equality) else b
    if isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        x, y = _literal(a, b)
    elif isinstance(b, PrimExpr) and not isinstance(a, PrimExpr):
        y, x = _literal(b, a)
    else:
        x, y = convert(a), convert(b)
    if x.dtype is y.dtype:
        return x, y
    if x.dtype.lanes != y.dtype.lanes:
        if x.dtype.lanes == 1 and not x.dtype.is_handle:
            x = Broadcast(x, y.dtype.lanes)
        elif y.dtype.lanes == 1 and not y.dtype.is_handle:
            y = Broadcast(y, x.dtype.lanes)
    common = _common_dtype(x.dtype, y.dtype)
    if common is None:
        return x, y  # the operator's own constructor explains the clash
    return cast(x, common), cast(y, common)


def _literal(expr: PrimExpr, value: Any) -> tuple[PrimExpr, PrimExpr]:
    dtype, value = expr.dtype, as_number(value)
    if dtype.is_float and not isinstance(value, bool):
        return expr, const(value, dtype)
    if dtype.is_integer and isinstance(value, int) and not isinstance(value, bool):
        element = dtype.element
        if element.min_value <= value <= element.max_value:
            return expr, const(value, dtype)
        if element.is_int and element.bits < 64:
            return expr, convert(value)
        return expr, const(value, dtype)  # refused: no wider dtype of that signedness
    return expr, convert(value)


def _common_dtype(a: DataType, b: DataType) -> DataType | None:
    """Return the dtype that holds the values of both, or None."""
    if a.lanes != b.lanes or a.is_handle or b.is_handle:
        return None
    if a.code is b.code:
        return a if a.bits >= b.bits else b
    for x, y in ((a, b), (b, a)):
        if x.is_float and y.is_integer:
            return x
        if x.is_bfloat and y.is_float and y.bits > 16:
            return y
    return None
