"""Emit calls: of builtins by their table, of program functions with arrays as ``DLTensor``."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.types import I32, I64
from loomir.codegen.llvm.assembler.values import NOTHING, NULL, Value, const
from loomir.codegen.llvm.tir.builtins import OPS
from loomir.codegen.llvm.tir.calls.extern import call_extern
from loomir.codegen.llvm.tir.calls.packed_call import call_packed
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.memory import load_value, memory_type
from loomir.codegen.llvm.tir.polling import CALL, count
from loomir.codegen.llvm.tir.stack import has_stack, no_stack
from loomir.codegen.llvm.tir.tensor import make_tensor
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.support.diagnostics import InternalError
from loomir.tir.builtins.calls import EXTERN, PACKED
from loomir.tir.expr import Call
from loomir.tir.faults import fault

__all__ = ["RECURSION_LIMIT", "call", "run_call"]

RECURSION_LIMIT: Final = 1000


def call(frame: FunctionFrame, e: Call) -> Step[Value]:
    """Emit a call."""
    if not isinstance(e.op, Op):
        return _call_function(frame, e, e.op.name_hint)
    if e.op in PACKED:
        return call_packed(frame, e, e.dtype)
    if e.op in EXTERN:
        return call_extern(frame, e)
    rule = OPS.get(e.op)
    if rule is None:
        raise InternalError(f"no code for the builtin {e.op}")
    return rule(frame, e)


def run_call(frame: FunctionFrame, e: Call) -> Step[Value]:
    """Emit a call whose value is not used."""
    return call_packed(frame, e, None) if e.op in PACKED else call(frame, e)


def _call_function(frame: FunctionFrame, e: Call, name: str) -> Step[Value]:
    linked = frame.unit.functions.get(name)
    if linked is None:
        raise InternalError(f"lowered code calls {name!r}, which is not in the module")
    parameters = linked.signature.parameters
    if len(parameters) != len(e.args):
        raise InternalError(f"lowered code calls {name!r} with {len(e.args)} arguments")
    args: list[Value] = []
    for parameter, arg in zip(parameters, e.args, strict=True):
        if parameter.buffer is not None:
            value: Value = yield make_tensor(frame, arg)
        else:
            value = yield frame.value(arg)
        args.append(value)
    b = frame.b
    slot = frame.b.field(frame.unit.faults.context, frame.context, 1)
    depth = b.load(I32, slot)
    too_deep = fault("recursion", e.span, function=name, limit=RECURSION_LIMIT)
    frame.require(b.icmp("ult", depth, const(I32, RECURSION_LIMIT)), too_deep)
    frame.require(has_stack(b, frame.context, frame.unit.faults), no_stack(name, e.span))
    b.store(b.add(depth, const(I32, 1)), slot)
    returns = linked.returns
    result = NULL if returns.is_void else b.alloca(memory_type(returns), hint="result")
    status = b.call(linked.checked, [frame.context, *args, result], looked=True)
    b.store(depth, slot)
    frame.propagate(status)
    count(frame, const(I64, CALL))
    return NOTHING if returns.is_void else load_value(b, returns, result)
