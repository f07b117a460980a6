"""The checked way into a function: arrays come as ``DLTensor``, are checked and bound to names.

It accepts exactly what the signature says and the interpreter accepts. Where something does not
fit it returns ``MISFIT`` with a fault that says what; nothing was written then.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.emit.constants import constant_of
from loomir.codegen.llvm.emit.faults import MISFIT
from loomir.codegen.llvm.emit.frame import Frame, Unit
from loomir.codegen.llvm.emit.tensor import DLTENSOR, FIELDS, header_word
from loomir.codegen.llvm.floats import cast
from loomir.codegen.llvm.text import Callee, Function
from loomir.codegen.llvm.types import I1, I8, I32, I64, PTR, struct
from loomir.codegen.llvm.values import FALSE, NULL, TRUE, Value, const
from loomir.ir.visit import trampoline
from loomir.runtime import layout as at
from loomir.runtime.fault import Fault, FaultKind
from loomir.runtime.fault import Value as FaultValue
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr
from loomir.tir.signature import Binding, Field, Parameter, Requirement, Signature

__all__ = ["define_checked"]

_INT64: Final = DataType("int64")
_FEW: Final = 5
"""Up to so many arrays are compared in line, more in a loop: there is a pair for every two."""


@dataclass(slots=True)
class _Array:
    """An array argument: its numbers, and the bytes that it covers (once known)."""

    parameter: Parameter
    buffer: Buffer
    shape: list[Value]
    strides: list[Value]
    is_compact: Value
    data: Value
    is_empty: Value = FALSE
    low: Value = NULL
    high: Value = NULL


def define_checked(
    unit: Unit, signature: Signature, checked: Function, body: Callee, *, shared: bool = False
) -> None:
    """Write the body of ``checked``: check, bind, and go on to ``body``.

    ``shared``: arrays that are only read may overlap.
    """
    frame = Frame(unit, checked, checked.params[0], None)
    arrays: dict[int, _Array] = {}
    for parameter, value in zip(signature.parameters, checked.params[1:-1], strict=True):
        if parameter.buffer is None:
            frame.env[parameter.var] = value
        else:
            arrays[parameter.position] = _open(frame, parameter, parameter.buffer, value)
    for binding in signature.bindings:
        _bind(frame, signature, arrays, binding)
    for requirement in signature.requirements:
        _require_number(frame, signature, arrays, requirement)
    for array in arrays.values():
        _lay_out(frame, array)
    if shared and not unit.allow_alias:
        for first, second in itertools.combinations(arrays.values(), 2):
            if first.parameter.written or second.parameter.written:
                _apart(frame, first, second)
    elif not unit.allow_alias and len(arrays) > _FEW:
        _all_apart(frame, list(arrays.values()))
    elif not unit.allow_alias:
        for first, second in itertools.combinations(arrays.values(), 2):
            _apart(frame, first, second)
    b = frame.b
    data = [a.data for a in arrays.values()]
    bound = [frame.env[binding.var] for binding in signature.bindings]
    scalars = [frame.env[p.var] for p in signature.parameters if p.buffer is None]
    b.ret(b.call(body, [checked.params[0], *data, *bound, *scalars, checked.params[-1]]))
    for block in (frame.cleanup.fail, frame.cleanup.leave):
        b.at(block)
        b.ret(MISFIT)


# -- one array ---------------------------------------------------------------------------------
def _misfit(
    parameter: Parameter, code: str, *message: str | int | FaultValue, help: str = ""
) -> Fault:
    span = parameter.var.span if parameter.buffer is None else parameter.buffer.span
    label = "declared here" if span is not None else ""
    return Fault(FaultKind.BAD_SIZE, message, span, label, help=help, code=code)


def _open(frame: Frame, parameter: Parameter, buffer: Buffer, tensor: Value) -> _Array:
    """Check kind and rank, then read shape, strides and address."""
    b = frame.b
    rank = len(buffer.shape)
    # Rank and dtype fill eight bytes side by side.
    word = b.load(I64, b.field(DLTENSOR, tensor, FIELDS["ndim"]))
    device = b.load(I32, b.field(DLTENSOR, tensor, FIELDS["device"]))
    fits = b.and_(
        b.icmp("eq", word, const(I64, header_word(buffer.dtype, rank))),
        b.icmp("eq", device, const(I32, at.DEVICE_CPU)),
    )
    what = f"{parameter.name} must be an array of {buffer.dtype} with {rank} axes on the CPU"
    frame.require(fits, _misfit(parameter, "RUN0003", what))
    shape_at = b.load(PTR, b.field(DLTENSOR, tensor, FIELDS["shape"]))
    shape = [b.load(I64, b.gep(I64, shape_at, const(I64, i))) for i in range(rank)]
    strides_at = b.load(PTR, b.field(DLTENSOR, tensor, FIELDS["strides"]))
    is_compact = b.icmp("eq", strides_at, NULL)
    # NULL strides are not read: the shape is, and the result thrown away.
    readable = b.select(is_compact, shape_at, strides_at)
    compact = _row_major(frame, shape)
    strides: list[Value] = []
    for i in range(rank):
        given = b.load(I64, b.gep(I64, readable, const(I64, i)))
        strides.append(b.select(is_compact, compact[i], given))
    start = b.load(PTR, b.field(DLTENSOR, tensor, FIELDS["data"]))
    offset = b.load(I64, b.field(DLTENSOR, tensor, FIELDS["byte_offset"]))
    size = buffer.dtype.itemsize
    if size > 1:
        whole = b.icmp("eq", b.urem(offset, const(I64, size)), const(I64, 0))
        message = f"{parameter.name} starts at a byte offset that is no multiple of {size}"
        frame.require(whole, _misfit(parameter, "RUN0011", message))
    made = _Array(parameter, buffer, shape, strides, is_compact, b.gep(I8, start, offset))
    _measure(frame, made, start)
    return made


def _row_major(frame: Frame, shape: list[Value]) -> list[Value]:
    b = frame.b
    strides: list[Value] = []
    step = const(I64, 1)
    for extent in reversed(shape):
        strides.append(step)
        if len(strides) < len(shape):
            step = b.mul(step, extent)
    return strides[::-1]


def _measure(frame: Frame, array: _Array, start: Value) -> None:
    """Check that the extents make sense; NULL is the address of no elements only."""
    b = frame.b
    total, fine = const(I64, array.buffer.dtype.itemsize), TRUE
    for declared, extent in zip(array.buffer.shape, array.shape, strict=True):
        array.is_empty = b.or_(array.is_empty, b.icmp("eq", extent, const(I64, 0)))
        if constant_of(declared) is None:
            pair = b.intrinsic(
                "llvm.umul.with.overflow",
                [total, extent],
                result=struct([I64, I1]),
                overloads=[I64],
            )
            total = b.extractvalue(pair, 0)
            fine = b.and_(fine, b.icmp("sge", extent, const(I64, 0)))
            fine = b.and_(fine, b.not_(b.extractvalue(pair, 1)))
        else:
            total = b.mul(total, extent)
    fine = b.and_(fine, b.icmp("sge", total, const(I64, 0)))
    fine = b.or_(array.is_empty, b.and_(fine, b.icmp("ne", start, NULL)))
    what = f"{array.parameter.name} has extents that no memory can have, or none"
    frame.require(fine, _misfit(array.parameter, "RUN0005", what))


# -- names and numbers -------------------------------------------------------------------------
def _number(arrays: dict[int, _Array], source: Field) -> Value:
    array = arrays[source.parameter]
    if source.what == "shape":
        return array.shape[source.axis]
    # The byte offset is part of the address, so elements are counted from there.
    return array.strides[source.axis] if source.what == "strides" else const(I64, 0)


def _bind(frame: Frame, signature: Signature, arrays: dict[int, _Array], binding: Binding) -> None:
    b = frame.b
    dtype, source = binding.var.dtype, binding.source
    found = _number(arrays, source)
    value = cast(b, found, _INT64, dtype)
    if dtype.bits < 64 or dtype.is_uint:
        back = cast(b, value, dtype, _INT64)
        fits = b.icmp("eq", back, found)
        if dtype.bits == 64:
            fits = b.icmp("sge", found, const(I64, 0))
        parameter = signature.parameters[source.parameter]
        fault = _misfit(
            parameter,
            "RUN0009",
            f"{_describe(parameter, source)} is ",
            0,
            f", which does not fit {binding.var.name_hint}: it is {dtype}",
            help="declare the variable as T.int64",
        )
        frame.require(fits, fault, found)
    frame.env[binding.var] = value


def _describe(parameter: Parameter, source: Field) -> str:
    if source.what == "shape":
        return f"the extent of axis {source.axis} of {parameter.name}"
    if source.what == "strides":
        return f"the stride of axis {source.axis} of {parameter.name}"
    return f"the offset of {parameter.name}"


_CODES: Final = {"shape": "RUN0005", "strides": "RUN0006"}


def _require_number(
    frame: Frame, signature: Signature, arrays: dict[int, _Array], requirement: Requirement
) -> None:
    source = requirement.source
    value = trampoline(frame.value(requirement.value))
    b = frame.b
    wide = cast(b, value, requirement.value.dtype, _INT64)
    found = _number(arrays, source)
    parameter = signature.parameters[source.parameter]
    fault = _misfit(
        parameter,
        _CODES.get(source.what, "RUN0011"),
        f"{_describe(parameter, source)} must be ",
        1,
        ", not ",
        0,
        help=f"pass an array for {parameter.name} that has it",
    )
    frame.require(b.icmp("eq", found, wide), fault, found, wide)


# -- layout ------------------------------------------------------------------------------------
def _lay_out(frame: Frame, array: _Array) -> None:
    """Hold buffers without strides to row-major order, and find the bytes that each covers."""
    b = frame.b
    size = array.buffer.dtype.itemsize
    if array.buffer.strides:
        first, last = const(I64, 0), const(I64, 0)
        for extent, stride in zip(array.shape, array.strides, strict=True):
            move = b.mul(b.sub(extent, const(I64, 1)), stride)
            back = b.icmp("slt", move, const(I64, 0))
            first = b.add(first, b.select(back, move, const(I64, 0)))
            last = b.add(last, b.select(back, const(I64, 0), move))
        end = b.add(last, const(I64, 1))
        array.low = b.gep(I8, array.data, b.mul(first, const(I64, size)))
        array.high = b.gep(I8, array.data, b.mul(end, const(I64, size)))
        return
    shape = [_known(d, e) for d, e in zip(array.buffer.shape, array.shape, strict=True)]
    fits, step = TRUE, const(I64, 1)
    for extent, stride in zip(reversed(shape), reversed(array.strides), strict=True):
        row = b.or_(b.icmp("eq", stride, step), b.icmp("eq", extent, const(I64, 1)))
        fits = b.and_(fits, row)
        step = b.mul(step, extent)
    what = f"{array.parameter.name} must be row-major"
    remedy = (
        f"pass numpy.ascontiguousarray({array.parameter.name}), or declare the buffer's strides"
    )
    fault = _misfit(array.parameter, "RUN0006", what, help=remedy)
    frame.require(b.or_(b.or_(fits, array.is_compact), array.is_empty), fault)
    array.low = array.data
    array.high = b.gep(I8, array.data, b.mul(step, const(I64, size)))


def _known(declared: PrimExpr, extent: Value) -> Value:
    """Give a declared constant in place of the extent, which was found to equal it."""
    known = constant_of(declared)
    return extent if known is None else const(I64, known)


def _apart(frame: Frame, first: _Array, second: _Array) -> None:
    b = frame.b
    # An empty array may lie anywhere.
    apart = b.or_(b.icmp("ule", first.high, second.low), b.icmp("ule", second.high, first.low))
    empty = b.or_(first.is_empty, second.is_empty)
    names = first.parameter.name, second.parameter.name
    fault = _misfit(
        second.parameter,
        "RUN0008",
        f"{names[0]} and {names[1]} overlap in memory",
        help=f"pass a copy for {names[1]}, or compile with allow_alias",
    )
    frame.require(b.or_(apart, empty), fault)


def _all_apart(frame: Frame, arrays: list[_Array]) -> None:
    """Compare every two arrays in a function that all entries share."""
    b = frame.b
    t = struct([PTR] * len(arrays))
    tables = b.alloca(t, hint="lows"), b.alloca(t, hint="highs")
    for i, each in enumerate(arrays):
        high = b.select(each.is_empty, each.low, each.high)
        for table, value in zip(tables, (each.low, high), strict=True):
            b.store(value, b.gep(PTR, table, const(I64, i)))
    shared = frame.unit.module.find(_APART) or _define_apart(frame.unit)
    count = const(I64, len(arrays))
    pair = b.call(shared, [*tables, count])
    fits = b.icmp("slt", pair, const(I64, 0))
    names = tuple(a.parameter.name for a in arrays)
    message = (
        FaultValue(0, names=names),
        " and ",
        FaultValue(1, names=names),
        " overlap in memory",
    )
    remedy = "pass copies, or compile with allow_alias"
    misfit = _misfit(arrays[0].parameter, "RUN0008", *message, help=remedy)
    frame.require(fits, misfit, b.udiv(pair, count), b.urem(pair, count))


_APART: Final = "loomir.apart"


def _define_apart(unit: Unit) -> Callee:
    """Define ``i64 apart(lows, highs, count)``: -1 where no two stretches of bytes overlap.

    Else the numbers of the two, as ``first * count + second``.
    """
    params = [("lows", PTR), ("highs", PTR), ("count", I64)]
    made = unit.module.define(_APART, I64, params, linkage="internal")
    b = Builder(made)
    lows, highs, count = made.params
    outer, first, inner = b.append("outer"), b.append("first"), b.append("inner")
    compare, following, next_one = b.append("compare"), b.append("following"), b.append("next")
    yes, no = b.append("yes"), b.append("no")
    start = b.block
    b.br(outer)
    b.at(outer)
    i = b.phi(I64, "i")
    i.add(const(I64, 0), start)
    b.condbr(b.icmp("slt", i, count), first, yes)
    b.at(first)
    low, high = (b.load(PTR, b.gep(PTR, table, i)) for table in (lows, highs))
    begin = b.add(i, const(I64, 1))
    b.br(inner)
    b.at(inner)
    j = b.phi(I64, "j")
    j.add(begin, first)
    b.condbr(b.icmp("slt", j, count), compare, next_one)
    b.at(compare)
    other_low, other_high = (b.load(PTR, b.gep(PTR, table, j)) for table in (lows, highs))
    overlap = b.and_(b.icmp("ult", low, other_high), b.icmp("ult", other_low, high))
    filled = b.and_(b.icmp("ult", low, high), b.icmp("ult", other_low, other_high))
    b.condbr(b.and_(overlap, filled), no, following)
    b.at(following)
    j.add(b.add(j, const(I64, 1)), following)
    b.br(inner)
    b.at(next_one)
    i.add(begin, next_one)
    b.br(outer)
    b.at(yes)
    b.ret(const(I64, -1))
    b.at(no)
    b.ret(b.add(b.mul(i, count), j))
    return made
