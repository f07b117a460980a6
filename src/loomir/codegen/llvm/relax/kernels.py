"""Emit calls of kernels from graphs, with the tensors in objects as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Function
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.relax.boxes import unbox
from loomir.codegen.llvm.relax.checks import CheckedValue, require_dtype, require_kind
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.unit import GraphUnit, dtype_word, word_of
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.frame import LinkedFunction
from loomir.codegen.llvm.tir.memory import memory_type
from loomir.relax import faults
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import OBJECT, PrimStructInfo
from loomir.runtime.fault import Fault, FaultKind
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import Add, IntImm, Max, Min, Mul, PrimExpr
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.signature import Parameter

__all__ = [
    "COLD",
    "allocate",
    "call_kernel",
    "define_adapter",
    "is_never_negative",
    "scalar_of",
    "tensor_of",
]

_INT64: Final = DataType("int64")


def tensor_of(frame: GraphFrame, value: Value) -> Value:
    """Return the address of a tensor's DLTensor."""
    return place(frame.b, value, at.TENSOR_DLTENSOR)


def allocate(
    frame: GraphFrame,
    extents: Sequence[Value],
    exprs: Sequence[PrimExpr],
    dtype: DataType,
    what: str,
    span: Span | None,
) -> Value:
    """Make a tensor, kept until the current binding is done."""
    b = frame.b
    for axis, (extent, expr) in enumerate(zip(extents, exprs, strict=True)):
        if not is_never_negative(frame, expr):
            fault = faults.negative_extent(span, what, f"of axis {axis}")
            frame.require(b.icmp("sge", extent, const(I64, 0)), fault, extent)
    if all(isinstance(e, IntImm) for e in exprs):
        shape = frame.graph.numbers(tuple(e.value for e in exprs if isinstance(e, IntImm)))
    else:
        shape = frame.scratch(len(extents))
        for i, extent in enumerate(extents):
            b.store(extent, b.gep(I64, shape, const(I64, i)))
    return allocate_at(frame, shape, len(extents), dtype, what, span)


