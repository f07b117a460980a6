"""Emit calls of packed functions: arguments as ``TVMFFIAny``, to ``runtime.packed.callback``."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.types import DOUBLE, I1, I8, I32, I64, PTR, VOID, array
from loomir.codegen.llvm.assembler.values import NOTHING, NULL, Value, const
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.support.ir.faults import CONTEXT, ROOT
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.stack import may_leave, no_stack
from loomir.codegen.llvm.tir.tensor import make_tensor
from loomir.ir.visit import Step
from loomir.runtime import layout as at
from loomir.support.dtype import DataType
from loomir.tir.builtins.calls import CALL_CPACKED, name_of
from loomir.tir.builtins.table import STACK_MAKE_ARRAY
from loomir.tir.expr import Call, PrimExpr, StringImm
from loomir.tir.faults import fault

__all__ = ["call_packed"]

_INT64: Final = DataType("int64")
_FLOAT64: Final = DataType("float64")
_UNANSWERED: Final = -1


def call_packed(frame: FunctionFrame, e: Call, returns: DataType | None) -> Step[Value]:
    """Emit a call of a packed function; if ``returns`` is None, the result is dropped."""
    args = e.args[1:]
    passed: list[tuple[int, Value]] = []
    for arg in args:
        any_: tuple[int, Value] = yield _argument(frame, arg)
        passed.append(any_)
    b = frame.b
    slots = b.alloca(array(I64, 2 * len(passed)), hint="args") if passed else NULL
    for i, (kind, value) in enumerate(passed):
        b.store(const(I64, kind), b.gep(I64, slots, const(I64, 2 * i)))
        b.store(value, b.gep(I64, slots, const(I64, 2 * i + 1)))
    answer = b.alloca(array(I64, 2), hint="answer")
    content = b.gep(I8, answer, const(I64, at.ANY_VALUE))
    b.store(const(I32, _UNANSWERED), answer)
    b.store(const(I64, 0), content)
    frame.unit.needs_callback = True
    frame.require(may_leave(b), no_stack(name_of(e), e.span))
    b = frame.b
    callback = b.module.declare("loomir_call_packed", VOID, [PTR, PTR, I32, PTR, I64])
    what = b.module.string(_describe_call(e, returns))
    root = b.load(I64, b.field(CONTEXT, frame.context, ROOT))
    b.call(callback, [what, slots, const(I32, len(passed)), answer, root])
    failed = fault("callee", e.span, function=name_of(e))
    answered = b.icmp("eq", b.load(I32, answer), const(I32, _kind(returns)))
    frame.require(answered, failed, b.load(I64, content))
    return NOTHING if returns is None else _result(frame, returns, content)


def _describe_call(e: Call, returns: DataType | None) -> str:
    """Encode kind, dtypes and name of a call as ``runtime.packed.callback`` decodes them."""
    kind = "cpacked" if e.op is CALL_CPACKED else "packed"
    dtypes = ",".join(str(_dtype(arg)) for arg in e.args[1:])
    return f"{kind}|{returns or ''}|{dtypes}|{name_of(e)}"


def _dtype(arg: PrimExpr) -> DataType:
    if isinstance(arg, Call) and arg.op is STACK_MAKE_ARRAY:
        return arg.args[4].dtype
    return arg.dtype


def _kind(dtype: DataType | None) -> int:
    if dtype is None or dtype.is_void:
        return at.TYPE_NONE
    if dtype.is_handle:
        return at.TYPE_OPAQUE_PTR
    if dtype.is_float:
        return at.TYPE_FLOAT
    return at.TYPE_BOOL if dtype.is_bool else at.TYPE_INT


def _argument(frame: FunctionFrame, arg: PrimExpr) -> Step[tuple[int, Value]]:
    """Return the type index of an argument, and its 64 bits."""
    if isinstance(arg, Call) and arg.op is STACK_MAKE_ARRAY:
        tensor: Value = yield make_tensor(frame, arg)
        return at.TYPE_DLTENSOR_PTR, tensor
    value: Value = yield frame.value(arg)
    b, dtype = frame.b, arg.dtype
    if isinstance(arg, StringImm):
        return at.TYPE_RAW_STR, value
    if dtype.is_float:
        return at.TYPE_FLOAT, cast(b, value, dtype, _FLOAT64)
    if dtype.is_bool:
        return at.TYPE_BOOL, b.zext(value, I64)
    return _kind(dtype), value if dtype.is_handle else cast(b, value, dtype, _INT64)


def _result(frame: FunctionFrame, dtype: DataType, place: Value) -> Value:
    """Read the result; the callback has checked that it is in the range of its dtype."""
    b = frame.b
    if dtype.is_void:
        return NOTHING
    if dtype.is_handle:
        return b.load(PTR, place)
    if dtype.is_float:
        return cast(b, b.load(DOUBLE, place), _FLOAT64, dtype)
    whole = b.load(I64, place)
    if dtype.is_bool:
        return b.trunc(whole, I1)
    return whole if dtype.bits == 64 else b.trunc(whole, register_type(dtype))
