"""Calls: of builtins by their table, of functions of the program with arrays as ``DLTensor``."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.emit.builtins import OPS
from loomir.codegen.llvm.emit.faults import CONTEXT
from loomir.codegen.llvm.emit.frame import Frame
from loomir.codegen.llvm.emit.memory import load_value, memory_type
from loomir.codegen.llvm.emit.tensor import DLTENSOR, element_code
from loomir.codegen.llvm.floats import cast
from loomir.codegen.llvm.types import I8, I16, I32, I64, array
from loomir.codegen.llvm.values import NOTHING, NULL, Value, const
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.runtime import layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import Call, PrimExpr
from loomir.tir.faults import fault
from loomir.tir.op import STACK_MAKE_ARRAY, STACK_MAKE_SHAPE

__all__ = ["RECURSION_LIMIT", "call"]

RECURSION_LIMIT: Final = 1000
_INT64: Final = DataType("int64")


def call(frame: Frame, e: Call) -> Step[Value]:
    """Emit a call."""
    if not isinstance(e.op, Op):
        return _call_function(frame, e, e.op.name_hint)
    rule = OPS.get(e.op)
    if rule is None:
        raise InternalError(f"no code for the builtin {e.op}")
    return rule(frame, e)


def _call_function(frame: Frame, e: Call, name: str) -> Step[Value]:
    linked = frame.unit.functions.get(name)
    if linked is None:
        raise InternalError(f"lowered code calls {name!r}, which is not in the module")
    parameters = linked.signature.parameters
    if len(parameters) != len(e.args):
        raise InternalError(f"lowered code calls {name!r} with {len(e.args)} arguments")
    args: list[Value] = []
    for parameter, arg in zip(parameters, e.args, strict=True):
        if parameter.buffer is not None:
            value: Value = yield _tensor(frame, arg)
        else:
            value = yield frame.value(arg)
        args.append(value)
    b = frame.b
    slot = frame.b.field(CONTEXT, frame.context, 1)
    depth = b.load(I32, slot)
    too_deep = fault("recursion", e.span, function=name, limit=RECURSION_LIMIT)
    frame.require(b.icmp("ult", depth, const(I32, RECURSION_LIMIT)), too_deep)
    b.store(b.add(depth, const(I32, 1)), slot)
    returns = linked.returns
    result = NULL if returns.is_void else b.alloca(memory_type(returns), hint="result")
    status = b.call(linked.checked, [frame.context, *args, result])
    b.store(depth, slot)
    frame.propagate(status)
    return NOTHING if returns.is_void else load_value(b, returns, result)


def _tensor(frame: Frame, e: PrimExpr) -> Step[Value]:
    """Make the ``DLTensor`` that lowering described."""
    if not isinstance(e, Call) or e.op is not STACK_MAKE_ARRAY:
        raise InternalError("lowered code passes something else than an array")
    data, shape, strides, _, element, offset = e.args
    b = frame.b
    tensor = b.alloca(DLTENSOR, align=8, hint="tensor")
    pointer: Value = yield frame.value(data)
    shape_at: Value = yield _numbers(frame, shape)
    strides_at: Value = yield _numbers(frame, strides)
    start: Value = yield frame.value(offset)
    dtype = element.dtype
    first = cast(b, start, offset.dtype, _INT64)
    code, bits = element_code(dtype)
    fields = (
        pointer,
        const(I32, at.DEVICE_CPU),
        const(I32, 0),
        const(I32, _length(shape)),
        const(I8, code),
        const(I8, bits),
        const(I16, dtype.lanes),
        shape_at,
        strides_at,
        b.mul(first, const(I64, dtype.itemsize)),
    )
    for i, value in enumerate(fields):
        b.store(value, b.field(DLTENSOR, tensor, i))
    return tensor


def _length(shape: PrimExpr) -> int:
    return len(shape.args) if isinstance(shape, Call) else 0


def _numbers(frame: Frame, e: PrimExpr) -> Step[Value]:
    """Make an array of integers; none gives NULL."""
    if not isinstance(e, Call) or e.op is not STACK_MAKE_SHAPE:
        raise InternalError("lowered code passes an array of no shape")
    if not e.args:
        return NULL
    t = array(I64, len(e.args))
    place = frame.b.alloca(t, hint="numbers")
    for i, part in enumerate(e.args):
        value: Value = yield frame.value(part)
        b = frame.b
        b.store(cast(b, value, part.dtype, _INT64), b.gep(I64, place, const(I64, i)))
    return place
