"""Small graphs, made of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import loomir
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.relax import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    ExternFunc,
    Function,
    MatchCast,
    PrimStructInfo,
    SeqExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import OBJECT
from loomir.script import from_source
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as SizeVar
from loomir.tir.function import PrimFunc


def size(name: str) -> SizeVar:
    """Make a shape variable."""
    return SizeVar(name, DataType("int64"))


def tensor(*dims: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(dims, dtype)


def shape(*dims: Any) -> ShapeStructInfo:
    return ShapeStructInfo(dims)


def prim(dtype: str = "int64", value: Any = None) -> PrimStructInfo:
    return PrimStructInfo(dtype, value)


def tuple_of(*fields: StructInfo) -> TupleStructInfo:
    return TupleStructInfo(fields)


def var(name: str, info: StructInfo | None = None) -> Var:
    return Var(name, info)


def bind(to: Var, value: Any) -> VarBinding:
    return VarBinding(to, value)


def cast(to: Var | None, value: Any, info: StructInfo) -> MatchCast:
    return MatchCast(to, value, info)


def seq(body: Any, *bindings: Binding, dataflow: bool = False) -> SeqExpr:
    kind = DataflowBlock if dataflow else BindingBlock
    return SeqExpr((kind(bindings),) if bindings else (), body)


def func(
    params: Sequence[Var],
    body: Any,
    ret: StructInfo | None = None,
    name: str = "main",
    **attrs: Any,
) -> Function:
    """Make a function that can be called from outside."""
    return Function(tuple(params), body, ret, attrs={"global_symbol": name, **attrs})


def module(**functions: BaseFunc) -> IRModule:
    return IRModule({GlobalVar(name): f for name, f in functions.items()})


def prim_func(text: str) -> PrimFunc:
    """Parse a loop-level function."""
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def op(name: str, *args: Any, sinfo: Sequence[StructInfo] = (), **attrs: Any) -> Call:
    """Call an operator."""
    found = find_op(f"relax.{name}")
    return Call(Op(f"relax.{name}") if found is None else found.op, args, tuple(sinfo), attrs)


def packed(name: str, *args: Any, sinfo: Sequence[StructInfo] = (OBJECT,)) -> Call:
    """Call a packed function."""
    return Call(ExternFunc(name), args, tuple(sinfo))


def call_tir(callee: str, args: Sequence[Any], *infos: StructInfo, ints: Any = None) -> Call:
    extra = () if ints is None else (ints,)
    return op("call_tir", GlobalVar(callee), Tuple(tuple(args)), *extra, sinfo=infos)


def const(value: Any, dtype: str = "float32") -> Constant:
    return Constant(np.array(value, dtype))


def run(program: Any, *args: Any, **options: Any) -> Any:
    """Run the function main, or the only one."""
    return loomir.interpret(program, *args, **options)
