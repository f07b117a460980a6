"""Emit the entry of a public function for C programs, in an exported library."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import FLOAT, I32, I64, PTR, Type, struct
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.support.ir.faults import FINE, MISFIT, open_context
from loomir.codegen.llvm.tir.entry.tvm_ffi_entry import ONCE
from loomir.codegen.llvm.tir.frame import LinkedFunction, Unit
from loomir.codegen.llvm.tir.stack import call_entered
from loomir.support.dtype import DataType
from loomir.tir.signature import Parameter

__all__ = ["c_type", "define_c_entry"]

_FLOAT32: Final = DataType("float32")


def c_type(parameter: Parameter) -> Type:
    """Return the type by which C passes an argument: small floats as ``float``, bool as int."""
    dtype = parameter.dtype
    if parameter.buffer is not None or dtype.is_handle:
        return PTR
    if dtype.is_bool:
        return I32
    return FLOAT if dtype.is_float and dtype.bits < 32 else register_type(dtype)


def define_c_entry(unit: Unit, symbol: str, linked: LinkedFunction) -> None:
    """Define ``i32 (arguments…, ptr result, ptr report)``.

    The result is 0, 1 after a fault, or 2 if the arguments do not fit. A fault is written to the
    report: ``{ i32 site, i32 status, i64 root, i64 values… }``.
    """
    parameters = linked.signature.parameters
    params = [(p.name, c_type(p)) for p in parameters]
    made = unit.module.define(
        symbol, I32, [*params, ("result", PTR), ("report", PTR)], attributes=ONCE
    )
    b = Builder(made)
    t = unit.faults.context
    *given, result, report = made.params
    context = b.alloca(t, hint="context")
    root = open_context(b, context)
    bad, fault, fine = b.append("bad"), b.append("fault"), b.append("fine")
    args: list[Value] = []
    for parameter, value in zip(parameters, given, strict=True):
        if parameter.buffer is not None:
            some = b.append("some")
            b.condbr(b.icmp("ne", value, NULL), some, bad)
            b.position_at_end(some)
        args.append(_convert_argument(b, parameter, value))
    status = call_entered(b, unit, context, linked, [context, *args, result])
    b.condbr(b.icmp("eq", status, FINE), fine, fault, meta=unit.faults.rare())
    b.position_at_end(fault)
    values = unit.faults.values
    shape = struct([I32, I32, I64, *[I64] * values])
    b.store(b.load(I32, b.field(t, context, 0)), b.field(shape, report, 0))
    b.store(status, b.field(shape, report, 1))
    b.store(root, b.field(shape, report, 2))
    for i in range(values):
        b.store(b.load(I64, b.field(t, context, 2 + i)), b.field(shape, report, 3 + i))
    b.ret(status)
    b.position_at_end(bad)
    b.ret(MISFIT)
    b.position_at_end(fine)
    b.ret(FINE)


def _convert_argument(b: Builder, parameter: Parameter, value: Value) -> Value:
    """Convert an argument to the type that the checked function takes."""
    dtype = parameter.dtype
    if parameter.buffer is not None or dtype.is_handle:
        return value
    if dtype.is_bool:
        return b.icmp("ne", value, const(I32, 0))
    if dtype.is_float and dtype.bits < 32:
        return cast(b, value, _FLOAT32, dtype)
    return value
