"""Compute functions of bytes in 16 bits if no intermediate value needs more.

``int32(r) * 77 + int32(g) * 150 + int32(b) * 29 >> 8`` stays below 65,536. Vectors of 16-bit
numbers have twice as many lanes, and loads and stores need fewer conversions.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import Interval, fits
from loomir.autoschedule.ir.stage import Combine, LiftedFunction, Stage
from loomir.autoschedule.rewrite.def_use import reads_of, writes_of
from loomir.ir.node import Node
from loomir.ir.visit import by_class, children, fold, rewrite
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    Add,
    Call,
    Cast,
    FloorDiv,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
)
from loomir.tir.stmt import Stmt

__all__ = ["find_narrow", "narrow_integers"]

_DTYPES: Final = (DataType("uint16"), DataType("int16"))
_OPERATIONS: Final = (Add, Sub, Mul, Min, Max)
_SHIFT: Final = BUILTINS["shift_right"].op
_TERMS: Final = 144
"""Terms of a sum that may be narrow: those of windows, not of matrices."""
_ABS: Final = BUILTINS["abs"].op
_INT32: Final = DataType("int32")

_Narrow = tuple["PrimExpr | None", "PrimExpr | None"]
"""An expression in each of the narrow dtypes, None if it does not fit."""


def narrow_integers(kernel: LiftedFunction) -> LiftedFunction:
    """Narrow short sums of bytes between stages, and what element-wise stages compute of bytes."""
    parts = list(kernel.parts)
    buffers = list(kernel.between)
    for k, old in enumerate(kernel.between):
        new = _narrow_sums(parts, old)
        buffers[k] = new or old
    parts = [_narrow_value(part) if isinstance(part, Stage) else part for part in parts]
    if all(a is b for a, b in zip(parts, kernel.parts)):
        return kernel
    return replace(kernel, parts=tuple(parts), between=tuple(buffers))


def _narrow_sums(parts: list[Stage | Stmt], old: Buffer) -> Buffer | None:
    """Narrow sums that need no more bits, and return their new buffer."""
    users = [k for k, p in enumerate(parts) if id(old.data) in reads_of(p) | writes_of(p)]
    stage = parts[users[0]] if users and old.dtype is _INT32 else None
    if not isinstance(stage, Stage) or stage.buffer is not old or not _is_short_sum(stage):
        return None
    readers = [(k, parts[k]) for k in users[1:]]
    if any(not isinstance(p, Stage) or p.buffer.data is old.data for _, p in readers):
        return None
    assert isinstance(stage.init, IntImm)
    terms = prod(axis.size or 0 for axis in stage.reduced)
    low, high = Bounds().of(stage.value)
    sums = Interval(
        min(stage.init.value, stage.init.value + terms * low),
        max(stage.init.value, stage.init.value + terms * high),
    )
    for k, dtype in enumerate(_DTYPES):
        value = _candidates(stage.value, {})[k]
        if value is None or not fits(sums, dtype):
            continue
        new = decl_buffer(old.shape, dtype, old.name)
        init = IntImm(stage.init.value, dtype)
        parts[users[0]] = replace(stage, buffer=new, value=value, init=init)
        for place, reader in readers:
            assert isinstance(reader, Stage)
            parts[place] = _read_from(reader, old, new)
        return new
    return None


def _is_short_sum(stage: Stage) -> bool:
    if stage.combine is not Combine.SUM or not isinstance(stage.init, IntImm) or stage.block:
        return False
    terms = prod(axis.size or 0 for axis in stage.reduced)
    found = by_class(stage.value)
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    bytes_only = all(load.dtype.bits <= 8 and load.dtype.lanes == 1 for load in loads)
    return 0 < terms <= _TERMS and bool(loads) and bytes_only and Let not in found


def _read_from(stage: Stage, old: Buffer, new: Buffer) -> Stage:
    def load(e: BufferLoad) -> PrimExpr:
        return Cast(BufferLoad(new, e.indices, span=e.span), _INT32) if e.buffer is old else e

    init = None if stage.init is None else rewrite(stage.init, {BufferLoad: load})
    return replace(stage, value=rewrite(stage.value, {BufferLoad: load}), init=init)


def _narrow_value(stage: Stage) -> Stage:
    found = by_class(stage.value)
    loads: list[BufferLoad] = found.get(BufferLoad, [])
    if stage.combine is not Combine.NONE or stage.buffer.dtype.bits > 8 or Let in found:
        return stage
    if not loads or any(load.dtype.bits > 16 or load.dtype.lanes != 1 for load in loads):
        return stage
    value = _narrow(stage.value)
    return stage if value is stage.value else replace(stage, value=value)


def _candidates(value: PrimExpr, made: dict[int, PrimExpr]) -> _Narrow:
    """Return a value in each narrow dtype; add each operation, widened again, to ``made``."""
    bounds = Bounds()

    def node(e: Any, parts: list[_Narrow]) -> _Narrow:
        if not isinstance(e, PrimExpr) or e.dtype is not _INT32:
            return None, None
        inside = [fits(bounds.of(e), dtype) for dtype in _DTYPES]
        if bounds.wraps(e) or not any(inside):
            return None, None
        now = [_narrow_to(e, d, [p[k] for p in parts]) for k, d in enumerate(_DTYPES)]
        low, high = (e if ok else None for e, ok in zip(now, inside))
        best = high if low is None else low
        if isinstance(e, (*_OPERATIONS, FloorDiv, Call)) and best is not None:
            made[id(e)] = Cast(best, _INT32)
        return low, high

    return fold(value, node)


def find_narrow(value: PrimExpr) -> PrimExpr | None:
    """Return an expression of int32 in 16 bits, unsigned if possible; None if it needs more."""
    low, high = _candidates(value, {})
    return high if low is None else low


def _narrow(value: PrimExpr) -> PrimExpr:
    made: dict[int, PrimExpr] = {}
    _candidates(value, made)
    outermost: dict[int, PrimExpr] = {}
    kinds: set[type] = set()
    pending: list[Node] = [value]
    while pending:
        part = pending.pop()
        if id(part) in made:
            outermost[id(part)] = made[id(part)]
            kinds.add(type(part))
        else:
            below = children(part)
            if _computes(part) and any(id(operand) in made for operand in below):
                return value  # what is narrow would be widened at once, and the rest gains nothing
            pending += below
    if not outermost:
        return value

    def narrow(e: PrimExpr) -> PrimExpr:
        return outermost.get(id(e), e)

    return rewrite(value, dict.fromkeys(kinds, narrow))


def _computes(node: Node) -> bool:
    """Whether a node computes in 32 bits what vectors would convert operands for."""
    return isinstance(node, (*_OPERATIONS, FloorDiv)) and node.dtype is _INT32


def _narrow_to(e: PrimExpr, dtype: DataType, parts: list[PrimExpr | None]) -> PrimExpr | None:
    """Return an expression in a narrow dtype, of operands in that dtype."""
    if isinstance(e, IntImm):
        return IntImm(e.value, dtype) if dtype.min_value <= e.value <= dtype.max_value else None
    if isinstance(e, Cast):
        return Cast(e.value, dtype) if isinstance(e.value, BufferLoad) else None
    if isinstance(e, Select) or (isinstance(e, Call) and e.op is IF_THEN_ELSE):
        _, yes, no = parts
        if yes is None or no is None:
            return None
        condition = e.condition if isinstance(e, Select) else e.args[0]
        choice = (condition, yes, no)
        return Select(*choice) if isinstance(e, Select) else Call(dtype, e.op, choice)
    kind: Any = type(e)
    if isinstance(e, Call) and e.op is _ABS and dtype.min_value < 0 and parts[0] is not None:
        return Call(dtype, e.op, (parts[0],))
    operands = [part for part in parts if part is not None]
    if len(operands) != 2 or len(parts) != 2:
        return None
    if isinstance(e, _OPERATIONS):
        return kind(*operands)
    by = operands[1]
    if not isinstance(by, IntImm) or by.value <= 0:
        return None
    if isinstance(e, FloorDiv):
        return kind(*operands)
    if isinstance(e, Call) and e.op is _SHIFT and by.value < dtype.bits:
        return Call(dtype, e.op, tuple(operands))
    return None
