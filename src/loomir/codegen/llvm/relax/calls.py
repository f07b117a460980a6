"""Emit calls: of functions of the module, closures, packed functions and operators."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.types import I64
from loomir.codegen.llvm.assembler.values import FALSE, Value, const
from loomir.codegen.llvm.relax.checks import CheckedValue, match, require_kind
from loomir.codegen.llvm.relax.frame import GraphFrame, Slot
from loomir.codegen.llvm.relax.functions import call_extern, call_global, call_value
from loomir.codegen.llvm.relax.kernel_adapters import adapt_kernel, are_proved
from loomir.codegen.llvm.relax.kernels import call_kernel, scalar_of, tensor_of, writable
from loomir.codegen.llvm.relax.leaves import facts, leaf
from loomir.codegen.llvm.relax.operators import OPERATORS
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.tir.frame import LinkedFunction
from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.expr import Call, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.signature import Parameter

__all__ = ["call", "direct_kernel", "run_kernel"]


def call(frame: GraphFrame, e: Call) -> Step[Slot]:
    """Emit a call; its result is in a new slot."""
    op = e.op
    if isinstance(op, Op):
        rule = OPERATORS.get(op.name)
        if rule is None:
            raise InternalError(f"no code for the operator {op.name}: it was not legalised")
        return (yield rule(Site(frame, e)))
    kernel = direct_kernel(frame, e)
    if kernel is not None:
        yield run_kernel(frame, kernel, e)
        return frame.take_reference(frame.graph.unit_value())
    symbol = frame.extern_of(op)
    callee: Value | None = None
    if not isinstance(op, GlobalVar) and symbol is None:
        callee = yield leaf(frame, op)
    args: list[Value] = []
    for arg in e.args:
        value: Value = yield leaf(frame, arg)
        args.append(value)
    if isinstance(op, GlobalVar):
        slot = call_global(frame, op.name_hint, args, e.span)
    elif symbol is not None:
        slot = call_extern(frame, symbol, args, e.span)
    else:
        assert callee is not None
        slot = call_value(frame, callee, op, args, e.span)
    if e.sinfo_args:
        info = e.sinfo_args[0] if len(e.sinfo_args) == 1 else TupleStructInfo(e.sinfo_args)
        name = _name(op) if symbol is None else repr(symbol)
        where = CheckedValue(faults.result_of(name), e.span, name)
        yield match(frame, frame.read(slot), info, where)
    return slot


def _name(op: RelaxExpr) -> str:
    return str(getattr(op, "name_hint", "the function"))


# -- kernels called directly -------------------------------------------------------------------
def direct_kernel(frame: GraphFrame, e: Call) -> LinkedFunction | None:
    """Return the kernel of the module that is called directly, or None."""
    return frame.graph.find_linked(e.op.name_hint) if isinstance(e.op, GlobalVar) else None


def run_kernel(frame: GraphFrame, linked: LinkedFunction, e: Call) -> Step[None]:
    """Emit a call of a kernel."""
    name = linked.name
    parameters = linked.signature.parameters
    if len(parameters) != len(e.args):
        fault = faults.wrong_count(e.span, name, len(parameters))
        frame.require(FALSE, fault, const(I64, len(e.args)))
        return
    args: list[Value] = []
    for parameter, arg in zip(parameters, e.args, strict=True):
        value: Value = yield _pass_argument(frame, name, parameter, arg, e.span)
        args.append(value)
    laid = [
        frame.find_layout(arg)
        for parameter, arg in zip(parameters, e.args, strict=True)
        if parameter.buffer is not None
    ]
    way = adapt_kernel(frame.graph, name, proved=are_proved(linked, laid))
    call_kernel(frame, linked, way, args)


def _pass_argument(
    frame: GraphFrame, name: str, p: Parameter, arg: RelaxExpr, span: Span | None
) -> Step[Value]:
    """Convert an argument to the form that a kernel takes."""
    if isinstance(arg, PrimValue) and arg.value.dtype is p.dtype and p.buffer is None:
        return (yield frame.value(arg.value))
    value: Value = yield leaf(frame, arg)
    where = CheckedValue(faults.argument(p.name), span)
    known = facts(arg)
    if p.buffer is not None:
        if not isinstance(known, TensorStructInfo):
            require_kind(frame, value, [at.TENSOR], where)
        if p.written and arg not in frame.fresh:
            writable(frame, value, name, where.where, span)
        return tensor_of(frame, value)
    return scalar_of(frame, p, value, known, span)
