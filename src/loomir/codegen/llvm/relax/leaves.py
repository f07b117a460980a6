"""Emit leaves: variables, constants, tuples, shapes, scalars, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.codegen.llvm.assembler.types import I64
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.relax.boxes import box
from loomir.codegen.llvm.relax.frame import GraphFrame
from loomir.codegen.llvm.relax.invoke import define_packed_code
from loomir.ir.module import GlobalVar
from loomir.ir.visit import Step
from loomir.relax.expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    PrimValue,
    StringImm,
    Tuple,
    Var,
)
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.expr import IntImm

__all__ = ["LEAVES", "facts", "global_value", "leaf", "make_shape"]


def leaf(frame: GraphFrame, expr: RelaxExpr) -> Step[Value]:
    """Return the value of a leaf expression, a borrowed reference during the current binding."""
    rule = LEAVES.get(expr.__class__)
    if rule is None:
        raise InternalError(
            f"a {type(expr).__name__} is not a leaf: the graph is not in normal form"
        )
    return rule(frame, expr)


def facts(expr: RelaxExpr) -> StructInfo:
    """Return the structural information of a leaf expression."""
    if isinstance(expr, Var):
        return expr.struct_info_annotation or OBJECT
    if isinstance(expr, Constant):
        return expr.struct_info
    if isinstance(expr, ShapeExpr):
        return ShapeStructInfo(expr.values)
    if isinstance(expr, PrimValue):
        return PrimStructInfo(expr.value.dtype, expr.value)
    if isinstance(expr, Tuple):
        if any(isinstance(f, Tuple) for f in expr.fields):
            return OBJECT
        return TupleStructInfo(tuple([facts(f) for f in expr.fields]))
    return OBJECT


def _var(frame: GraphFrame, e: Var) -> Step[Value]:
    return frame.read_var(e)
    yield


def _constant(frame: GraphFrame, e: Constant) -> Step[Value]:
    return frame.graph.tensor(e.data)
    yield


def _tuple(frame: GraphFrame, e: Tuple) -> Step[Value]:
    values: list[Value] = []
    for field in e.fields:
        value: Value = yield leaf(frame, field)
        values.append(value)
    return frame.tuple_of(values, e.span)


def _shape(frame: GraphFrame, e: ShapeExpr) -> Step[Value]:
    extents = [v.value for v in e.values if isinstance(v, IntImm)]
    if len(extents) == len(e.values):
        return frame.graph.shape(tuple(extents))
    values: list[Value] = []
    for part in e.values:
        value: Value = yield frame.value(part)
        values.append(value)
    return make_shape(frame, values, e.span)


def make_shape(frame: GraphFrame, extents: Sequence[Value], span: Span | None) -> Value:
    """Make a shape of extents, kept until the current binding is done."""
    made = frame.new(at.ITEMS + 8 * len(extents), at.SHAPE, span, "a shape")
    frame.set_word(const(I64, len(extents)), made, at.LENGTH)
    for i, extent in enumerate(extents):
        frame.set_word(extent, made, at.ITEMS + 8 * i)
    return made


def _prim(frame: GraphFrame, e: PrimValue) -> Step[Value]:
    expr = e.value
    dtype = expr.dtype
    if isinstance(expr, IntImm):
        return frame.graph.prim(dtype, expr.value)
    value: Value = yield frame.value(expr)
    return box(frame, value, dtype, e.span)


def _string(frame: GraphFrame, e: StringImm) -> Step[Value]:
    return frame.graph.text(e.value)
    yield


def _dtype(frame: GraphFrame, e: DataTypeImm) -> Step[Value]:
    return frame.graph.dtype(e.value)
    yield


def _extern(frame: GraphFrame, e: ExternFunc) -> Step[Value]:
    own = frame.graph.symbols.get(e.global_symbol)
    if own is not None:
        known = frame.graph.find_function(own)
        assert known is not None
        return known.value
    return frame.graph.find_packed(e.global_symbol, define_packed_code(frame.graph))
    yield


def _global(frame: GraphFrame, e: GlobalVar) -> Step[Value]:
    return global_value(frame, e)
    yield


def global_value(frame: GraphFrame, e: GlobalVar) -> Value:
    """Return a function of the module as a value."""
    known = frame.graph.find_function(e.name_hint)
    if known is None:
        raise InternalError(f"a graph names {e.name_hint!r}, which is not in the module")
    return known.value


LEAVES: Final[Mapping[type, Callable[[GraphFrame, Any], Step[Value]]]] = {
    Var: _var,
    DataflowVar: _var,
    Constant: _constant,
    Tuple: _tuple,
    ShapeExpr: _shape,
    PrimValue: _prim,
    StringImm: _string,
    DataTypeImm: _dtype,
    ExternFunc: _extern,
    GlobalVar: _global,
}
