"""Emit calls by kind of callee: functions of the module, packed functions, closures."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import FALSE, Value, const
from loomir.codegen.llvm.relax.checks import CheckedValue, require_kind
from loomir.codegen.llvm.relax.frame import GraphFrame, Slot
from loomir.codegen.llvm.relax.invoke import define_packed_code, invoke
from loomir.codegen.llvm.relax.leaves import facts
from loomir.relax import faults
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import FuncStructInfo
from loomir.runtime.fault import Fault
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span

__all__ = ["call_extern", "call_global", "call_value"]


def call_global(frame: GraphFrame, name: str, args: Sequence[Value], span: Span | None) -> Slot:
    """Call a function of the module."""
    known = frame.graph.find_function(name)
    if known is None:
        raise InternalError(f"a graph calls {name!r}, which is not in the module")
    if known.parameters != len(args):
        fault = faults.wrong_count(span, name, known.parameters)
        frame.require(FALSE, fault, const(I64, len(args)))
    return invoke(frame, known.code, known.value, args, span, name, outside=False)


def call_extern(frame: GraphFrame, symbol: str, args: Sequence[Value], span: Span | None) -> Slot:
    """Call a packed function, or a loop-level function of the module by its symbol."""
    own = frame.graph.symbols.get(symbol)
    if own is not None:
        return call_global(frame, own, args, span)
    code = define_packed_code(frame.graph)
    itself = frame.graph.find_packed(symbol, code)
    return invoke(frame, code, itself, args, span, symbol, counted=FALSE)


def call_value(
    frame: GraphFrame, callee: Value, op: RelaxExpr, args: Sequence[Value], span: Span | None
) -> Slot:
    """Call a value, which must be a closure or a packed function."""
    b = frame.b
    known = facts(op)
    name = str(getattr(op, "name_hint", "the function"))
    if not isinstance(known, FuncStructInfo):
        place = CheckedValue("what is called", span)
        require_kind(frame, callee, [at.CLOSURE, at.PACKED], place)
    if isinstance(known, FuncStructInfo) and known.params is not None:
        if len(known.params) != len(args):
            fault = faults.wrong_count(span, name, len(known.params))
            frame.require(FALSE, fault, const(I64, len(args)))
    else:
        wanted = b.load(I64, frame.word(callee, at.INFO, PTR))
        count = const(I64, len(args))
        fits = b.or_(b.icmp("slt", wanted, const(I64, 0)), b.icmp("eq", wanted, count))
        fault = faults.wrong_count(span, name, 0)
        message = (f"{name} takes ", 1, " arguments, not ", 0)
        shown = Fault(fault.kind, message, span, help=fault.help, code=fault.code)
        frame.require(fits, shown, count, wanted)
    code = frame.word(callee, at.CODE, PTR)
    counted = b.icmp("eq", frame.word(callee, at.KIND, I32), const(I32, at.CLOSURE))
    return invoke(frame, code, callee, args, span, name, counted=counted)
