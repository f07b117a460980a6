"""Emit allocations: small ones of constant size on the stack, all others on the heap."""

from __future__ import annotations

import math
from typing import Final

from loomir.codegen.llvm.assembler.types import I1, I64, array, struct
from loomir.codegen.llvm.assembler.values import FALSE, NULL, TRUE, Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import ALIGNMENT, FunctionFrame
from loomir.codegen.llvm.tir.memory import memory_type
from loomir.ir.visit import Step
from loomir.support.dtype import DataType
from loomir.tir.faults import fault
from loomir.tir.stmt import Allocate

__all__ = ["allocate"]

_ON_STACK: Final = 4096
"""The most bytes of one allocation on the stack; ``stack_left`` limits those of a function."""

_INT64: Final = DataType("int64")
_UINT64: Final = DataType("uint64")


def allocate(frame: FunctionFrame, s: Allocate) -> Step[None]:
    """Emit an allocation and its body; if the condition is false, neither runs."""
    if constant_of(s.condition):
        return (yield _allocate(frame, s))
    condition: Value = yield frame.value(s.condition)
    b = frame.b
    some, after = b.append("some"), b.append("after")
    some.inside(b.block)
    after.continues(b.block)
    b.condbr(condition, some, after)
    b.position_at_end(some)
    yield _allocate(frame, s)
    b.br(after)
    b.position_at_end(after)
    return None


def _allocate(frame: FunctionFrame, s: Allocate) -> Step[None]:
    frame.owned.add(s.buffer_var)
    frame.distinct.add(s.buffer_var)
    known = [constant_of(e) for e in s.extents]
    size = s.dtype.itemsize * math.prod(-1 if n is None else n for n in known)
    if None not in known and min(known, default=1) >= 0 and size <= _ON_STACK:  # type: ignore[operator]
        count = max(1, size // memory_type(s.dtype.element).store_size)
        if size <= frame.stack_left:
            frame.stack_left -= size
            element = memory_type(s.dtype.element)
            frame.env[s.buffer_var] = frame.b.alloca(
                array(element, count), align=ALIGNMENT, hint=s.buffer_var.name_hint
            )
            yield frame.run(s.body)
            return
    size_value: Value = yield _bytes(frame, s)
    b = frame.b
    unit = frame.unit
    # C wants a size that is a multiple of the alignment, and not 0.
    rounded = b.and_(b.add(size_value, const(I64, ALIGNMENT)), const(I64, -ALIGNMENT))
    if unit.keeps_scratch:
        memory = b.call(unit.take_scratch(), [rounded])
    else:
        amounts = [const(I64, ALIGNMENT), rounded]
        memory = b.call(unit.declare_aligned_alloc(), amounts[::-1] if unit.on_windows else amounts)
    none_left = fault("allocation", s.span, buffer=s.buffer_var.name_hint)
    frame.require(b.icmp("ne", memory, NULL), none_left, size_value)
    frame.env[s.buffer_var] = memory
    outer = frame.push_cleanup(memory)
    yield frame.run(s.body)
    frame.cleanup = outer
    b.call(unit.free(), [memory])


def _bytes(frame: FunctionFrame, s: Allocate) -> Step[Value]:
    """Compute the size in bytes; negative extents and sizes of 2**63 and more are faults."""
    total = const(I64, s.dtype.itemsize)
    fine, fits, empty = TRUE, TRUE, FALSE
    for extent in s.extents:
        value: Value = yield frame.value(extent)
        b = frame.b
        wide = cast(b, value, extent.dtype, _UINT64 if extent.dtype.is_uint else _INT64)
        pair = b.intrinsic(
            "llvm.umul.with.overflow",
            [total, wide],
            result=struct([I64, I1]),
            overloads=[I64],
        )
        total = b.extractvalue(pair, 0)
        fits = b.and_(fits, b.not_(b.extractvalue(pair, 1)))
        empty = b.or_(empty, b.icmp("eq", wide, const(I64, 0)))
        if extent.dtype.is_int:
            fine = b.and_(fine, b.icmp("sge", wide, const(I64, 0)))
    b = frame.b
    fits = b.and_(fits, b.icmp("sge", total, const(I64, 0)))
    fine = b.and_(fine, b.or_(empty, fits))
    frame.require(fine, fault("size", s.span, buffer=s.buffer_var.name_hint))
    return frame.b.select(empty, const(I64, 0), total)
