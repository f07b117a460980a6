"""Large and deep programs pass through the pipeline without recursion, in linear time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loomir.ir.module import GlobalVar, IRModule
from loomir.support.dtype import DataType
from loomir.tir import (
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    Var,
    const,
    decl_buffer,
    seq,
)
from loomir.transform import lower
from tests.growth import assert_grows

INT32 = DataType("int32")


def module(body: Stmt, buffer: Any) -> IRModule:
    handle = Var("a", "handle")
    func = PrimFunc((handle,), body, None, {handle: buffer}, {"global_symbol": "main"})
    return IRModule({GlobalVar("main"): func})


def many(count: int) -> IRModule:
    """Make a function of so many statements: stores, half of them in loops."""
    buffer = decl_buffer((64, 64), "int32", "A")
    statements: list[Stmt] = []
    for k in range(count // 4):
        i, j = Var("i", "int32"), Var("j", "int32")
        store = BufferStore(buffer, buffer[i, j] + k, (i, j))
        inner = For(j, const(0, INT32), const(64, INT32), ForKind.SERIAL, store)
        statements.append(For(i, const(0, INT32), const(64, INT32), ForKind.SERIAL, inner))
        statements.append(BufferStore(buffer, const(k, INT32), (const(k % 64, INT32),) * 2))
    return module(seq(statements), buffer)


def test_deep_nesting_of_lets_and_conditions():
    buffer = decl_buffer((64,), "int32", "A")
    x = Var("x", "int32")
    body: Stmt = BufferStore(buffer, x, (const(0, INT32),))
    for k in range(2_000):
        outer = Var("x", "int32")
        body = LetStmt(x, outer * 3 + k, IfThenElse(outer > k, body))
        x = outer
    body = LetStmt(x, buffer[const(1, INT32)], body)
    lower(module(body, buffer), verify=True)


def test_time_grows_with_the_program_and_not_faster():
    def lowering(count: int) -> Callable[[], object]:
        mod = many(count)
        return lambda: lower(mod, verify=False)

    # Four times the program: 4 if linear, 16 if quadratic.
    assert_grows(9, lowering, 1_000, 4_000)
