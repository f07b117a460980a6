"""Calls out of a program: of packed functions and of C functions, by name.

The first argument of each is the name, a constant; the others are values. Their rows are not in
``BUILTINS``: the dtype of a result is the caller's choice, and no rule of dtypes gives it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from loomir.ir.op import Effect, Op
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import Call, PrimExpr, StringImm

__all__ = [
    "CALL_CPACKED",
    "CALL_EXTERN",
    "CALL_PACKED",
    "CALL_PURE_EXTERN",
    "EXTERN",
    "OUTSIDE",
    "PACKED",
    "ExternalCall",
    "call_outside",
    "mistake_of",
    "name_of",
    "unknown_extern",
]


class ExternalCall(NamedTuple):
    """A row of the table: ``name`` is that of ``T``.

    ``default`` is the dtype of a call that names none; if it is None, the dtype comes before the
    callee's name.
    """

    op: Op
    name: str
    default: DataType | None
    summary: str


_INT32: Final = DataType("int32")

OUTSIDE: Final[dict[Op, ExternalCall]] = {}
"""Every operator that calls something outside of the program."""


def _row(op: str, name: str, effect: Effect, default: DataType | None, summary: str) -> Op:
    made = Op.register(f"tir.{op}", effect)
    OUTSIDE[made] = ExternalCall(made, name, default, summary)
    return made


CALL_EXTERN: Final = _row(
    "call_extern",
    "call_extern",
    Effect.OPAQUE,
    None,
    "call a C function",
)
CALL_PURE_EXTERN: Final = _row(
    "call_pure_extern",
    "call_pure_extern",
    Effect.PURE,
    None,
    "call a C function that does nothing but give a value",
)

CALL_PACKED: Final = _row(
    "tvm_call_packed",
    "call_packed",
    Effect.OPAQUE,
    _INT32,
    "call a function that loomir.register_func made known",
)
CALL_CPACKED: Final = _row(
    "tvm_call_cpacked",
    "call_cpacked",
    Effect.OPAQUE,
    _INT32,
    "call a C function that follows the calling convention of packed functions",
)

PACKED: Final = frozenset({CALL_PACKED, CALL_CPACKED})
"""The operators that pass whole arrays, and whose errors are exceptions."""
EXTERN: Final = frozenset({CALL_EXTERN, CALL_PURE_EXTERN})
"""The operators that call C functions, with the types of the call."""

_C_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def call_outside(
    op: Op, name: str, args: tuple[PrimExpr, ...], dtype: DataType, span: Span | None = None
) -> Call:
    """Call something outside by its name.

    Errors: TIR0121 for the name, TIR0122 for an argument or a result that cannot be passed.
    """
    made = Call(dtype, op, (StringImm(name), *args), span=span)
    mistake = mistake_of(made)
    if mistake is not None:
        raise CompileError(mistake)
    return made


def name_of(call: Call) -> str:
    """Return the name of what is called; empty if the call has none."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, StringImm) else ""


def mistake_of(call: Call) -> Diagnostic | None:
    """Say what is wrong with a call of something outside, None if nothing is."""
    row = OUTSIDE[call.op] if isinstance(call.op, Op) else None
    assert row is not None
    name = name_of(call)
    if not name or "\0" in name:
        return Diagnostic(
            "TIR0121",
            f"T.{row.name} needs the name of what it calls",
            call.span,
            help=f'give it as a string, as in T.{row.name}("name", x)',
        )
    if row.op in EXTERN and not _C_NAME.match(name):
        return Diagnostic(
            "TIR0121",
            f"{name!r} is not the name of a C function",
            call.span,
            help="give the name of its symbol: letters, digits and underscores",
        )
    for position, arg in enumerate(call.args[1:]):
        why = _cannot_pass(arg, row.op in EXTERN)
        if why:
            return Diagnostic(
                "TIR0122",
                f"argument {position} of {name!r} {why}",
                getattr(arg, "span", None) or call.span,
                help="pass numbers, strings, handles and whole buffers",
            )
    if call.dtype.is_vector or (row.op in EXTERN and _is_short(call.dtype)):
        return Diagnostic(
            "TIR0122",
            f"{name!r} is to return {call.dtype}, which such calls cannot return",
            call.span,
            help="let the function write to a buffer that is passed to it",
        )
    return None


def unknown_extern(name: str, span: Span | None) -> Diagnostic:
    """Describe a C function that is found nowhere."""
    return Diagnostic(
        "TIR0511",
        f"there is no C function {name!r} in this process",
        span,
        help="load its library with loomir.load_library(path), or register it with "
        "loomir.register_extern(name, address)",
    )


def _is_short(dtype: DataType) -> bool:
    """Whether this is a float of less than 32 bits, for which not every C compiler has a type."""
    return dtype.is_float and dtype.bits < 32


def _cannot_pass(arg: PrimExpr, to_c: bool) -> str:
    if to_c and _is_short(arg.dtype):
        return f"is {arg.dtype}, for which C has no type on every machine: cast it to float32"
    if isinstance(arg, StringImm):
        return "is a string with a zero character in it" if "\0" in arg.value else ""
    if arg.dtype.is_vector:
        return f"is a vector, {arg.dtype}"
    return "has no value" if arg.dtype.is_void else ""
