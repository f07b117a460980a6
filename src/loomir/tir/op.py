"""The builtins of TIR: for each its effect, what it takes, and what it gives.

A row answers every question that a constructor asks; the parser, the printer, the interpreter and
code generation look operators up here. ``Accepts`` and ``Gives`` are rules on the arguments'
dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from loomir.ir.op import Effect, Op
from loomir.support.dtype import BOOL, HANDLE, VOID, DataType
from loomir.support.span import Span
from loomir.tir.expr import Call, PrimExpr
from loomir.tir.rules import refuse

__all__ = [
    "BREAK_LOOP",
    "BUILTINS",
    "CHECK",
    "CHECKED_INDEX",
    "CONTINUE_LOOP",
    "IF_THEN_ELSE",
    "RET",
    "STACK_MAKE_ARRAY",
    "STACK_MAKE_SHAPE",
    "WATCH_ESCAPE",
    "WATCH_ITERATION",
    "WATCH_LOOP",
    "WATCH_MEMORY",
    "WATCH_READ",
    "WATCH_START",
    "WATCH_WRITE",
    "Accepts",
    "Builtin",
    "call_builtin",
    "effect_of",
]


class Accepts(Enum):
    """What arguments a builtin takes; all of one dtype unless said otherwise."""

    FLOAT = "floats"
    INTEGER = "integers"
    NUMBER = "integers or floats"
    BITS = "integers or bools"
    FLOAT_INT32 = "a float and an int32"
    CHOICE = "a bool and two values of one dtype"
    TRUTH = "a bool"
    ANY = "any values"


class Builtin(NamedTuple):
    """A row of the table; ``arity`` is None where any number of arguments goes."""

    op: Op
    arity: int | None
    accepts: Accepts
    gives: Callable[[tuple[PrimExpr, ...]], DataType]
    summary: str


def _first(args: tuple[PrimExpr, ...]) -> DataType:
    return args[0].dtype


def _second(args: tuple[PrimExpr, ...]) -> DataType:
    return args[1].dtype


def _truth(args: tuple[PrimExpr, ...]) -> DataType:
    return BOOL.with_lanes(args[0].dtype.lanes)


def _count(args: tuple[PrimExpr, ...]) -> DataType:
    return DataType("int32").with_lanes(args[0].dtype.lanes)


def _nothing(args: tuple[PrimExpr, ...]) -> DataType:
    return VOID


def _pointer(args: tuple[PrimExpr, ...]) -> DataType:
    return HANDLE


BUILTINS: Final[dict[str, Builtin]] = {}
"""Every builtin by its short name, such as ``exp``."""


def _row(
    name: str,
    arity: int | None,
    accepts: Accepts,
    gives: Callable[[tuple[PrimExpr, ...]], DataType],
    summary: str,
    effect: Effect = Effect.PURE,
) -> Op:
    op = Op.register(f"tir.{name}", effect)
    BUILTINS[name] = Builtin(op, arity, accepts, gives, summary)
    return op


for _name, _summary in {
    "exp": "e to the power x",
    "exp2": "2 to the power x",
    "exp10": "10 to the power x",
    "log": "natural logarithm",
    "log2": "logarithm to base 2",
    "log10": "logarithm to base 10",
    "log1p": "natural logarithm of 1 + x, exact near 0",
    "sqrt": "square root, correctly rounded",
    "rsqrt": "1 over the square root",
    "tanh": "hyperbolic tangent",
    "sigmoid": "1 / (1 + exp(-x))",
    "erf": "error function",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tangent",
    "sinh": "hyperbolic sine",
    "cosh": "hyperbolic cosine",
    "asin": "inverse sine",
    "acos": "inverse cosine",
    "atan": "inverse tangent",
    "asinh": "inverse hyperbolic sine",
    "acosh": "inverse hyperbolic cosine",
    "atanh": "inverse hyperbolic tangent",
    "floor": "round towards minus infinity",
    "ceil": "round towards plus infinity",
    "trunc": "round towards zero",
    "round": "round to nearest, halves to even",
    "nearbyint": "round to nearest, halves to even",
}.items():
    _row(_name, 1, Accepts.FLOAT, _first, _summary)

for _name, _summary in {
    "pow": "x to the power y",
    "atan2": "angle of the point (y, x)",
    "fmod": "remainder of x / y truncated, with the sign of x",
    "hypot": "square root of x*x + y*y, without overflow",
    "copysign": "magnitude of x with the sign of y",
    "nextafter": "the next representable value from x towards y",
}.items():
    _row(_name, 2, Accepts.FLOAT, _first, _summary)

_row("fma", 3, Accepts.FLOAT, _first, "a * b + c, rounded once")
_row("ldexp", 2, Accepts.FLOAT_INT32, _first, "x times 2 to the power e")
_row("abs", 1, Accepts.NUMBER, _first, "magnitude; the smallest integer stays itself")
_row("isnan", 1, Accepts.FLOAT, _truth, "whether x is NaN")
_row("isinf", 1, Accepts.FLOAT, _truth, "whether x is plus or minus infinity")
_row("isfinite", 1, Accepts.FLOAT, _truth, "whether x is neither infinite nor NaN")
_row("bitwise_and", 2, Accepts.BITS, _first, "bits set in both")
_row("bitwise_or", 2, Accepts.BITS, _first, "bits set in either")
_row("bitwise_xor", 2, Accepts.BITS, _first, "bits set in one only")
_row("bitwise_not", 1, Accepts.BITS, _first, "bits not set")
_row("shift_left", 2, Accepts.INTEGER, _first, "x shifted up by y modulo its width")
_row(
    "shift_right",
    2,
    Accepts.INTEGER,
    _first,
    "x shifted down by y modulo its width; keeps the sign",
)
_row("popcount", 1, Accepts.INTEGER, _count, "number of bits set")
_row("clz", 1, Accepts.INTEGER, _count, "number of zero bits above the highest set bit")
IF_THEN_ELSE: Final = _row(
    "if_then_else",
    3,
    Accepts.CHOICE,
    _second,
    "the second value or the third; the other is not evaluated",
)
_row("likely", 1, Accepts.ANY, _first, "x, expected to hold", Effect.EXPR_ANNOTATION)
_row("reinterpret", 1, Accepts.ANY, _first, "the same bits read as another dtype of the same width")
RET: Final = _row(
    "ret", 1, Accepts.ANY, _first, "leave the function with this value", Effect.CONTROL_JUMP
)
BREAK_LOOP: Final = _row(
    "break_loop", 0, Accepts.ANY, _nothing, "leave the innermost loop", Effect.CONTROL_JUMP
)
CONTINUE_LOOP: Final = _row(
    "continue_loop", 0, Accepts.ANY, _nothing, "start the next iteration", Effect.CONTROL_JUMP
)
STACK_MAKE_SHAPE: Final = _row(
    "tvm_stack_make_shape",
    None,
    Accepts.ANY,
    _pointer,
    "a shape for a call",
    Effect.SPECIAL_CALL_ARG,
)
STACK_MAKE_ARRAY: Final = _row(
    "tvm_stack_make_array",
    6,
    Accepts.ANY,
    _pointer,
    "an array argument for a call: data, shape, strides, rank, an element, offset",
    Effect.SPECIAL_CALL_ARG,
)
_STATE: Final = Effect.UPDATE_STATE
CHECKED_INDEX: Final = _row(
    "checked_index",
    4,
    Accepts.ANY,
    _first,
    "the index, or an error unless it is at least 0 and below the extent",
    Effect.UPDATE_STATE,
)
CHECK: Final = _row(
    "check",
    None,
    Accepts.ANY,
    _first,
    "the condition, or, where it is false, the error of a row of the table of faults: its name, "
    "the buffer, what about it, and values",
    Effect.UPDATE_STATE,
)
WATCH_START: Final = _row(
    "watch_start", 1, Accepts.ANY, _pointer, "the words given, set to count iterations", _STATE
)
WATCH_LOOP: Final = _row(
    "watch_loop", 2, Accepts.ANY, _pointer, "the words given, set to describe a loop", _STATE
)
WATCH_ITERATION: Final = _row(
    "watch_iteration", 2, Accepts.ANY, _nothing, "begin an iteration of a loop", _STATE
)
WATCH_MEMORY: Final = _row(
    "watch_memory",
    7,
    Accepts.ANY,
    _pointer,
    "the words given, set to describe memory: data, start, bytes, granule, stamps, marks",
    _STATE,
)
WATCH_ESCAPE: Final = _row(
    "watch_escape", 1, Accepts.ANY, _first, "memory that may be written from now on unseen", _STATE
)
WATCH_READ: Final = _row(
    "watch_read",
    None,
    Accepts.ANY,
    _first,
    "what a load gives, or an error: its memory, the loop around, its buffer, its indices",
    _STATE,
)
WATCH_WRITE: Final = _row(
    "watch_write", None, Accepts.ANY, _nothing, "what a store is about to do, or an error", _STATE
)


def call_builtin(
    name: str, *args: PrimExpr, span: Span | None = None, dtype: DataType | None = None
) -> Call:
    """Make a call of a builtin; ``dtype`` is needed for ``reinterpret`` only.

    Errors: TIR0113 for a wrong number of arguments, TIR0114 for arguments of a wrong dtype.
    """
    row = BUILTINS[name]
    if row.arity is not None and len(args) != row.arity:
        refuse(
            "TIR0113",
            f"T.{name} takes {row.arity} argument{'s' * (row.arity != 1)}, not {len(args)}",
            help=f"T.{name}: {row.summary}",
            span=span,
        )
    if not _CHECKS[row.accepts](args):
        given = ", ".join(str(a.dtype) for a in args)
        refuse(
            "TIR0114",
            f"T.{name} takes {row.accepts.value}, not {given}",
            help="convert the arguments with T.cast",
            span=span,
        )
    if name == "reinterpret":
        wanted = dtype or args[0].dtype
        if wanted.itemsize != args[0].dtype.itemsize or wanted.is_bool or args[0].dtype.is_bool:
            refuse(
                "TIR0114",
                f"T.reinterpret cannot read a {args[0].dtype} as {wanted}",
                help="use a dtype of the same number of bits",
                span=span,
            )
        return Call(wanted, row.op, args, span=span)
    try:
        gives = row.gives(args)
    except IndexError:
        refuse(
            "TIR0113",
            f"T.{name} takes more than {len(args)} arguments",
            help=f"T.{name}: {row.summary}",
            span=span,
        )
    return Call(gives, row.op, args, span=span)


def _same(args: tuple[PrimExpr, ...]) -> bool:
    return all(a.dtype is args[0].dtype for a in args)


_CHECKS: Final[dict[Accepts, Callable[[tuple[PrimExpr, ...]], bool]]] = {
    Accepts.FLOAT: lambda args: _same(args) and args[0].dtype.is_float,
    Accepts.INTEGER: lambda args: _same(args) and args[0].dtype.is_integer,
    Accepts.NUMBER: lambda args: (
        _same(args) and (args[0].dtype.is_integer or args[0].dtype.is_float)
    ),
    Accepts.BITS: lambda args: _same(args) and (args[0].dtype.is_integer or args[0].dtype.is_bool),
    Accepts.FLOAT_INT32: lambda args: (
        args[0].dtype.is_float
        and args[1].dtype is DataType("int32").with_lanes(args[0].dtype.lanes)
    ),
    Accepts.CHOICE: lambda args: args[0].dtype is BOOL and args[1].dtype is args[2].dtype,
    Accepts.TRUTH: lambda args: args[0].dtype.is_bool,
    Accepts.ANY: lambda args: True,
}


def effect_of(expr: PrimExpr) -> Effect:
    """Give what evaluating this one node may do, its parts left aside."""
    if isinstance(expr, Call):
        return expr.op.effect if isinstance(expr.op, Op) else Effect.OPAQUE
    return Effect.PURE
