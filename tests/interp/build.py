"""Short ways to make and run programs for the tests of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loomir.interp import interpret
from loomir.ir.module import GlobalVar, IRModule
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    PrimExpr,
    PrimFunc,
    Ramp,
    Stmt,
    Type,
    Var,
    call_builtin,
    const,
    decl_buffer,
    seq,
)


def func(
    params: list[Buffer | Var], *body: Stmt, name: str = "main", ret: Type | None = None
) -> PrimFunc:
    """Make a function; a buffer among the parameters gets a handle."""
    handles = [Var(p.name, "handle") if isinstance(p, Buffer) else p for p in params]
    buffers = {h: p for h, p in zip(handles, params, strict=True) if isinstance(p, Buffer)}
    return PrimFunc(tuple(handles), seq(body), ret, buffers, {"global_symbol": name})


def module(*funcs: PrimFunc) -> IRModule:
    return IRModule({GlobalVar(f.name): f for f in funcs})


def run(params: list[Buffer | Var], *body: Stmt, args: tuple[object, ...] = (), **options: Any):
    return interpret(func(params, *body), "main", *args, **options)


def ret(value: PrimExpr) -> Stmt:
    return Evaluate(call_builtin("ret", value))


def value_of(expr: PrimExpr, given: Mapping[Var, object] | None = None) -> Any:
    """Evaluate an expression; a vector comes back as a list."""
    given = given or {}
    params: list[Buffer | Var] = list(given)
    if expr.dtype.lanes == 1:
        return run(params, ret(expr), args=tuple(given.values()))
    lanes = expr.dtype.lanes
    out = decl_buffer((lanes,), expr.dtype.element, "out")
    index = Ramp(i32(0), i32(1), lanes)
    result = np.zeros(lanes, numpy_of(expr.dtype))
    run([*params, out], BufferStore(out, expr, (index,)), args=(*given.values(), result))
    return result.tolist()


def i32(value: int) -> PrimExpr:
    return const(value, "int32")


def f32(value: float) -> PrimExpr:
    return const(value, "float32")


def loop(
    var: Var,
    extent: PrimExpr | int,
    *body: Stmt,
    kind: ForKind = ForKind.SERIAL,
    start: PrimExpr | int = 0,
) -> For:
    """Loop from ``start`` over ``extent`` iterations."""

    def number(x: PrimExpr | int) -> PrimExpr:
        return const(x, var.dtype) if isinstance(x, int) else x

    return For(var, number(start), number(extent), kind, seq(body))


def store(buffer: Buffer, value: PrimExpr, *indices: PrimExpr | int) -> BufferStore:
    return BufferStore(buffer, value, tuple(i32(i) if isinstance(i, int) else i for i in indices))


def load(buffer: Buffer, *indices: PrimExpr | int) -> BufferLoad:
    return BufferLoad(buffer, tuple(i32(i) if isinstance(i, int) else i for i in indices))


def call(name: str, *args: PrimExpr, dtype: str = "void") -> Call:
    return Call(DataType(dtype), GlobalVar(name), args)


def array(*values: object, dtype: str = "int32") -> Any:
    return np.array(values, numpy_of(DataType(dtype)))


Made = Callable[..., PrimExpr]
