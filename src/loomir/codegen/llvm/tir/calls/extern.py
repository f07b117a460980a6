"""Emit calls of C functions, with the types that the call declares.

Each function becomes a symbol of its own, made from its name and types, whose address is resolved
when the code is loaded. So names of a program cannot clash with those of the compiler, and LLVM
assumes nothing about functions that share their name with one of the C library.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.text import Callee
from loomir.codegen.llvm.assembler.types import I8, I32, VOID, Type
from loomir.codegen.llvm.assembler.values import NOTHING, Value, const
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.runtime.packed.externs import VARIADIC
from loomir.support.dtype import DataType
from loomir.tir.builtins.calls import name_of
from loomir.tir.expr import Call

__all__ = ["call_extern"]

_INT32: Final = DataType("int32")
_FLOAT64: Final = DataType("float64")


def call_extern(frame: FunctionFrame, e: Call) -> Step[Value]:
    """Emit a call of a C function."""
    name = name_of(e)
    fixed = VARIADIC.get(name, len(e.args) - 1)
    args: list[Value] = []
    for i, arg in enumerate(e.args[1:]):
        value: Value = yield frame.value(arg)
        args.append(_promote(frame, value, arg.dtype, i >= fixed))
    b = frame.b
    types = [a.type for a in args]
    result = _declare(frame, name, e.dtype, types[:fixed], fixed < len(args))
    made = b.call(result, args)
    if e.dtype.is_void:
        return NOTHING
    return b.icmp("ne", made, const(I8, 0)) if e.dtype.is_bool else made


def _promote(frame: FunctionFrame, value: Value, dtype: DataType, variadic: bool) -> Value:
    """Extend a value that is shorter than an int, as C requires of the caller."""
    b = frame.b
    if dtype.is_bool:
        return b.zext(value, I32)
    if dtype.is_integer and dtype.bits < 32:
        return cast(b, value, dtype, _INT32)
    if variadic and dtype.is_float:
        return cast(b, value, dtype, _FLOAT64)
    return value


def _declare(
    frame: FunctionFrame, name: str, returns: DataType, types: list[Type], variadic: bool
) -> Callee:
    result = VOID if returns.is_void else I8 if returns.is_bool else register_type(returns)
    kinds = "".join(f".{t.text}" for t in (result, *types)) + (".more" if variadic else "")
    symbol = f"loomir.extern.{name}{kinds}"
    frame.unit.externs[symbol] = name
    return frame.b.module.declare(symbol, result, types, varargs=variadic)
