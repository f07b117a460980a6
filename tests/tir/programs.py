"""Short ways to make programs for tests."""

from __future__ import annotations

from typing import Any

from loomir.tir import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Call,
    Evaluate,
    ExprLike,
    For,
    ForKind,
    IterVar,
    IterVarType,
    PrimExpr,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    Var,
    call_builtin,
    const,
    convert,
)

NOTHING = Evaluate(convert(0))


def var(name: str, dtype: str = "int32") -> Var:
    return Var(name, dtype)


def func(body: Stmt, *params: Var | Buffer, **fields: Any) -> PrimFunc:
    """A function whose buffers get handles for parameters."""
    names: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for param in params:
        if isinstance(param, Buffer):
            handle = Var(f"{param.name}_handle", "handle")
            buffers[handle] = param
            names.append(handle)
        else:
            names.append(param)
    attrs = fields.pop("attrs", {"global_symbol": "f"})
    return PrimFunc(tuple(names), body, buffer_map=buffers, attrs=attrs, **fields)


def use(*values: ExprLike) -> Stmt:
    """Statements that evaluate values."""
    parts = tuple(Evaluate(convert(v)) for v in values)
    return parts[0] if len(parts) == 1 else SeqStmt(parts)


def loop(
    name: Var,
    extent: ExprLike,
    body: Stmt,
    kind: ForKind = ForKind.SERIAL,
    start: ExprLike = 0,
    **fields: Any,
) -> For:
    def bound(value: ExprLike) -> PrimExpr:
        return value if isinstance(value, PrimExpr) else const(value, name.dtype)

    return For(name, bound(start), bound(extent), kind, body, **fields)


def call(name: str, *args: PrimExpr) -> Stmt:
    return Evaluate(call_builtin(name, *args))


def ret(value: ExprLike) -> Stmt:
    return call("ret", convert(value))


def iterator(name: Var, extent: ExprLike, kind: str = "S", start: ExprLike = 0) -> IterVar:
    kinds = {
        "S": IterVarType.DATA_PAR,
        "R": IterVarType.COMM_REDUCE,
        "O": IterVarType.ORDERED,
        "?": IterVarType.OPAQUE,
    }
    low = start if isinstance(start, PrimExpr) else const(start, name.dtype)
    size = extent if isinstance(extent, PrimExpr) else const(extent, name.dtype)
    return IterVar(Range(low, size), name, kinds[kind])


def block(
    iters: list[tuple[IterVar, ExprLike]],
    body: Stmt,
    predicate: PrimExpr = TRUE,
    name: str = "block",
    **fields: Any,
) -> BlockRealize:
    """A block with its iterators and their values."""
    values = tuple(v if isinstance(v, PrimExpr) else const(v, it.var.dtype) for it, v in iters)
    reads, writes = fields.pop("reads", ()), fields.pop("writes", ())
    made = Block(tuple(it for it, _ in iters), reads, writes, name, body, **fields)
    return BlockRealize(values, predicate, made)


def store(buffer: Buffer, value: ExprLike, *indices: ExprLike) -> BufferStore:
    wanted = value if isinstance(value, PrimExpr) else const(value, buffer.dtype)
    return BufferStore(buffer, wanted, tuple(convert(i) for i in indices))


def call_of(name: Any, dtype: Any, *args: PrimExpr) -> Stmt:
    return Evaluate(Call(dtype, name, args))
