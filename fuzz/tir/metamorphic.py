"""Meaning-preserving transformations of programs: renaming, statements without effect."""

from __future__ import annotations

import json
from typing import Any

from loomir.ir.module import IRModule
from loomir.ir.serialize import from_json, to_json
from loomir.ir.visit import pre_order, rewrite
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Let,
    LetStmt,
    Stmt,
    Var,
    const,
    seq,
)

__all__ = ["renamed", "with_dead_code"]

INT32 = DataType("int32")


def renamed(module: IRModule) -> IRModule:
    """Return every variable and buffer one of two names: names are hints, and objects differ.

    It goes through JSON, where every node is written once and made anew.
    """
    data: dict[str, Any] = json.loads(to_json(module))
    for number, row in enumerate(data["nodes"]):
        if row[""] == "tir.Var":
            row["name_hint"] = "xy"[number % 2]
        elif row[""] == "tir.Buffer":
            row["name"] = "AB"[number % 2]
    made = from_json(json.dumps(data))
    assert isinstance(made, IRModule)
    return made


def with_dead_code(module: IRModule) -> IRModule:
    """Put statements around stores that have no effect or never run."""
    count = 0

    def around(store: BufferStore) -> Stmt:
        nonlocal count
        count += 1
        if any(isinstance(part, Let) for part in pre_order(store)):
            return seq([Evaluate(const(0, INT32)), store])  # a name is bound once
        again = BufferStore(store.buffer, store.value, store.indices)
        if count % 4 == 0:
            return seq([store, IfThenElse(const(False, BOOL), again)])
        if count % 4 == 1:
            name = Var("unused", INT32)
            return LetStmt(name, const(count, INT32), store)
        if count % 4 == 2:
            never = Var("never", INT32)
            return seq([For(never, const(0, INT32), const(0, INT32), ForKind.SERIAL, again), store])
        return seq([Evaluate(const(0, INT32)), store])

    made = {var: rewrite(func, {BufferStore: around}) for var, func in module.functions.items()}
    return IRModule(made, module.attrs)
