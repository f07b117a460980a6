"""Emit the checked entry of a function: check arrays (``DLTensor``), and bind names to them.

It accepts exactly what the signature says and the interpreter accepts. If an argument does not fit,
it returns ``MISFIT`` with a fault that says why, and has written nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loomir.codegen.llvm.assembler.text import Callee, Function
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, array
from loomir.codegen.llvm.assembler.values import Value, aggregate, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.support.ir.check_table import (
    ANY_EXTENT,
    NOT_COMPARED,
    ONE_BY_ONE,
    RECORD_DATA,
    RECORD_STRIDES,
    RECORD_WORDS,
    STRIDED,
    TOGETHER,
    WRITTEN,
)
from loomir.codegen.llvm.support.ir.checks import CHECK, LAY_OUT, OPEN
from loomir.codegen.llvm.support.ir.faults import FINE, MISFIT
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import FunctionFrame, Unit
from loomir.codegen.llvm.tir.tensor import DLTENSOR, FIELDS, header_word
from loomir.ir.visit import trampoline
from loomir.runtime.fault import Fault, FaultKind
from loomir.runtime.fault import Value as FaultValue
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.signature import Binding, Field, Parameter, Requirement, Signature

__all__ = ["define_checked"]

_INT64: Final = DataType("int64")
_FEW: Final = 5
"""Up to so many arrays, each pair that may overlap has a fault; more share one."""


@dataclass(slots=True)
class _Array:
    """An array argument: the addresses of its ``DLTensor`` and its record."""

    parameter: Parameter
    buffer: Buffer
    tensor: Value
    record: Value


def define_checked(unit: Unit, signature: Signature, checked: Function, body: Callee) -> None:
    """Write the body of ``checked``: check, bind, and go on to ``body``."""
    frame = FunctionFrame(unit, checked, checked.params[0], None)
    b = frame.b
    given = list(zip(signature.parameters, checked.params[1:-1], strict=True))
    tensors: list[tuple[Parameter, Buffer, Value]] = []
    for parameter, value in given:
        if parameter.buffer is None:
            frame.env[parameter.var] = value
        else:
            tensors.append((parameter, parameter.buffer, value))
    arrays = _check(frame, checked.name, signature, tensors) if tensors else []
    data = [b.load(PTR, b.gep(I64, a.record, const(I64, RECORD_DATA))) for a in arrays]
    bound = [frame.env[binding.var] for binding in signature.bindings]
    scalars = [frame.env[p.var] for p in signature.parameters if p.buffer is None]
    b.ret(b.call(body, [checked.params[0], *data, *bound, *scalars, checked.params[-1]]))
    for block in (frame.cleanup.fail, frame.cleanup.leave):
        b.position_at_end(block)
        b.ret(MISFIT)


def _check(
    frame: FunctionFrame,
    name: str,
    signature: Signature,
    tensors: Sequence[tuple[Parameter, Buffer, Value]],
) -> list[_Array]:
    """Check arrays, and bind what their signature binds."""
    arrays, places = _hand_over(frame, tensors)
    known = all(constant_of(r.value) is not None for r in signature.requirements)
    whole = known and not signature.bindings and not any(t[1].strides for t in tensors)
    whole = whole and all(r.source.what == "shape" for r in signature.requirements)
    where = (_table(frame, name, signature, arrays, whole), *places)
    if whole:
        _ask(frame, CHECK, *where)
        return arrays
    _ask(frame, OPEN, *where)
    found = {a.parameter.position: a for a in arrays}
    for binding in signature.bindings:
        _bind(frame, signature, found, binding)
    for requirement in signature.requirements:
        _require_number(frame, signature, found, requirement)
    _ask(frame, LAY_OUT, *where)
    return arrays


# -- tables ------------------------------------------------------------------------------------
def _hand_over(
    frame: FunctionFrame, tensors: Sequence[tuple[Parameter, Buffer, Value]]
) -> tuple[list[_Array], tuple[Value, Value]]:
    """Store the arrays' addresses in a list, reserve their records, and return both addresses."""
    b = frame.b
    room = sum(RECORD_WORDS + len(buffer.shape) for _, buffer, _ in tensors)
    records = b.alloca(array(I64, room), hint="records")
    listed = b.alloca(array(PTR, len(tensors)), hint="tensors")
    arrays: list[_Array] = []
    for i, (parameter, buffer, tensor) in enumerate(tensors):
        b.store(tensor, b.gep(PTR, listed, const(I64, i)))
        arrays.append(
            _Array(parameter, buffer, tensor, b.gep(I64, records, const(I64, RECORD_WORDS * i)))
        )
    return arrays, (listed, records)


def _ask(frame: FunctionFrame, name: str, *given: Value) -> None:
    """Call a function that checks arguments, and go on if it found no fault."""
    b = frame.b
    callee = frame.unit.module.declare(name, I32, [PTR] * 4)
    fine = b.append("fine")
    fine.continues(b.block)
    status = b.call(callee, [frame.context, *given])
    b.condbr(b.icmp("eq", status, FINE), fine, frame.cleanup.fail, meta=frame.unit.faults.rare())
    b.position_at_end(fine)


