"""Apply the rule of an operator to values at run time.

Values are those of a running graph: a tensor is a NumPy array, a tuple a tuple, a shape a
``Shape``, a scalar a NumPy scalar, a string a ``str``, a dtype a ``DataType``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import GlobalVar
from loomir.ir.visit import Step, trampoline
from loomir.relax.expr import Call, Constant, DataTypeImm, PrimValue, StringImm, Tuple, Var
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import OpDef
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime.errors import RunValueError
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import CompileError, InternalError
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.support.span import Span
from loomir.tir.expr import FloatImm, IntImm, PrimExpr

__all__ = ["describe", "infer_of_values", "literal", "scalar_dtype"]

Describe = Callable[[Any], StructInfo]


def scalar_dtype(value: object) -> DataType | None:
    """Return the dtype of a scalar: the widest for Python's numbers, None for other objects."""
    if isinstance(value, np.generic):
        return dtype_of_numpy(cast("Any", value).dtype)
    if isinstance(value, bool):
        return DataType("bool")
    if isinstance(value, int):
        return DataType("int64")
    return DataType("float64") if isinstance(value, float) else None


def literal(value: Any, dtype: DataType) -> PrimExpr:
    """Write a scalar as an expression."""
    return FloatImm(float(value), dtype) if dtype.is_float else IntImm(int(value), dtype)


def describe(value: Any, other: Describe = lambda value: OBJECT) -> StructInfo:
    """Return the structural information of a value; ``other`` is that of functions and objects."""
    return trampoline(_describe(value, other))


def _describe(value: Any, other: Describe) -> Step[StructInfo]:
    if isinstance(value, np.ndarray):
        array = cast("Any", value)
        dtype = dtype_of_numpy(array.dtype)
        return other(array) if dtype is None else TensorStructInfo(ShapeExpr(array.shape), dtype)
    if isinstance(value, Shape):
        return ShapeStructInfo(cast("Any", tuple(value)))
    if isinstance(value, tuple):
        fields: list[StructInfo] = []
        for field in cast("tuple[Any, ...]", value):
            fields.append((yield _describe(field, other)))
        return TupleStructInfo(tuple(fields))
    scalar = scalar_dtype(value)
    return other(value) if scalar is None else PrimStructInfo(scalar, literal(value, scalar))


def infer_of_values(
    definition: OpDef,
    values: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    args: Sequence[RelaxExpr] | None = None,
    claims: Sequence[StructInfo] = (),
    span: Span | None = None,
    describe: Describe = describe,
) -> StructInfo:
    """Apply an operator's own rule to values; ``args`` are those of the call, if they matter.

    Errors: RUN0212, with the message of the rule if it refuses the call.
    """
    infos = [describe(value) for value in values]
    given = [None] * len(infos) if args is None else args
    made = [_leaf(*both) for both in zip(given, values, infos, strict=True)]
    call = Call(definition.op, tuple(made), tuple(claims), attrs, span=span)
    known = {id(e): info for e, info in zip(made, infos, strict=True)}
    context = OpContext(
        call,
        infos,
        Analyzer(),
        lookup=lambda e: known[id(e)] if id(e) in known else _leaf_info(e),
        warn=lambda diagnostic: None,
        running=True,
    )
    try:
        return definition.infer(context)
    except CompileError as error:
        refused = [replace(d.at(span), code="RUN0212") for d in error.diagnostics]
    raise RunValueError(*refused)


def _leaf(arg: RelaxExpr | None, value: Any, info: StructInfo) -> RelaxExpr:
    """Write a value as a leaf of a program."""
    if isinstance(arg, (Constant, GlobalVar)):
        return arg
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, DataType):
        return DataTypeImm(value)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return ShapeExpr(info.values)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimValue(info.value)
    if isinstance(info, TupleStructInfo) and (arg is None or isinstance(arg, Tuple)):
        return Tuple(tuple(Var("field", field) for field in info.fields))
    return Var("value", info)


def _leaf_info(expr: Any) -> StructInfo:
    if isinstance(expr, (Var, Constant)):
        return expr.struct_info
    if isinstance(expr, Tuple):
        return TupleStructInfo(tuple(_leaf_info(f) for f in expr.fields))
    if isinstance(expr, ShapeExpr):
        return ShapeStructInfo(expr.values)
    if isinstance(expr, PrimValue):
        return PrimStructInfo(expr.value.dtype, expr.value)
    raise InternalError(f"an operator asks for what is known of {expr}")
