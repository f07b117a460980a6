"""The table of expressions: the visitor that emits each kind of node."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from loomir.codegen.llvm.assembler.types import I16, I64
from loomir.codegen.llvm.assembler.values import FALSE, TRUE, Value, const, poison
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.tir.access import fills_lanes, load, load_widened
from loomir.codegen.llvm.tir.arithmetic import binary, compare
from loomir.codegen.llvm.tir.calls.table import call
from loomir.codegen.llvm.tir.choice import choose
from loomir.codegen.llvm.tir.constants import range_of
from loomir.codegen.llvm.tir.division import DIVISIONS, divide
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.sums import sum_of
from loomir.ir.visit import Step
from loomir.support.dtype import BOOL, DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CmpOp,
    Eq,
    FloatImm,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)

__all__ = ["EXPRESSIONS"]

_INT64: Final = DataType("int64")


# -- leaves ------------------------------------------------------------------------------------
def _var(frame: FunctionFrame, e: Var) -> Step[Value]:
    return frame.lookup(e)
    yield


def _int(frame: FunctionFrame, e: IntImm) -> Step[Value]:
    return const(register_type(e.dtype), e.value)
    yield


def _float(frame: FunctionFrame, e: FloatImm) -> Step[Value]:
    if e.dtype.is_bfloat:
        return const(I16, _bfloat_bits(e.value))
    return const(register_type(e.dtype), e.value)
    yield


def _bfloat_bits(value: float) -> int:
    """Round to bfloat16, once: via float32 rounded to odd, which avoids double rounding."""
    if math.isnan(value):
        return 0x7FC0
    packed = struct.pack("<f", value)
    near, bits = struct.unpack("<f", packed)[0], struct.unpack("<I", packed)[0]
    if near != value:
        bits = (bits - (abs(near) > abs(value))) | 1
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _string(frame: FunctionFrame, e: StringImm) -> Step[Value]:
    return frame.b.module.string(e.value)
    yield


# -- operators ---------------------------------------------------------------------------------
def _binary(frame: FunctionFrame, e: BinaryOp) -> Step[Value]:
    x = sum_of(frame, e.a)
    if x is None:
        x = yield frame.value(e.a)
    y = sum_of(frame, e.b)
    if y is None:
        y = yield frame.value(e.b)
    if isinstance(e, DIVISIONS) and not e.dtype.is_float:
        return divide(frame, e, e.dtype, x, y)
    return binary(frame.b, type(e), e.dtype, x, y)


def _compare(frame: FunctionFrame, e: CmpOp) -> Step[Value]:
    x = sum_of(frame, e.a)
    if x is None:
        x = yield frame.value(e.a)
    y = sum_of(frame, e.b)
    if y is None:
        y = yield frame.value(e.b)
    return compare(frame.b, type(e), e.a.dtype, x, y)


def _and(frame: FunctionFrame, e: And) -> Step[Value]:
    x: Value = yield frame.value(e.a)
    if e.dtype is not BOOL:
        y: Value = yield frame.value(e.b)
        return frame.b.and_(x, y)
    return (yield choose(frame, x, e.b, FALSE))


def _or(frame: FunctionFrame, e: Or) -> Step[Value]:
    x: Value = yield frame.value(e.a)
    if e.dtype is not BOOL:
        y: Value = yield frame.value(e.b)
        return frame.b.or_(x, y)
    return (yield choose(frame, x, TRUE, e.b))


def _not(frame: FunctionFrame, e: Not) -> Step[Value]:
    x: Value = yield frame.value(e.a)
    return frame.b.not_(x)


def _select(frame: FunctionFrame, e: Select) -> Step[Value]:
    condition: Value = yield frame.value(e.condition)
    x: Value = yield frame.value(e.true_value)
    y: Value = yield frame.value(e.false_value)
    return frame.b.select(condition, x, y)


# -- conversions -------------------------------------------------------------------------------
def _cast(frame: FunctionFrame, e: Cast) -> Step[Value]:
    source, target = e.value.dtype, e.dtype
    if target is _INT64 and source.is_integer and range_of(e.value, frame.ranges) is not None:
        # No step of it wraps, so it is the same in 64 bits, and LLVM analyses such loops better.
        return (yield _widen(frame, e.value))
    if isinstance(e.value, BufferLoad) and fills_lanes(e.value, target):
        return (yield load_widened(frame, e.value, target))
    x: Value = yield frame.value(_drop_clips(e.value, target))
    if not target.is_handle:
        return cast(frame.b, x, source, target)
    if source.is_handle:
        return x
    wide = cast(frame.b, x, source, _INT64)
    return frame.b.inttoptr(wide, register_type(target))


def _drop_clips(e: PrimExpr, target: DataType) -> PrimExpr:
    """Strip clamps of a float that its saturating conversion to an integer makes redundant."""
    if not target.is_integer:
        return e
    while isinstance(e, (Max, Min)) and e.dtype.is_float:
        a, b = (x.value if isinstance(x, Broadcast) else x for x in (e.a, e.b))
        other, edge = (e.b, a) if isinstance(a, FloatImm) else (e.a, b)
        if not isinstance(edge, FloatImm):
            break
        low, high = target.element.min_value, target.element.max_value
        if not (edge.value <= low if isinstance(e, Max) else edge.value >= high):
            break
        e = other
    return e


def _widen(frame: FunctionFrame, e: PrimExpr) -> Step[Value]:
    if isinstance(e, IntImm):
        return const(I64, e.value)
    if isinstance(e, Var):
        found = frame.wide.get(e)
        return cast(frame.b, frame.lookup(e), e.dtype, _INT64) if found is None else found
    assert isinstance(e, BinaryOp)
    x: Value = yield _widen(frame, e.a)
    y: Value = yield _widen(frame, e.b)
    if isinstance(e, DIVISIONS):
        return divide(frame, e, _INT64, x, y)
    return binary(frame.b, type(e), _INT64, x, y)


# -- vectors -----------------------------------------------------------------------------------
def _ramp(frame: FunctionFrame, e: Ramp) -> Step[Value]:
    b = frame.b
    base: Value = yield frame.value(e.base)
    stride: Value = yield frame.value(e.stride)
    b = frame.b
    t = register_type(e.dtype)
    listed = ", ".join(const(t.element, i).typed for i in range(e.lanes))
    steps = b.mul(b.splat(stride, e.lanes), Value(t, f"<{listed}>"))
    return b.add(b.splat(base, e.lanes), steps)


def _broadcast(frame: FunctionFrame, e: Broadcast) -> Step[Value]:
    x: Value = yield frame.value(e.value)
    return frame.b.splat(x, e.lanes)


def _shuffle(frame: FunctionFrame, e: Shuffle) -> Step[Value]:
    vectors: list[Value] = []
    for part in e.vectors:
        x: Value = yield frame.value(part)
        vectors.append(x)
    b = frame.b
    where = [(v, lane) for v in vectors for lane in range(v.type.lanes)]
    picks = [where[i.value] for i in e.indices if isinstance(i, IntImm)]
    first = picks[0][0]
    used = {id(v): v for v, _ in picks}
    if len(picks) > 1 and first.type.lanes > 1 and len(used) == 1:
        return b.shufflevector(first, poison(first.type), [lane for _, lane in picks])
    if len(picks) > 1 and len(used) == 2 and first.type.lanes > 1:
        other = next(v for v in used.values() if v is not first)
        if other.type is first.type:
            lanes = first.type.lanes
            mask = [lane if v is first else lanes + lane for v, lane in picks]
            return b.shufflevector(first, other, mask)
    scalars = [v if v.type.lanes == 1 else b.extractelement(v, lane) for v, lane in picks]
    if len(scalars) == 1:
        return scalars[0]
    made = poison(register_type(e.dtype))
    for i, scalar in enumerate(scalars):
        made = b.insertelement(made, scalar, i)
    return made


def _let(frame: FunctionFrame, e: Let) -> Step[Value]:
    frame.env[e.var] = yield frame.value(e.value)
    return (yield frame.value(e.body))


EXPRESSIONS: Final[dict[type, Callable[[FunctionFrame, Any], Step[Value]]]] = {
    Var: _var,
    IntImm: _int,
    FloatImm: _float,
    StringImm: _string,
    **dict.fromkeys((Add, Sub, Mul, Min, Max, *DIVISIONS), _binary),
    **dict.fromkeys((Eq, NE, LT, LE, GT, GE), _compare),
    And: _and,
    Or: _or,
    Not: _not,
    Select: _select,
    Cast: _cast,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Let: _let,
    BufferLoad: load,
    Call: call,
}
