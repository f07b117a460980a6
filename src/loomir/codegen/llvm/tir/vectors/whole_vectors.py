"""Emit builtins on whole vectors and on pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.codegen.llvm.assembler.types import I8, I16, I32, I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import NULL, Value, const, poison
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.vectors.dots import DOTS
from loomir.codegen.llvm.tir.vectors.tiles import dot_tiles
from loomir.ir.visit import Step
from loomir.support.dtype import DataType
from loomir.tir.builtins.hint import choose_undefined_value
from loomir.tir.expr import Call, IntImm

__all__ = ["WHOLE"]

_INT64: Final = DataType("int64")


# -- vectors -----------------------------------------------------------------------------------
def _reinterpret(frame: FunctionFrame, e: Call) -> Step[Value]:
    x: Value = yield frame.value(e.args[0])
    b, to = frame.b, register_type(e.dtype)
    if x.type is to:
        return x
    if x.type.is_ptr:
        return b.bitcast(b.ptrtoint(x, I64), to)
    if to.is_ptr:
        return b.inttoptr(b.bitcast(x, I64), to)
    return b.bitcast(x, to)


def _part(first: Callable[[int], int]) -> Callable[[FunctionFrame, Call], Step[Value]]:
    """Emit half of a vector; ``first`` computes its first lane from the lanes of a half."""

    def emit(frame: FunctionFrame, e: Call) -> Step[Value]:
        x: Value = yield frame.value(e.args[0])
        lanes = e.dtype.lanes
        start = first(lanes)
        if lanes == 1:
            return frame.b.extractelement(x, start)
        return frame.b.shufflevector(x, poison(x.type), list(range(start, start + lanes)))

    return emit


def _combine(frame: FunctionFrame, e: Call) -> Step[Value]:
    low: Value = yield frame.value(e.args[0])
    high: Value = yield frame.value(e.args[1])
    b = frame.b
    if low.type.lanes == 1:
        made = b.insertelement(poison(register_type(e.dtype)), low, 0)
        return b.insertelement(made, high, 1)
    return b.shufflevector(low, high, list(range(2 * low.type.lanes)))


def _lane_mask(frame: FunctionFrame, e: Call) -> Step[Value]:
    base: Value = yield frame.value(e.args[0])
    limit: Value = yield frame.value(e.args[1])
    b, lanes, dtype = frame.b, e.dtype.lanes, e.args[0].dtype
    x, n = (cast(b, v, dtype, _INT64) for v in (base, limit))
    below = b.icmp("slt" if dtype.bits < 64 or dtype.is_int else "ult", x, n)
    if lanes == 1:
        return below
    # If any are left, their number fits in 64 bits, and no lane's number can wrap.
    t = I64.with_lanes(lanes)
    listed = ", ".join(const(I64, i).typed for i in range(lanes))
    left = b.icmp("ult", Value(t, f"<{listed}>"), b.splat(b.sub(n, x), lanes))
    return b.and_(left, b.splat(below, lanes))


# -- pointers ----------------------------------------------------------------------------------
def _add_bytes(frame: FunctionFrame, e: Call) -> Step[Value]:
    pointer: Value = yield frame.value(e.args[0])
    offset: Value = yield frame.value(e.args[1])
    b = frame.b
    return b.gep(I8, pointer, cast(b, offset, e.args[1].dtype, _INT64))


def _is_null(frame: FunctionFrame, e: Call) -> Step[Value]:
    pointer: Value = yield frame.value(e.args[0])
    return frame.b.icmp("eq", pointer, NULL)


def _prefetch(frame: FunctionFrame, e: Call) -> Step[Value]:
    address: Value = yield frame.value(e.args[0])
    how = [const(I32, part.value) for part in e.args[1:] if isinstance(part, IntImm)]
    return frame.b.intrinsic("llvm.prefetch", [address, *how], result=VOID, overloads=[PTR])


# -- values without meaning --------------------------------------------------------------------
def _undef(frame: FunctionFrame, e: Call) -> Step[Value]:
    t, dtype = register_type(e.dtype), e.dtype
    if dtype.is_bfloat:
        return const(I16.with_lanes(dtype.lanes), 0x7FC0)
    return const(t, choose_undefined_value(dtype))
    yield


WHOLE: Final[dict[str, Callable[[FunctionFrame, Call], Step[Value]]]] = {
    "reinterpret": _reinterpret,
    "vectorlow": _part(lambda lanes: 0),
    "vectorhigh": _part(lambda lanes: lanes),
    "vectorcombine": _combine,
    **DOTS,
    "dot_tiles": dot_tiles,
    "get_active_lane_mask": _lane_mask,
    "handle_add_byte_offset": _add_bytes,
    "isnullptr": _is_null,
    "prefetch": _prefetch,
    "undef": _undef,
}
"""By name of the builtin."""
