"""Emit stack checks before calls, since a stack overflow would end the process.

A function that may be called from great depth checks the stack before each call. The compiler knows
how much stack all code between two checks uses at most, the *room* of the module. What it does not
know, such as registers that LLVM spills, is kept free by ``ir.stack``, which measures the stack.
The context records the depth up to which no further check is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Function, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.support.ir.faults import CONTEXT, FAULTED, FLOOR, FaultTable
from loomir.codegen.llvm.support.ir.names import HAS_STACK, MAY_LEAVE
from loomir.codegen.llvm.tir.frame import LinkedFunction, Unit
from loomir.runtime.fault import Fault
from loomir.support.span import Span
from loomir.tir.faults import fault

__all__ = [
    "call_entered",
    "define_room",
    "has_stack",
    "may_leave",
    "no_stack",
]

_ROOM: Final = "loomir.room"
_OVERHEAD: Final = 256
"""Bytes of a frame besides its allocations, for saved registers and arguments."""
_SMALL: Final = 2048
"""Bytes of stack that may be used without a check: Python itself uses more for a call."""


def no_stack(function: str, span: Span | None = None) -> Fault:
    """Describe a call for which there is no room."""
    return fault("stack", span, function=function)


def has_stack(b: Builder, context: Value, faults: FaultTable) -> Value:
    """Tell whether the stack has room for a call; the builder goes on in a new block."""
    room = b.load(I64, b.module.promise_global(_ROOM))
    return _reaches(b, context, faults, b.sub(_here(b), room))


def may_leave(b: Builder) -> Value:
    """Tell whether the stack has room for a call of Python."""
    return b.icmp("ne", b.call(b.module.declare(MAY_LEAVE, I32, [I64]), [_here(b)]), _NO)


def call_entered(
    b: Builder, unit: Unit, context: Value, linked: LinkedFunction, args: Sequence[Value]
) -> Value:
    """Call a function from outside if the stack has room for it, and return its status."""
    checked = linked.checked
    room = _room_of(checked) if isinstance(checked, Function) else 0
    if room <= _SMALL:
        return b.call(checked, args)
    fits = _reaches(b, context, unit.faults, b.sub(_here(b), const(I64, room)))
    call, none, after = (b.append(n) for n in ("call", "none", "called"))
    b.condbr(fits, call, none, meta=unit.faults.rare())
    b.position_at_end(none)
    unit.faults.record(b, context, unit.faults.add(no_stack(linked.name)), ())
    b.br(after)
    b.position_at_end(call)
    ended = b.call(checked, args)
    b.br(after)
    b.position_at_end(after)
    status = b.phi(I32)
    status.add(FAULTED, none)
    status.add(ended, call)
    return status


_NO: Final = const(I32, 0)


def _here(b: Builder) -> Value:
    """Return the lowest address of this function's frame."""
    return b.ptrtoint(b.intrinsic("llvm.stacksave", [], result=PTR, overloads=[PTR]), I64)


def _reaches(b: Builder, context: Value, faults: FaultTable, lowest: Value) -> Value:
    floor = b.load(I64, b.field(CONTEXT, context, FLOOR))
    known, ask, on = b.block, b.append("measure"), b.append("measured")
    on.continues(known)
    near = b.icmp("uge", lowest, floor)
    b.condbr(near, on, ask, meta=faults.rare())
    b.position_at_end(ask)
    answer = b.call(b.module.declare(HAS_STACK, I32, [PTR, I64]), [context, lowest])
    some = b.icmp("ne", answer, _NO)
    b.br(on)
    b.position_at_end(on)
    fits = b.phi(some.type)
    fits.add(near, known)
    fits.add(some, ask)
    return fits


# -- rooms ---------------------------------------------------------------------------------------
def define_room(module: Module) -> None:
    """Define the most stack used between two checks, once all functions of a module are emitted."""
    if module.is_promised(_ROOM):
        known: dict[Function, int] = {}
        most = max((_measure(f, known) for f in module.functions), default=0)
        module.define_global(_ROOM, const(I64, most), constant=True, linkage="internal")


def _room_of(function: Function) -> int:
    """Return the most stack that a function uses before its callees check themselves."""
    return _measure(function, {})


def _measure(function: Function, known: dict[Function, int]) -> int:
    stack = [function]
    while stack:
        part = stack[-1]
        if part not in known:
            known[part] = 0  # being measured; recursive calls check for themselves
            stack += [f for f in part.refers if f not in known]
            continue
        stack.pop()
        inner = max((known[f] for f in part.refers), default=0)
        known[part] = max(known[part], part.reserved + _OVERHEAD + inner)
    return known[function]