def _table(
    frame: FunctionFrame,
    name: str,
    signature: Signature,
    arrays: Sequence[_Array],
    whole: bool,
) -> Value:
    """Write the table that shared functions check arrays by, and return its address.

    It holds what is declared of each array and the numbers of its faults. ``whole``: these
    functions check everything.
    """
    faults = frame.unit.faults
    sites = [_sites(frame, each.parameter, each.buffer) for each in arrays]
    extent_site = 0
    if whole:
        extent_site = len(faults.rows)
        for requirement in signature.requirements:
            faults.add(_unequal(signature, requirement.source))
    layouts = [faults.add(_not_row_major(each.parameter)) for each in arrays]
    pairs, pair_site = _compare_arrays(frame, [each.parameter for each in arrays])
    buffers = [each.buffer for each in arrays]
    some = whole and all(0 < _bytes(buffer) < 1 << 63 for buffer in buffers)
    words = [len(arrays), faults.values, pairs, pair_site, extent_site, int(some)]
    for each, own, layout in zip(arrays, sites, layouts, strict=True):
        buffer, size = each.buffer, each.buffer.dtype.itemsize
        rank = len(buffer.shape)
        flags = WRITTEN * each.parameter.written + STRIDED * bool(buffer.strides)
        extents = [constant_of(extent) for extent in buffer.shape]
        words += [header_word(buffer.dtype, rank), size, rank, flags, *own, layout]
        words += [_bytes(buffer) if some else 0, -1 if size & (size - 1) else size - 1]
        words += [ANY_EXTENT if extent is None else extent for extent in extents]
    kind = array(I64, len(words))
    return frame.unit.module.define_global(
        f"{name}.table",
        aggregate(kind, [const(I64, word) for word in words]),
        constant=True,
        linkage="private",
        align=8,
    )


def _bytes(buffer: Buffer) -> int:
    """Return the bytes of an array; 0 if an extent is not constant."""
    return math.prod((constant_of(e) or 0 for e in buffer.shape), start=buffer.dtype.itemsize)


def _sites(frame: FunctionFrame, parameter: Parameter, buffer: Buffer) -> tuple[int, int, int]:
    """Add the faults of one array: its dtype and rank, its offset, its extents."""
    add, size = frame.unit.faults.add, buffer.dtype.itemsize
    kind = f"{parameter.name} must be an array of {buffer.dtype} with {len(buffer.shape)} axes"
    offset = f"{parameter.name} starts at a byte offset that is not a multiple of {size}"
    extents = f"{parameter.name} has extents that are missing, negative or too large"
    return (
        add(_misfit(parameter, "RUN0003", f"{kind} on the CPU")),
        add(_misfit(parameter, "RUN0011", offset)) if size > 1 else 0,
        add(_misfit(parameter, "RUN0005", extents)),
    )


def _compare_arrays(frame: FunctionFrame, parameters: Sequence[Parameter]) -> tuple[int, int]:
    """Add the faults of overlapping arrays; return how to compare arrays, and the first fault."""
    faults = frame.unit.faults
    site = len(faults.rows)
    if frame.unit.allow_alias or len(parameters) < 2:
        return NOT_COMPARED, site
    if len(parameters) > _FEW:
        names = tuple(p.name for p in parameters)
        first, second = FaultValue(0, names=names), FaultValue(1, names=names)
        message = (first, " and ", second, " overlap in memory")
        remedy = "pass copies, or compile with allow_alias"
        return TOGETHER, faults.add(_misfit(parameters[0], "RUN0008", *message, help=remedy))
    for one, other in itertools.combinations(parameters, 2):
        if one.written or other.written:
            message = f"{one.name} and {other.name} overlap in memory"
            remedy = f"pass a copy for {other.name}, or compile with allow_alias"
            faults.add(_misfit(other, "RUN0008", message, help=remedy))
    return ONE_BY_ONE, site


def _misfit(
    parameter: Parameter, code: str, *message: str | int | FaultValue, help: str = ""
) -> Fault:
    span = parameter.var.span if parameter.buffer is None else parameter.buffer.span
    label = "declared here" if span is not None else ""
    return Fault(FaultKind.BAD_SIZE, message, span, label, help=help, code=code)


def _not_row_major(parameter: Parameter) -> Fault:
    copy = f"numpy.ascontiguousarray({parameter.name})"
    if parameter.written:  # results written to a copy must be copied back
        copy = f"a row-major array for {parameter.name} and copy it back"
    remedy = f"pass {copy}, or declare the buffer's strides"
    return _misfit(parameter, "RUN0006", f"{parameter.name} must be row-major", help=remedy)


def _unequal(signature: Signature, source: Field) -> Fault:
    """Describe a wrong number: it is the fault's first value and must be the second."""
    parameter = signature.parameters[source.parameter]
    return _misfit(
        parameter,
        _CODES.get(source.what, "RUN0011"),
        f"{_describe(parameter, source)} must be ",
        1,
        ", not ",
        0,
        help=f"pass an array for {parameter.name} that fits",
    )


# -- names and numbers -------------------------------------------------------------------------
def _number(frame: FunctionFrame, arrays: dict[int, _Array], source: Field) -> Value:
    b, given = frame.b, arrays[source.parameter]
    if source.what == "shape":
        start = b.load(PTR, b.field(DLTENSOR, given.tensor, FIELDS["shape"]))
    elif source.what == "strides":
        start = b.load(PTR, b.gep(I64, given.record, const(I64, RECORD_STRIDES)))
    else:
        # The byte offset is already part of the address.
        return const(I64, 0)
    return b.load(I64, b.gep(I64, start, const(I64, source.axis)))


def _bind(
    frame: FunctionFrame, signature: Signature, arrays: dict[int, _Array], binding: Binding
) -> None:
    b = frame.b
    dtype, source = binding.var.dtype, binding.source
    found = _number(frame, arrays, source)
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
    frame: FunctionFrame, signature: Signature, arrays: dict[int, _Array], requirement: Requirement
) -> None:
    source = requirement.source
    value = trampoline(frame.value(requirement.value))
    b = frame.b
    wide = cast(b, value, requirement.value.dtype, _INT64)
    found = _number(frame, arrays, source)
    fault = _unequal(signature, source)
    frame.require(b.icmp("eq", found, wide), fault, found, wide)
