"""Emit calls between functions on objects: compiled functions, and Python functions.

All functions share one signature (``unit.CODE``). The caller counts the depth of calls and checks
the remaining stack, so that no recursion can end the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Metadata
from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import FALSE, NULL, Value, const
from loomir.codegen.llvm.generated_module import PACKED_CODE
from loomir.codegen.llvm.relax.frame import GraphFrame, Slot
from loomir.codegen.llvm.relax.unit import CODE, GraphUnit
from loomir.codegen.llvm.support.ir.faults import CONTEXT, FAULTED, ROOT
from loomir.codegen.llvm.tir.polling import CALL, count
from loomir.codegen.llvm.tir.stack import has_stack, may_leave, no_stack
from loomir.relax.faults import recursion
from loomir.runtime.graph.object_layout import STATUS_RAISED
from loomir.support.span import Span
from loomir.tir.faults import fault

__all__ = [
    "BUILTIN",
    "RECURSION_LIMIT",
    "builtin",
    "define_packed_code",
    "invoke",
    "is_near",
]

RECURSION_LIMIT: Final = 1000
_STACK_LIMIT: Final = 3 << 20
"""The most bytes of stack that calls from one entry may use, however large the stack is."""
BUILTIN: Final = "loomir."
"""The prefix of functions of the language that Python runs (``runtime.graph``)."""


def invoke(
    frame: GraphFrame,
    code: Value,
    itself: Value,
    args: Sequence[Value],
    span: Span | None,
    name: str,
    *,
    outside: bool = True,
    counted: Value | None = None,
) -> Slot:
    """Call a function; its result is in a new slot.

    ``outside``: it may be a Python function. ``counted``: whether it counts towards the recursion
    limit, as calls of the program's own functions do.
    """
    b = frame.b
    depth_at = b.field(CONTEXT, frame.context, 1)
    depth = b.load(I32, depth_at)
    shallow = b.icmp("slt", depth, const(I32, RECURSION_LIMIT))
    if counted is not None:
        shallow = b.or_(shallow, b.not_(counted))
    frame.require(
        b.and_(shallow, is_near(b, frame.context)), recursion(span, name, RECURSION_LIMIT)
    )
    frame.require(has_stack(b, frame.context, frame.graph.unit.faults), no_stack(name, span))
    b.store(b.add(depth, const(I32, 1)), depth_at)
    array = frame.scratch(len(args))
    for i, arg in enumerate(args):
        b.store(arg, b.gep(PTR, array, const(I64, i)))
    slot = frame.take_slot()
    passed = [frame.context, itself, array, const(I64, len(args)), frame.slot_at(slot)]
    status = b.call_pointer(code, CODE, passed, looked=True)
    b.store(depth, depth_at)
    if outside:
        raised, on = b.append("raised"), b.append("returned")
        is_raised = b.icmp("eq", status, const(I32, STATUS_RAISED))
        b.condbr(is_raised, raised, on, meta=_never(frame))
        b.position_at_end(raised)
        frame.stop(fault("callee", span, function=name))
        b.position_at_end(on)
    frame.propagate(status)
    count(frame, const(I64, CALL))
    return slot


def is_near(b: Builder, context: Value) -> Value:
    """Tell whether the calls since the entry have used little of the stack."""
    root = b.load(I64, b.field(CONTEXT, context, ROOT))
    here = b.intrinsic("llvm.frameaddress", [const(I32, 0)], result=PTR, overloads=[PTR])
    return b.icmp("slt", b.sub(root, b.ptrtoint(here, I64)), const(I64, _STACK_LIMIT))


def _never(frame: GraphFrame) -> dict[str, Metadata]:
    metadata = frame.graph.module.metadata('!{!"branch_weights", i32 1, i32 1048576}')
    return {"prof": metadata}


def builtin(frame: GraphFrame, name: str, args: Sequence[Value], span: Span | None) -> Slot:
    """Call a function of the language that Python implements."""
    code = define_packed_code(frame.graph)
    itself = frame.graph.find_packed(BUILTIN + name, code)
    return invoke(frame, code, itself, args, span, name, counted=FALSE)


def define_packed_code(graph: GraphUnit) -> Callee:
    """Define the code of packed functions: it calls Python, passing the number of the call."""
    found = graph.module.find(PACKED_CODE)
    if found is not None:
        return found
    params = [(n, t) for n, t in zip(("context", "self", "args", "count", "result"), CODE.fields)]
    made = graph.module.define(PACKED_CODE, I32, params)
    b = Builder(made)
    context, itself, args, count, result = made.params
    room, none = b.append("room"), b.append("none")
    b.condbr(may_leave(b), room, none, meta=graph.unit.faults.rare())
    b.position_at_end(none)
    site = graph.unit.faults.add(no_stack("a function of Python"))
    graph.unit.faults.record(b, context, site, ())
    b.ret(FAULTED)
    b.position_at_end(room)
    call = graph.module.declare("loomir_call_object", I32, [I64, PTR, PTR, I64, PTR])
    token = b.load(I64, b.field(graph.context, context, len(graph.context.fields) - 1))
    status = b.call(call, [token, itself, args, count, result])
    # Python was interrupted before it could report that it raised.
    silent = b.icmp("eq", b.load(PTR, result), NULL)
    b.ret(b.select(silent, const(I32, STATUS_RAISED), status))
    return made
