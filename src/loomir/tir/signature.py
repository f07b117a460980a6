"""The signature of a function as data: what a call must bind and check.

It has three readers: native code checks by it, the interpreter binds by it, and errors of refused
calls are explained by it. All variables that are a shape, stride or offset by themselves are bound
first, over all parameters; then every other expression is checked (T35, T36). So the order of
parameters does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loomir.ir.module import IRModule
from loomir.ir.substitution import free_definitions
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse
from loomir.tir.types import dtype_of_type

__all__ = [
    "Binding",
    "Field",
    "Parameter",
    "Requirement",
    "Signature",
    "find_passed_vectors",
    "signature_of",
]


class Field(NamedTuple):
    """A number of an array: ``shape`` or ``strides`` at ``axis``, or ``elem_offset`` (axis -1)."""

    parameter: int
    what: str
    axis: int


class Binding(NamedTuple):
    """``var`` takes its value from ``source``; its dtype must be able to hold it."""

    var: Var
    source: Field


class Requirement(NamedTuple):
    """``source`` must equal ``value``, an expression of parameters and bound variables."""

    source: Field
    value: PrimExpr


class Parameter(NamedTuple):
    """A parameter: ``buffer`` is None for a scalar or an opaque handle."""

    position: int
    name: str
    var: Var
    buffer: Buffer | None
    written: bool

    @property
    def dtype(self) -> DataType:
        """The dtype of the scalar, or of the buffer's elements."""
        return self.var.dtype if self.buffer is None else self.buffer.dtype

    @property
    def span(self) -> Span | None:
        """Where the buffer is declared, or else the parameter."""
        buffer = self.buffer
        return self.var.span if buffer is None or buffer.span is None else buffer.span


class Signature(NamedTuple):
    """Parameters, bindings and requirements, each in the order in which a call handles them.

    A buffer without strides must be row-major (axes of size 1 and empty arrays aside). An
    ``elem_offset`` of None puts no requirement on the array's byte offset (T32). Two
    arrays of which one is written must not overlap (T38).
    """

    name: str
    parameters: tuple[Parameter, ...]
    bindings: tuple[Binding, ...]
    requirements: tuple[Requirement, ...]
    returns: DataType | None


def signature_of(func: PrimFunc, module: IRModule | None = None) -> Signature:
    """Derive the signature of a function; ``module`` has the functions that it calls.

    Errors: TIR0307 where a name in a shape is bound nowhere.
    """
    written = {id(b.data) for b in written_buffers(func, module)}
    parameters: list[Parameter] = []
    for index, var in enumerate(func.params):
        buffer = func.buffer_map.get(var)
        name = var.name_hint if buffer is None else buffer.name
        is_written = buffer is not None and id(buffer.data) in written
        parameters.append(Parameter(index, name, var, buffer, is_written))
    known = {id(p.var) for p in parameters if p.buffer is None}
    bindings: list[Binding] = []
    checks: list[Requirement] = []
    for source, value in _fields(parameters):
        if isinstance(value, Var) and id(value) not in known:
            known.add(id(value))
            bindings.append(Binding(value, source))
        else:
            checks.append(Requirement(source, value))
    for check in checks:
        for name in free_definitions(check.value):
            if id(name) not in known:
                refuse(
                    "TIR0307",
                    f"nothing binds {getattr(name, 'name_hint', name)!r} in the "
                    f"{check.source.what} of parameter "
                    f"{parameters[check.source.parameter].name!r}",
                    help="make it a parameter, or use it by itself as some axis's extent",
                    span=func.span,
                )
    returns = func.ret_type
    dtype = getattr(returns, "dtype", None)
    return Signature(
        func.name,
        tuple(parameters),
        tuple(bindings),
        tuple(checks),
        dtype if isinstance(dtype, DataType) else None,
    )


def find_passed_vectors(func: PrimFunc) -> list[Diagnostic]:
    """List the vectors that a function takes or returns, which callers cannot pass (TIR0423)."""
    kinds = [(f"parameter {p.name_hint!r}", p.dtype, p.span) for p in func.params]
    kinds.append(("the result", dtype_of_type(func.ret_type), None))
    return [
        Diagnostic(
            "TIR0423",
            f"{what} of {func.name!r} is a vector of {dtype}, which no caller has",
            func.span if span is None else span,
            help="pass an array of the elements, or make the function private",
        )
        for what, dtype, span in kinds
        if dtype.lanes > 1
    ]


def _fields(parameters: list[Parameter]) -> Iterator[tuple[Field, PrimExpr]]:
    for p in parameters:
        if p.buffer is not None:
            for axis, extent in enumerate(p.buffer.shape):
                yield Field(p.position, "shape", axis), extent
            for axis, stride in enumerate(p.buffer.strides):
                yield Field(p.position, "strides", axis), stride
            offset = p.buffer.elem_offset
            from_start = offset is None or (isinstance(offset, IntImm) and offset.value == 0)
            if offset is not None and not from_start:
                yield Field(p.position, "elem_offset", -1), offset