def allocate_at(
    frame: GraphFrame,
    shape: Value,
    rank: int | Value,
    dtype: DataType,
    what: str,
    span: Span | None,
) -> Value:
    """Make a tensor from extents in memory, none of them negative."""
    b = frame.b
    word = const(I64, word_of(dtype, rank if isinstance(rank, int) else 0))
    if not isinstance(rank, int):
        word = b.or_(word, rank)
    given = (word, shape, const(I64, dtype.itemsize))
    made = b.call(frame.graph.object_function("loomir_tensor_new"), given)
    fine, bad = b.append("made"), b.append("none")
    b.condbr(b.icmp("ne", made, NULL), fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    site = frame.unit.faults.add(faults.size_too_large(span, what, dtype))
    frame.unit.faults.add(faults.no_memory(span, what))
    b.call(_define_unmade(frame.graph), [frame.context, *given, const(I32, site)])
    b.br(frame.cleanup.fail)
    b.position_at_end(fine)
    return frame.keep(made)


COLD: Final[dict[str, str | None]] = {"cold": None, "noinline": None}


def _define_unmade(graph: GraphUnit) -> Callee:
    """Define the function that reports why a tensor was not made: too large, or no memory."""
    found = graph.module.find("loomir.unmade")
    if found is not None:
        return found
    params = [("context", PTR), ("word", I64), ("shape", PTR), ("size", I64), ("site", I32)]
    made = graph.module.define("loomir.unmade", VOID, params, linkage="internal", attributes=COLD)
    b = Builder(made)
    context, word, shape, item, site = made.params
    size = b.call(graph.object_function("loomir_tensor_bytes"), [word, shape, item])
    large = b.icmp("slt", size, const(I64, 0))
    following = b.add(site, const(I32, 1))
    graph.unit.faults.record_at(b, context, b.select(large, site, following), (size,))
    b.ret()
    return made


_SUMS: Final = (Add, Mul, Min, Max)


def is_never_negative(frame: GraphFrame, expr: PrimExpr) -> bool:
    """Tell whether an extent is certainly not negative."""
    if isinstance(expr, _SUMS):
        return all(_is_size(frame, part) for part in (expr.a, expr.b))
    return _is_size(frame, expr)


def _is_size(frame: GraphFrame, expr: PrimExpr) -> bool:
    if isinstance(expr, IntImm):
        return expr.value >= 0
    return isinstance(expr, ShapeVar) and expr in frame.extents


def call_kernel(
    frame: GraphFrame,
    linked: LinkedFunction,
    kernel: Callee,
    args: Sequence[Value],
) -> Value:
    """Call a kernel with DLTensors and scalars; return the address of its result, or NULL."""
    returns = linked.returns
    b = frame.b
    result = NULL if returns.is_void else b.alloca(memory_type(returns), hint="result")
    status = b.call(kernel, [frame.context, *args, result])
    frame.propagate(status)
    return result


def scalar_for(frame: GraphFrame, parameter: Parameter, value: Value, span: Span | None) -> Value:
    """Convert a 64-bit integer to a kernel's scalar; it must fit."""
    dtype = parameter.dtype
    if dtype is _INT64:
        return value
    if not (dtype.is_integer or dtype.is_float):
        raise InternalError(f"a graph passes an integer for {parameter.name}, which is {dtype}")
    b = frame.b
    made = cast(b, value, _INT64, dtype)
    if dtype.is_integer:
        back = cast(b, made, dtype, _INT64)
        fits = b.icmp("eq", back, value)
        if dtype.bits == 64:
            fits = b.icmp("sge", value, const(I64, 0))
        frame.require(fits, _too_large(parameter, dtype, span), value)
    return made


def scalar_of(
    frame: GraphFrame, p: Parameter, value: Value, known: StructInfo, span: Span | None
) -> Value:
    """Convert an object to the scalar, or null, that a kernel takes."""
    where = CheckedValue(faults.argument(p.name), span)
    if p.dtype.is_handle:
        require_kind(frame, value, [at.NULL_OBJECT], where)
        return NULL
    if not isinstance(known, PrimStructInfo):
        require_kind(frame, value, [at.PRIM], where)
    if not isinstance(known, PrimStructInfo) or known.dtype is not p.dtype:
        word = frame.word(value, at.DTYPE_WORD)
        fits = frame.b.icmp("eq", word, const(I64, dtype_word(p.dtype)))
        fault = faults.wrong_dtype(span, where.where, p.dtype, scalar=True)
        require_dtype(frame, fits, fault, word)
    return unbox(frame, value, p.dtype)


def _too_large(parameter: Parameter, dtype: DataType, span: Span | None) -> Fault:
    return Fault(
        FaultKind.WRONG_VALUE,
        (f"{faults.argument(parameter.name)} is ", 0, f", which does not fit {dtype}"),
        span,
        help=f"pass a number from {dtype.min_value} to {dtype.max_value}",
        code="RUN0009",
    )


def writable(frame: GraphFrame, value: Value, name: str, where: str, span: Span | None) -> None:
    """Stop with a fault if a tensor must not be written: a constant, or lent read-only."""
    b = frame.b
    count = b.load_atomic(I64, place(b, value, at.COUNT), "monotonic")
    constant = faults.write_to_constant(span, name, where)
    frame.require(b.icmp("sgt", count, const(I64, 0)), constant)
    flags = frame.word(value, at.FLAGS, I32)
    fits = b.icmp("eq", b.and_(flags, const(I32, at.READ_ONLY)), const(I32, 0))
    fault = Fault(
        FaultKind.WRONG_VALUE,
        (f"{where} is read-only, and {name} writes to it",),
        span,
        help="pass a copy that may be written",
        code="RUN0108",
    )
    frame.require(fits, fault)


def define_adapter(
    graph: GraphUnit, linked: LinkedFunction, kernel: Callee, code: Function
) -> None:
    """Write the function on objects that calls a kernel; it returns the empty tuple."""
    frame = GraphFrame(graph, code, linked.name)
    span = graph.prim_funcs[linked.name].span
    passed: list[Value] = []
    for parameter in linked.signature.parameters:
        b = frame.b
        value = b.load(PTR, b.gep(PTR, frame.args, const(I64, parameter.position)))
        at_ = CheckedValue(faults.argument(parameter.name), span)
        if parameter.buffer is not None:
            require_kind(frame, value, [at.TENSOR], at_)
            if parameter.written:
                writable(frame, value, linked.name, at_.where, span)
            passed.append(tensor_of(frame, value))
        else:
            passed.append(scalar_of(frame, parameter, value, OBJECT, span))
    call_kernel(frame, linked, kernel, passed)
    assert frame.result is not None
    frame.b.store(graph.unit_value(), frame.result)
    frame.finish()
