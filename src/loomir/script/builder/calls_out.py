"""The functions of ``T`` that call something outside of the program."""

from __future__ import annotations

from typing import Any

from loomir.ir.op import Op
from loomir.script.builder.arguments import as_dtype, as_expr, as_text
from loomir.script.builder.dtypes import DTypeLike
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Call, ExprLike, PrimExpr, StringImm, const
from loomir.tir.op import call_builtin
from loomir.tir.op_calls import (
    CALL_CPACKED,
    CALL_EXTERN,
    CALL_PACKED,
    CALL_PURE_EXTERN,
    call_outside,
)

__all__ = [
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_packed",
    "call_packed_lowered",
    "call_pure_extern",
    "tvm_call_cpacked",
    "tvm_call_cpacked_lowered",
    "tvm_call_packed",
    "tvm_call_packed_lowered",
]


def call_packed(
    name: str, *args: ExprLike | Buffer | str | None, dtype: DTypeLike = "int32"
) -> PrimExpr:
    """Call the function registered as ``name``; a buffer is passed whole.

    As a statement, what it returns is dropped; else it must fit ``dtype``.
    """
    return _packed(CALL_PACKED, name, args, dtype)


def call_cpacked(
    name: str, *args: ExprLike | Buffer | str | None, dtype: DTypeLike = "int32"
) -> PrimExpr:
    """Call the C function ``name``, which follows the calling convention of packed functions."""
    return _packed(CALL_CPACKED, name, args, dtype)


def call_extern(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call a C function, as in ``T.call_extern("float64", "cbrt", x)``.

    Without a dtype it gives an int32. A buffer is passed as the address of its data.
    """
    return _extern(CALL_EXTERN, given, dtype)


def call_pure_extern(*given: Any, dtype: DTypeLike | None = None) -> PrimExpr:
    """Call a C function that does nothing but give a value; forms as ``T.call_extern``."""
    return _extern(CALL_PURE_EXTERN, given, dtype)


def _extern(op: Op, given: tuple[Any, ...], dtype: DTypeLike | None) -> Call:
    """Read ``dtype, name, *args``, or ``name, *args``."""
    if dtype is None and given and _is_dtype(given[0]) and len(given) > 1:
        dtype, given = given[0], given[1:]
    name = given[0] if given else ""
    if isinstance(name, PrimExpr) and not isinstance(name, StringImm):
        name = ""
    made = as_dtype("int32" if dtype is None else dtype)
    passed = tuple([_argument(a) for a in given[1:]])
    return call_outside(op, as_text(name, "the function's name"), passed, made)


def _is_dtype(value: object) -> bool:
    """Whether this names a dtype, so that a function's name comes next."""
    if isinstance(value, (str, StringImm)):
        try:
            DataType(as_text(value, "a dtype"))
        except CompileError:
            return False
        return True
    return not isinstance(value, PrimExpr)


def _packed(op: Op, name: object, args: tuple[object, ...], dtype: DTypeLike) -> Call:
    passed = tuple([_argument(a) for a in args])
    return call_outside(op, as_text(name, "the function's name"), passed, as_dtype(dtype))


def _argument(value: object) -> PrimExpr:
    if isinstance(value, Buffer):
        return value.data
    if value is None:
        return call_builtin("reinterpret", const(0, DataType("uint64")), dtype=DataType("handle"))
    return as_expr(value, "an argument")


# What older texts and lowered programs write is read as the same.
tvm_call_packed = call_packed
call_packed_lowered = call_packed
tvm_call_packed_lowered = call_packed
tvm_call_cpacked = call_cpacked
call_cpacked_lowered = call_cpacked
tvm_call_cpacked_lowered = call_cpacked
