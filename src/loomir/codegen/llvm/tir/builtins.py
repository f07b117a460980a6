"""The table of builtins: the function that emits each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I32, I64
from loomir.codegen.llvm.assembler.values import FALSE, NOTHING, Value, const, poison
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.math.mathlib import emit_math
from loomir.codegen.llvm.tir.arithmetic import fused_multiply_add
from loomir.codegen.llvm.tir.choice import choose
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.memory import store_value
from loomir.codegen.llvm.tir.sanitizer import WATCHING
from loomir.codegen.llvm.tir.vectors.whole_vectors import WHOLE
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes
from loomir.tir.expr import Call, IntImm, StringImm
from loomir.tir.faults import fault

__all__ = ["OPS"]

_INT64: Final = DataType("int64")
PureEmitter: TypeAlias = Callable[[Builder, DataType, list[Value]], Value]
"""An emitter for evaluated arguments; the dtype is that of the first argument."""


# -- control -----------------------------------------------------------------------------------
def _ret(frame: FunctionFrame, e: Call) -> Step[Value]:
    value: Value = yield frame.value(e.args[0])
    dtype = e.args[0].dtype
    if frame.result is not None and not dtype.is_void:
        store_value(frame.b, dtype, value, frame.result)
    frame.leave()
    return NOTHING if dtype.is_void else poison(register_type(dtype))


def _break(frame: FunctionFrame, e: Call) -> Step[Value]:
    loop = frame.loops[-1] if frame.loops else None
    if loop is None or loop.exit is None:
        raise InternalError("a break of no loop, or of a parallel one, in lowered code")
    frame.jump(loop, loop.exit)
    return NOTHING
    yield


def _continue(frame: FunctionFrame, e: Call) -> Step[Value]:
    if not frame.loops:
        raise InternalError("a continue of no loop in lowered code")
    frame.jump(frame.loops[-1], frame.loops[-1].next)
    return NOTHING
    yield


def _if_then_else(frame: FunctionFrame, e: Call) -> Step[Value]:
    condition: Value = yield frame.value(e.args[0])
    return (yield choose(frame, condition, e.args[1], e.args[2]))


def _check_index(frame: FunctionFrame, e: Call) -> Step[Value]:
    index, extent, buffer, axis = e.args
    i: Value = yield frame.value(index)
    n: Value = yield frame.value(extent)
    b = frame.b
    i64 = cast(b, i, index.dtype, _INT64.with_lanes(index.dtype.lanes))
    n64 = b.splat(cast(b, n, extent.dtype, _INT64), index.dtype.lanes)
    zero = const(i64.type, 0)
    fits = b.and_(b.icmp("sge", i64, zero), b.icmp("slt", i64, n64))
    name = buffer.value if isinstance(buffer, StringImm) else "a buffer"
    number = axis.value if isinstance(axis, IntImm) else 0
    outside = fault("index", e.span, axis=number, buffer=name)
    if index.dtype.lanes == 1:
        frame.require(fits, outside, i64, n64)
    else:
        for lane in range(index.dtype.lanes):
            one = [frame.b.extractelement(v, lane) for v in (fits, i64, n64)]
            frame.require(one[0], outside, *one[1:])
    return i


def _check(frame: FunctionFrame, e: Call) -> Step[Value]:
    holds: Value = yield frame.value(e.args[0])
    row, buffer, what = [a.value if isinstance(a, StringImm) else "" for a in e.args[1:4]]
    b = frame.b
    fine, bad = b.append("fine"), b.append("broken")
    b.condbr(holds, fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    values: list[Value] = []
    for part in e.args[4:]:
        value: Value = yield frame.value(part)
        values.append(cast(frame.b, value, part.dtype, _INT64))
    frame.stop(fault(row, e.span, buffer=buffer, what=what), *values)
    frame.b.position_at_end(fine)
    return holds


def _argument_only(frame: FunctionFrame, e: Call) -> Step[Value]:
    raise InternalError(f"{e.op} is left in lowered code")
    yield


def _nothing(frame: FunctionFrame, e: Call) -> Step[Value]:
    return NOTHING
    yield


# -- bits --------------------------------------------------------------------------------------
def _amount(b: Builder, dtype: DataType, y: Value) -> Value:
    return b.and_(y, const(y.type, dtype.bits - 1))


def _shift_left(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    return b.shl(args[0], _amount(b, dtype, args[1]))


def _shift_right(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    amount = _amount(b, dtype, args[1])
    return b.ashr(args[0], amount) if dtype.is_int else b.lshr(args[0], amount)


def _count(b: Builder, counted: Value, lanes: int) -> Value:
    to = I32.with_lanes(lanes)
    if counted.type.bits == 32:
        return counted
    return b.trunc(counted, to) if counted.type.bits > 32 else b.zext(counted, to)


def _popcount(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    return _count(b, b.intrinsic("llvm.ctpop", args), dtype.lanes)


def _clz(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    return _count(b, b.intrinsic("llvm.ctlz", [args[0], FALSE]), dtype.lanes)


# -- numbers -----------------------------------------------------------------------------------
def _abs(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    if dtype.is_float:
        return emit_math(b, "abs", args, dtype)
    return b.intrinsic("llvm.abs", [args[0], FALSE]) if dtype.is_int else args[0]


def _fma(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    return fused_multiply_add(b, dtype, args[0], args[1], args[2], cast)


def _math(name: str) -> PureEmitter:
    return lambda b, dtype, args: emit_math(b, name, args, dtype)


def _shift_product(b: Builder, x: Value, y: Value, down: Value) -> Value:
    """Emit ``x * y / 2**down``, rounded with halves up; 64-bit integers hold 32-bit operands."""
    t = x.type
    zero, one, most = (const(t, n) for n in (0, 1, 63))
    product = b.mul(x, y)
    # Add half a unit, then shift right, in two steps so that neither overflows.
    before = b.intrinsic("llvm.smin", [b.sub(down, one), most])
    before = b.intrinsic("llvm.smax", [before, zero])
    rounded = b.ashr(b.add(b.ashr(product, before), one), one)
    up = b.intrinsic("llvm.smin", [b.sub(zero, down), most])
    up = b.intrinsic("llvm.smax", [up, zero])
    return b.select(b.icmp("sgt", down, zero), rounded, b.shl(product, up))


def _q_multiply_shift(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    t = I64.with_lanes(dtype.lanes)
    x, y, q, s = (b.sext(a, t) for a in args)
    return b.trunc(_shift_product(b, x, y, b.sub(q, s)), register_type(dtype))


def _q_multiply_shift_per_axis(b: Builder, dtype: DataType, args: list[Value]) -> Value:
    t = I64.with_lanes(dtype.lanes)
    x, y, left, right, q = (b.sext(a, t) for a in args[:5])
    zero = const(t, 0)
    down = b.sub(q, b.select(args[5], left, zero))
    down = b.add(down, b.select(args[6], right, zero))
    return b.trunc(_shift_product(b, x, y, down), register_type(dtype))


_FLOATS: Final = (AcceptedDTypes.FLOAT, AcceptedDTypes.FLOAT_INT32)
_PURE: Final[dict[str, PureEmitter]] = {
    **{name: _math(name) for name, row in BUILTINS.items() if row.accepts in _FLOATS},
    "likely": lambda b, dtype, args: args[0],
    "ignore_loop_partition": lambda b, dtype, args: args[0],
    "bitwise_and": lambda b, dtype, args: b.and_(args[0], args[1]),
    "bitwise_or": lambda b, dtype, args: b.or_(args[0], args[1]),
    "bitwise_xor": lambda b, dtype, args: b.xor(args[0], args[1]),
    "bitwise_not": lambda b, dtype, args: b.not_(args[0]),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "popcount": _popcount,
    "clz": _clz,
    "abs": _abs,
    "fma": _fma,
    "q_multiply_shift": _q_multiply_shift,
    "q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
}


def _strict(pure: PureEmitter) -> Callable[[FunctionFrame, Call], Step[Value]]:
    """Evaluate all arguments in order, then emit from their values."""

    def emit(frame: FunctionFrame, e: Call) -> Step[Value]:
        args: list[Value] = []
        for part in e.args:
            x: Value = yield frame.value(part)
            args.append(x)
        return pure(frame.b, e.args[0].dtype, args)

    return emit


OPS: Final[dict[Op, Callable[[FunctionFrame, Call], Step[Value]]]] = {
    BUILTINS[name].op: rule
    for name, rule in {
        "ret": _ret,
        "break_loop": _break,
        "continue_loop": _continue,
        "if_then_else": _if_then_else,
        "check": _check,
        "checked_index": _check_index,
        **WATCHING,
        "tvm_stack_make_shape": _argument_only,
        "tvm_stack_make_array": _argument_only,
        "type_annotation": _argument_only,
        "tvm_access_ptr": _argument_only,
        "address_of": _argument_only,
        "ptr_byte_offset": _argument_only,
        "assume": _nothing,
        "tvm_tuple": _nothing,
        **WHOLE,
        **{name: _strict(pure) for name, pure in _PURE.items()},
    }.items()
}
