"""Functions of ``T`` that build expressions: operators, conversions, builtins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any
from typing import cast as cast_type

from loomir.ir.module import GlobalVar
from loomir.script.builder.arguments import (
    as_dtype,
    as_expr,
    as_exprs,
    as_int,
    as_items,
    as_operand,
    as_text,
    describe,
)
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.mistakes import wrong_argument
from loomir.tir import expr as nodes
from loomir.tir.buffer import Range
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes, call_builtin
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, StringImm, Var, convert, match_dtypes
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "Binary",
    "Unary",
    "Variadic",
    "broadcast",
    "builtin",
    "cast",
    "cast_node",
    "ceildiv",
    "check_dtype",
    "declare_var",
    "float_imm",
    "global_var",
    "if_then_else",
    "int_imm",
    "is_constant_true",
    "ldexp",
    "let",
    "logical",
    "operator",
    "raise_to",
    "ramp",
    "reinterpret",
    "remainder",
    "select",
    "shuffle",
    "span_range",
    "string",
    "truth",
    "truth_not",
    "var",
]


def operator(node: type[nodes.BinaryOp] | type[nodes.CmpOp]) -> Binary:
    """Make the function of a binary node; operands are brought to one dtype."""

    def apply(a: ExprLike, b: ExprLike) -> PrimExpr:
        make = cast_type("Callable[[PrimExpr, PrimExpr], PrimExpr]", node)
        return make(*match_dtypes(as_operand(a), as_operand(b)))

    apply.__doc__ = node.__doc__
    return apply


def logical(node: type[nodes.And] | type[nodes.Or]) -> Binary:
    """Make the function of ``And`` or ``Or``; a scalar beside a vector is repeated."""

    def apply(a: ExprLike, b: ExprLike) -> PrimExpr:
        x, y = as_expr(a, "an operand"), as_expr(b, "an operand")
        return node(*(match_dtypes(x, y) if x.dtype.is_bool and y.dtype.is_bool else (x, y)))

    apply.__doc__ = node.__doc__
    return apply


def truth_not(a: ExprLike) -> PrimExpr:
    """Negate a truth value."""
    return nodes.Not(as_expr(a, "an operand"))


Unary = Callable[[ExprLike], PrimExpr]
Binary = Callable[[ExprLike, ExprLike], PrimExpr]
Variadic = Callable[..., PrimExpr]


def builtin(name: str) -> Variadic:
    """Make the function of a row of the table of builtins."""
    row = BUILTINS[name]

    def apply(*args: ExprLike | str) -> PrimExpr:
        # Where arguments may differ in dtype, a plain number keeps its own.
        mixed = row.accepts is AcceptedDTypes.ANY
        exprs = [as_expr(a, "an argument") for a in args] if mixed else as_exprs(args)
        return call_builtin(name, *exprs)

    apply.__doc__ = row.summary[:1].upper() + row.summary[1:] + "."
    apply.__name__ = name
    if row.arity is not None:
        names = [param.name for param in row.params]
        made = cast_type("Any", apply)
        made.__signature__ = _signature(names)  # which inspect and editors read
        made.counts_arguments = True
    return apply


def _signature(names: Sequence[str]) -> Signature:
    made = [Parameter(n, Parameter.POSITIONAL_ONLY, annotation="ExprLike") for n in names]
    return Signature(made, return_annotation="PrimExpr")


def check_dtype(made: object, dtype: object) -> None:
    """Check that what a builtin gives is of the dtype that ``dtype=`` says.

    Errors: TIR0114.
    """
    wanted = as_dtype(dtype)
    if isinstance(made, PrimExpr) and made.dtype is not wanted:
        raise wrong_argument(
            dtype,
            f"dtype= says {wanted}, and this gives {made.dtype}",
            code="TIR0114",
            help="convert the arguments or the result with T.cast",
        )


def raise_to(x: ExprLike, y: ExprLike) -> PrimExpr:
    """Raise x to the power y; floats."""
    return call_builtin("pow", *match_dtypes(as_operand(x), as_operand(y)))


def remainder(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the remainder of a / b truncated, with the sign of a; of floats by ``T.fmod``."""
    x, y = match_dtypes(as_operand(a), as_operand(b))
    return call_builtin("fmod", x, y) if x.dtype.is_float else nodes.Mod(x, y)


def ldexp(x: ExprLike, e: ExprLike) -> PrimExpr:
    """Multiply x by 2 to the power e, an int32."""
    return call_builtin("ldexp", as_expr(x), as_expr(e))


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> PrimExpr:
    """Return one of two values; the other is not evaluated."""
    values = match_dtypes(as_operand(true_value), as_operand(false_value))
    return call_builtin("if_then_else", as_expr(condition, "the condition"), *values)


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> PrimExpr:
    """Return one of two values; both are evaluated."""
    values = match_dtypes(as_operand(true_value), as_operand(false_value))
    return nodes.Select(as_expr(condition, "the condition"), *values)


def ceildiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return ``(a + b - 1) // b``: a / b rounded up, for b above 0 and sums that do not wrap."""
    x, y = match_dtypes(as_operand(a), as_operand(b))
    if not x.dtype.is_integer:
        raise wrong_argument(
            a,
            f"T.ceildiv takes integers, not {x.dtype}",
            code="TIR0114",
            help="round a quotient of floats up with T.ceil(a / b)",
        )
    return nodes.FloorDiv((x + y) - 1, y)


def cast(value: ExprLike, dtype: DTypeLike) -> PrimExpr:
    """Convert to a dtype; a plain number becomes a constant of it."""
    wanted = as_dtype(dtype)
    if isinstance(value, (bool, int, float)):
        return nodes.const(value, wanted)
    return nodes.cast(as_expr(value), wanted)


def cast_node(dtype: DTypeLike, value: ExprLike) -> PrimExpr:
    """Convert to a dtype by a ``Cast`` node, whatever the value is."""
    return nodes.Cast(as_expr(value), as_dtype(dtype))


def broadcast(value: ExprLike, lanes: int) -> PrimExpr:
    """Make a vector that holds one value in all lanes."""
    return nodes.Broadcast(as_expr(value), as_int(lanes, "the number of lanes"))


def ramp(base: ExprLike, stride: ExprLike, lanes: int) -> PrimExpr:
    """Make the vector base, base + stride, and so on."""
    pair = match_dtypes(as_operand(base), as_operand(stride))
    return nodes.Ramp(*pair, as_int(lanes, "the number of lanes"))


def shuffle(vectors: Sequence[ExprLike], indices: Sequence[int]) -> PrimExpr:
    """Pick lanes of vectors that are put end to end, by constant indices."""
    given = tuple(as_expr(v, "a vector") for v in as_items(vectors, "the vectors of T.Shuffle"))
    picked = as_items(indices, "the indices of T.Shuffle")
    return nodes.Shuffle(given, tuple(as_expr(i, "an index") for i in picked))


def let(body: ExprLike, where: Mapping[Var, ExprLike]) -> PrimExpr:
    """Evaluate ``body`` with variables bound, the first of ``where`` outermost."""
    if not isinstance(where, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_argument(where, "T.Let needs a dict of bindings", help="write where={x: value}")
    made = as_expr(body, "the body of T.Let")
    for var, value in reversed(list(where.items())):
        if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_argument(
                var,
                f"T.Let binds a variable, not {describe(var)}",
                help="declare it first, as in x = T.int32()",
            )
        bound = nodes.const(value, var.dtype) if isinstance(value, (int, float)) else value
        made = nodes.Let(var, as_expr(bound), made)
    return made


def reinterpret(dtype: DTypeLike, value: ExprLike) -> PrimExpr:
    """Read the bits of a value as another dtype of the same width."""
    if isinstance(dtype, PrimExpr):
        dtype, value = value, dtype  # type: ignore[assignment]  # the other order is read too
    return call_builtin("reinterpret", as_expr(value), dtype=as_dtype(dtype))


def var(dtype: DTypeLike, storage_scope: str | None = None) -> Var:
    """Declare a variable, which takes the name that it is assigned to."""
    wanted = as_dtype(dtype)
    if storage_scope is not None:
        scope = as_text(storage_scope, "the storage scope")
        return Var("", type_annotation=PointerType(PrimType(wanted), scope))
    return Var("", wanted)


def declare_var(name: str = "", dtype: DTypeLike = "int32") -> Var:
    """Declare a variable, which takes the name that it is assigned to, not the one given."""
    as_text(name, "the name of the variable")
    return Var("", as_dtype(dtype))


def int_imm(dtype: DTypeLike, value: int) -> PrimExpr:
    """Make an integer constant of a dtype."""
    return nodes.IntImm(as_int(value, "the value"), as_dtype(dtype))


def float_imm(dtype: DTypeLike, value: float | str | PrimExpr) -> PrimExpr:
    """Make a constant of a float dtype."""
    made = value.value if isinstance(value, (nodes.IntImm, nodes.FloatImm)) else value
    if isinstance(made, PrimExpr):
        raise wrong_argument(
            made, f"{describe(made)} is not a constant", help="write T.cast(…) for other values"
        )
    if not isinstance(made, (int, float)) and made not in ("inf", "-inf", "nan"):
        raise wrong_argument(
            made, f"{describe(made)} is not a number", help="write a number, as in 1.5"
        )
    return nodes.FloatImm(float(made), as_dtype(dtype))


def string(value: str) -> StringImm:
    """Make a constant string."""
    return StringImm(as_text(value, "the text"))


def global_var(name: str) -> GlobalVar:
    """Name a function of the module."""
    return GlobalVar(as_text(name, "the name of a function"))


def span_range(begin: ExprLike, extent: ExprLike | None = None) -> Range:
    """Make the range of ``extent`` integers from ``begin``."""
    return Range(as_expr(begin), None if extent is None else as_expr(extent))


def truth(value: ExprLike) -> PrimExpr:
    """Make a condition: a Python bool becomes a constant."""
    return convert(value) if isinstance(value, (bool, int)) else as_expr(value, "a condition")


def is_constant_true(condition: PrimExpr) -> bool:
    """Whether a condition is a constant other than 0."""
    return isinstance(condition, IntImm) and condition.value != 0
