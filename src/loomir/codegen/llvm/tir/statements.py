"""The table of statements: the visitor that emits each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.codegen.llvm.assembler.types import I64
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.tir.access import store
from loomir.codegen.llvm.tir.allocate import allocate
from loomir.codegen.llvm.tir.calls.table import run_call
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.loops import loop, while_loop
from loomir.codegen.llvm.tir.memory import memory_type
from loomir.codegen.llvm.tir.outline import run_in_pieces
from loomir.ir.visit import Step
from loomir.support.dtype import DataType
from loomir.tir.expr import Call, PrimExpr, StringImm, Var
from loomir.tir.faults import fault
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)

__all__ = ["STATEMENTS"]

_INT64: Final = DataType("int64")


def _let(frame: FunctionFrame, s: LetStmt) -> Step[None]:
    frame.env[s.var] = yield frame.value(s.value)
    if s.var.dtype.is_handle:
        frame.derived.add(s.var)
    yield frame.run(s.body)


def _attr(frame: FunctionFrame, s: AttrStmt) -> Step[None]:
    if s.attr_key == "volatile_scope" and isinstance(s.node, Var):
        frame.volatile.add(s.node)
    yield frame.run(s.body)


def _assert(frame: FunctionFrame, s: AssertStmt) -> Step[None]:
    condition: Value = yield frame.value(s.condition)
    b = frame.b
    holds, fails = b.append("holds"), b.append("fails")
    holds.continues(b.block)
    b.condbr(condition, holds, fails, meta=frame.unit.faults.rare())
    b.position_at_end(fails)
    if isinstance(s.message, StringImm):
        frame.stop(fault("assertion", s.span, text=s.message.value))
    else:
        message: Value = yield frame.value(s.message)
        number = cast(b, message, s.message.dtype, _INT64)
        frame.stop(fault("assertion_number", s.span), number)
    b.position_at_end(holds)
    yield frame.run(s.body)


def _declare(frame: FunctionFrame, s: DeclBuffer) -> Step[None]:
    buffer = s.buffer
    offset: PrimExpr | None = buffer.elem_offset
    if offset is not None and constant_of(offset) != 0:
        start: Value = yield frame.value(offset)
        b = frame.b
        elements = cast(b, start, offset.dtype, _INT64)
        elements = b.mul(elements, const(I64, buffer.dtype.lanes))
        frame.offsets[buffer] = elements
        element = memory_type(buffer.dtype.element)
        frame.views[buffer] = b.gep(element, frame.lookup(buffer.data), elements)
    yield frame.run(s.body)


def _sequence(frame: FunctionFrame, s: SeqStmt) -> Step[None]:
    if frame.unit.sizes:
        yield run_in_pieces(frame, s)
        return
    for part in s.seq:
        yield frame.run(part)


def _if(frame: FunctionFrame, s: IfThenElse) -> Step[None]:
    condition: Value = yield frame.value(s.condition)
    b = frame.b
    then, after = b.append("then"), b.append("after")
    other = after if s.else_case is None else b.append("else")
    then.inside(b.block)
    other.inside(b.block)
    after.continues(b.block)
    b.condbr(condition, then, other)
    b.position_at_end(then)
    yield frame.run(s.then_case)
    b.br(after)
    if s.else_case is not None:
        b.position_at_end(other)
        yield frame.run(s.else_case)
        b.br(after)
    b.position_at_end(after)


def _evaluate(frame: FunctionFrame, s: Evaluate) -> Step[None]:
    if isinstance(s.value, Call):
        yield run_call(frame, s.value)
    else:
        yield frame.value(s.value)


STATEMENTS: Final[dict[type, Callable[[FunctionFrame, Any], Step[None]]]] = {
    LetStmt: _let,
    AttrStmt: _attr,
    AssertStmt: _assert,
    BufferStore: store,
    Allocate: allocate,
    DeclBuffer: _declare,
    SeqStmt: _sequence,
    IfThenElse: _if,
    Evaluate: _evaluate,
    For: loop,
    While: while_loop,
}
