"""Emit parallel loops: the body becomes a function of a range of iterations, which the pool calls.

Two functions are emitted. One has the signature that the pool needs, and unpacks the closure; the
other does the work, with parameters marked ``noalias`` as they were outside of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Function, Param
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, Type, struct
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.support.ir.faults import FAULTED, FINE
from loomir.codegen.llvm.tir.capture import capture, define_inner
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.polling import REGION, count
from loomir.ir.visit import Step
from loomir.tir.stmt import For

__all__ = ["run_parallel"]

STACK: Final = 16384
"""The most bytes of stack that one function uses for small allocations."""

_POOL: Final = "loomir_parallel_for"


def run_parallel(
    frame: FunctionFrame,
    s: For,
    start: Value,
    stop: Value,
    base: Value | None,
    iterate: Callable[..., Step[None]],
) -> Step[None]:
    """Emit a parallel loop over ``[start, stop)``; ``iterate`` emits the loop over one share."""
    captured = capture(frame, [s.body])
    values = captured.values
    extra: list[Param] = [("begin", I64), ("end", I64)]
    if base is not None:
        values = [*values, base]
        extra.insert(0, ("base", base.type))
    symbol = f"{frame.b.function.name}.par{frame.unit.count_loop()}"
    # If LLVM inlined it into the function below, it would optimise it twice: a third of its time.
    work, inner = define_inner(frame, symbol, captured, extra, {"noinline": None})
    inner.stack_left = STACK
    share = work.params[-2:]
    yield iterate(
        inner, s, share[0], share[1], work.params[-3] if base is not None else None, exits=False
    )
    inner.close(FAULTED, FINE)
    closure = _closure_type(values)
    unpack = _define_unpack(frame, work, closure, values)
    _call_pool(frame, unpack, closure, values, start, stop)


# -- the closure -------------------------------------------------------------------------------
def _choose_stored_type(type: Type) -> Type:
    """Return the type of a value in the closure: a truth value takes a byte."""
    return I8.with_lanes(type.lanes) if type.is_int and type.bits == 1 else type


def _closure_type(values: list[Value]) -> Type:
    return struct([_choose_stored_type(v.type) for v in values])


def _define_unpack(
    frame: FunctionFrame, work: Function, closure: Type, values: list[Value]
) -> Callee:
    params = [("context", PTR), ("closure", PTR), ("begin", I64), ("end", I64)]
    made = frame.unit.module.define(f"{work.name}.share", I32, params, linkage="internal")
    b = Builder(made)
    context, packed, begin, end = made.params
    args: list[Value] = []
    for i, value in enumerate(values):
        stored = b.load(_choose_stored_type(value.type), b.field(closure, packed, i))
        same = stored.type is value.type
        args.append(stored if same else b.icmp("ne", stored, const(stored.type, 0)))
    b.ret(b.call(work, [context, *args, begin, end]))
    return made


def _call_pool(
    frame: FunctionFrame,
    unpack: Callee,
    closure: Type,
    values: list[Value],
    start: Value,
    stop: Value,
) -> None:
    b, unit = frame.b, frame.unit
    unit.needs_pool = True
    packed = b.alloca(closure, hint="closure") if values else NULL
    for i, value in enumerate(values):
        stored = (
            value
            if _choose_stored_type(value.type) is value.type
            else b.zext(value, _choose_stored_type(value.type))
        )
        b.store(stored, b.field(closure, packed, i))
    pool = unit.module.declare(_POOL, I32, [PTR, PTR, PTR, I64, I64])
    run, after = b.append("parallel"), b.append("after")
    after.continues(b.block)
    b.condbr(b.icmp("slt", start, stop), run, after)
    b.position_at_end(run)
    status: Any = b.call(pool, [unpack, packed, frame.context, start, stop])
    frame.propagate(status)
    # An interrupted pool leaves no budget, so that this stops the function.
    count(frame, const(I64, REGION))
    b.br(after)
    b.position_at_end(after)
